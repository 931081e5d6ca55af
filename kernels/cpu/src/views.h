// Typed views of byte arrays that may lie at any address: fields and points are used in place in a mapped key.
#pragma once
#include <cstddef>

#include "platform.h"

namespace dp {

using u8 = unsigned char;

template <class T>
class In {
 public:
  explicit In(const u8* p) : p_(p) {}
  T operator[](size_t i) const {
    T v;
    std::memcpy(&v, p_ + i * sizeof(T), sizeof(T));
    return v;
  }
  // All of it: what lies in a mapped key straddles cache lines.
  void prefetch(size_t i) const {
    const u8* const p = p_ + i * sizeof(T);
    for (size_t at = 0; at < sizeof(T); at += 64) __builtin_prefetch(p + at);
    __builtin_prefetch(p + sizeof(T) - 1);
  }

 private:
  const u8* p_;
};

template <class T>
class Out {
 public:
  explicit Out(u8* p) : p_(p) {}
  void put(size_t i, const T& v) const { std::memcpy(p_ + i * sizeof(T), &v, sizeof(T)); }
  T operator[](size_t i) const { return In<T>(p_)[i]; }

 private:
  u8* p_;
};

}  // namespace dp
