// Helpers that the binding files share.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <stdexcept>

#include "ops.h"

namespace dp {

namespace nb = nanobind;

// An array that crosses as it is. Of one of another type or layout nanobind would make a copy: its values would be converted,
// and what is written there would be lost. So that is a TypeError.
template <class T, class... Shape>
struct Array : nb::ndarray<T, Shape..., nb::c_contig, nb::device::cpu> {
  using Base = nb::ndarray<T, Shape..., nb::c_contig, nb::device::cpu>;
  Array() = default;
  Array(const Base& array) : Base(array) {}
};
template <class T>
using Flat = Array<T, nb::ndim<1>>;

// Most arrays cross as flat bytes: they may be views of a mapped file, unaligned and read-only. kernels/interface has checked
// shapes and types; the functions check lengths again, because they hold pointers.
using InBytes = Flat<const u8>;
using OutBytes = Flat<u8>;
using In32 = Flat<const u32>;
using InWords = Flat<const u64>;
using OutWords = Flat<u64>;

template <class Array>
size_t count_of(const Array& array, size_t item, const char* what) {
  if (item == 0 || array.size() % item != 0) throw std::invalid_argument(std::string(what) + ": not whole elements");
  return array.size() / item;
}

template <class Array>
void expect(const Array& array, size_t bytes, const char* what) {
  if (array.size() != bytes) throw std::invalid_argument(std::string(what) + ": wrong length");
}

template <class T = u64, class Array>
void aligned(const Array& array, const char* what) {
  if (reinterpret_cast<std::uintptr_t>(array.data()) % sizeof(T) != 0)
    throw std::invalid_argument(std::string(what) + ": not aligned");
}

// A matrix of arrays whose lengths fit each other; values of `bytes` bytes. Its indices are still to be checked.
inline CsrView csr_view(const InBytes& row_ptr, const InBytes& columns, const InBytes& value_index, const InBytes& values,
                        size_t bytes, size_t cols) {
  const size_t ends = count_of(row_ptr, sizeof(u32), "row_ptr"), nnz = count_of(columns, sizeof(u32), "columns");
  if (ends == 0) throw std::invalid_argument("row_ptr: empty");
  expect(value_index, columns.size(), "value_index");
  const size_t distinct = count_of(values, bytes, "values");
  return {ends - 1, cols, nnz, distinct, row_ptr.data(), columns.data(), value_index.data(), values.data()};
}

// The least hit below `limit`, or `limit`. search(first, n) returns the place of the first hit among n numbers from `first` on,
// or n.
template <class Search>
u64 least_hit(Pool& pool, u64 limit, u64 piece, const Search& search) {
  std::atomic<u64> next{0}, least{limit};
  pool.run((size_t)pool.threads(), [&](size_t, int) {
    for (u64 first = next.fetch_add(piece); first < least.load(); first = next.fetch_add(piece)) {
      const u64 n = std::min(piece, limit - first), found = search(first, n);
      u64 known = least.load();
      while (found < n && first + found < known && !least.compare_exchange_weak(known, first + found)) {
      }
    }
  });
  return least.load();
}

void bind_fields(nb::module_& m);
void bind_groups(nb::module_& m);
void bind_sparse_points(nb::module_& m);
void bind_cpu_features(nb::module_& m);
void bind_pairing(nb::module_& m);
void bind_inner_products(nb::module_& m);
void bind_rows(nb::module_& m);
void bind_goldilocks(nb::module_& m);
void bind_babybear(nb::module_& m);
void bind_riscv(nb::module_& m);
void bind_recursion(nb::module_& m);
void bind_wrap_witness(nb::module_& m);

}  // namespace dp

namespace nanobind::detail {

template <class T, class... Shape>
struct type_caster<dp::Array<T, Shape...>> {
  using Given = dp::Array<T, Shape...>;
  using Base = type_caster<typename Given::Base>;
  NB_TYPE_CASTER(Given, Base::Name)

  template <class Flags>
  bool from_python(handle src, Flags flags, cleanup_list* cleanup) noexcept {
    Base caster;
    if (!caster.from_python(src, flags & ~(Flags)cast_flags::convert, cleanup)) return false;
    value = Given(caster.value);
    return true;
  }
};

}  // namespace nanobind::detail
