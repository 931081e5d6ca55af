// Checks that bytes are one value in the canonical subset of MessagePack, before anything is allocated for it: what
// distprove/formats/canonical.py writes, and nothing else. One pass over the headers; bound by their number, some 10 ns
// each. Format: https://github.com/msgpack/msgpack/blob/master/spec.md.
#include "canonical_scan.h"

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "bindings.h"

namespace dp {

namespace {

enum class Kind { none, constant, number, negative, bytes, text, array, map };

// What a tag stands for: a kind; the width in bytes of the number or length that follows; that number if the tag itself
// holds it; the least number that has no shorter form (a negative n counts as -1 - n).
struct Form {
  Kind kind = Kind::none;
  unsigned width = 0;
  u64 count = 0;
  u64 least = 0;
};

constexpr Form wide(Kind kind, unsigned width, u64 least) { return {kind, width, 0, least}; }

Form form_of(u8 tag) {
  if (tag < 0x80) return {Kind::constant};
  if (tag < 0x90) return {Kind::map, 0, u64(tag - 0x80)};
  if (tag < 0xa0) return {Kind::array, 0, u64(tag - 0x90)};
  if (tag < 0xc0) return {Kind::text, 0, u64(tag - 0xa0)};
  if (tag >= 0xe0) return {Kind::number};  // -32 to -1: Python keeps only some of them
  switch (tag) {
    case 0xc0: case 0xc2: case 0xc3: return {Kind::constant};
    case 0xc4: return wide(Kind::bytes, 1, 0);
    case 0xc5: return wide(Kind::bytes, 2, 1u << 8);
    case 0xc6: return wide(Kind::bytes, 4, 1u << 16);
    case 0xcc: return wide(Kind::number, 1, 1u << 7);
    case 0xcd: return wide(Kind::number, 2, 1u << 8);
    case 0xce: return wide(Kind::number, 4, 1u << 16);
    case 0xcf: return wide(Kind::number, 8, u64(1) << 32);
    case 0xd0: return wide(Kind::negative, 1, 1u << 5);
    case 0xd1: return wide(Kind::negative, 2, 1u << 7);
    case 0xd2: return wide(Kind::negative, 4, 1u << 15);
    case 0xd3: return wide(Kind::negative, 8, u64(1) << 31);
    case 0xd9: return wide(Kind::text, 1, 1u << 5);
    case 0xda: return wide(Kind::text, 2, 1u << 8);
    case 0xdb: return wide(Kind::text, 4, 1u << 16);
    case 0xdc: return wide(Kind::array, 2, 1u << 4);
    case 0xdd: return wide(Kind::array, 4, 1u << 16);
    case 0xde: return wide(Kind::map, 2, 1u << 4);
    case 0xdf: return wide(Kind::map, 4, 1u << 16);
  }
  return {};
}

// Maximum bytes that a decoded object takes.
u64 cost_of(Kind kind, u64 count) {
  switch (kind) {
    case Kind::number: case Kind::negative: return 32;
    case Kind::bytes: return count <= 1 ? count : 48 + count;  // of one byte Python keeps all
    case Kind::text: return 80 + 4 * count;
    case Kind::array: return 80 + 8 * count;
    case Kind::map: return 80 + 104 * count;
    default: return 0;
  }
}

// A container that is not at its end: how many values are still to come, whether it is a map, and its last key.
struct Container {
  u64 left;
  bool is_map;
  const u8* key = nullptr;
  u64 key_size = 0;
};

[[noreturn]] void refuse(const std::string& why) { throw std::invalid_argument(why); }

std::string at(u64 place) { return ", at byte " + std::to_string(place) + ")"; }

std::string beyond(u64 size) {
  return "truncated, or a length that exceeds the file's " + std::to_string(size) + " bytes";
}

void scan(const u8* data, u64 size, u64 most, u64 affordable, u64 depth) {
  u64 position = 0, owed = 1, cost = 0;
  Container inner{1, false};
  std::vector<Container> outer;
  for (u64 seen = 0;; seen++) {
    while (!inner.left && !outer.empty()) {
      inner = outer.back();
      outer.pop_back();
    }
    if (!inner.left) break;
    if (seen == most) refuse("more than " + std::to_string(most) + " values");
    if (position >= size) refuse("truncated at byte " + std::to_string(size));
    const u64 start = position;
    const Form form = form_of(data[start]);
    if (form.kind == Kind::none) {
      const char* digits = "0123456789abcdef";
      refuse(std::string("a value of a kind that is not allowed (tag 0x") + digits[data[start] >> 4] +
             digits[data[start] & 15] + " at byte " + std::to_string(start) + ")");
    }
    position += 1 + form.width;
    inner.left--;
    owed--;
    if (position > size) refuse(beyond(size));
    u64 count = form.count;
    bool shorter = false;  // whether there is a shorter form
    for (unsigned i = 0; i < form.width; i++) count = count << 8 | data[start + 1 + i];
    if (form.kind == Kind::negative) {
      const unsigned unused = 64 - 8 * form.width;
      const int64_t value = int64_t(count << unused) >> unused;
      shorter = value >= 0;
      count = ~u64(value);
    }
    shorter |= form.width && count < form.least;
    u64 children = 0;
    if (form.kind == Kind::array || form.kind == Kind::map) {
      children = form.kind == Kind::array ? count : 2 * count;
      owed += children;
    } else if (form.kind == Kind::bytes || form.kind == Kind::text) {
      position += count;
    }
    if (position + owed > size) refuse(beyond(size));
    if (shorter) refuse("not in canonical form (a longer form of a value" + at(start));
    cost += cost_of(form.kind, count);
    if (cost > affordable) refuse("more small values than a file of " + std::to_string(size) + " bytes may hold");
    if (inner.is_map && inner.left & 1) {
      if (form.kind != Kind::text) refuse("a map key that is not a string, at byte " + std::to_string(start));
      const u8* key = data + position - count;
      if (inner.key) {
        const int order = std::memcmp(key, inner.key, count < inner.key_size ? count : inner.key_size);
        if (order < 0 || (order == 0 && count <= inner.key_size))
          refuse("not in canonical form (duplicate or unsorted keys" + at(start));
      }
      inner.key = key;
      inner.key_size = count;
    }
    if (children) {
      outer.push_back(inner);
      inner = {children, form.kind == Kind::map};
      if (outer.size() > depth) refuse("nested deeper than " + std::to_string(depth));
    }
  }
  if (position != size) refuse(std::to_string(size - position) + " bytes after the end");
}

}  // namespace

void bind_canonical_scan(nb::module_& m) {
  // Raises ValueError, which says what is wrong, unless there are at most `most` values, nested at most `depth` deep,
  // whose objects take at most `affordable` bytes.
  m.def("canonical_scan", [](InBytes data, u64 most, u64 affordable, u64 depth) {
    nb::gil_scoped_release released;
    scan(data.data(), data.size(), most, affordable, depth);
  });
}

}  // namespace dp
