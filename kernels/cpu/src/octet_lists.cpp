// Rewrites lists of 32 bytes in a text of JSON, "[7,0,...]", as strings: a mark, and the 64 hexadecimal digits of the
// little-endian number that they are. A decoder makes one object of a string and 33 of the list. One pass; everything
// else stays as it is, so that what is no JSON, or no list of 32 numbers below 256, is left to the decoder and to
// whoever reads its values. Syntax: RFC 8259.
#include "octet_lists.h"

#include <cstring>
#include <vector>

#include "bindings.h"

namespace dp {

namespace {

constexpr unsigned kOctets = 32;
constexpr char kDigits[] = "0123456789abcdef";

bool is_space(u8 byte) { return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t'; }

bool is_digit(u8 byte) { return byte >= '0' && byte <= '9'; }

// The list that begins at the bracket `from`: its bytes, and the place behind it; nullptr where it is no such list.
const u8* octets(const u8* from, const u8* end, u8* found) {
  const u8* at = from + 1;
  for (unsigned k = 0; k < kOctets; k++) {
    while (at != end && is_space(*at)) at++;
    const u8* first = at;
    unsigned value = 0;
    while (at != end && is_digit(*at) && at - first < 3) value = 10 * value + (*at++ - '0');
    if (at == first || value > 255 || (*first == '0' && at - first > 1)) return nullptr;
    found[k] = u8(value);
    while (at != end && is_space(*at)) at++;
    if (at == end || *at != (k + 1 < kOctets ? ',' : ']')) return nullptr;
    at++;
  }
  return at;
}

// The place behind the string whose opening quote is at `from`, or the end.
const u8* behind_string(const u8* from, const u8* end) {
  for (const u8* at = from + 1; at != end; at++) {
    if (*at == '"') return at + 1;
    if (*at == '\\' && ++at == end) break;
  }
  return end;
}

std::vector<char> fold(const u8* data, u64 size, char mark) {
  std::vector<char> out;
  out.reserve(size + size / 16 + 80);  // the shortest list, of 65 bytes, becomes 67
  const u8 *at = data, *const end = data + size;
  const auto copy = [&](const u8* until) {
    out.insert(out.end(), at, until);
    at = until;
  };
  u8 found[kOctets];
  while (at != end) {
    if (*at == '"') {
      copy(behind_string(at, end));
    } else if (const u8* behind = *at == '[' ? octets(at, end, found) : nullptr) {
      char text[2 * kOctets + 3];
      char* to = text;
      *to++ = '"';
      *to++ = mark;
      for (unsigned k = kOctets; k--;) {
        *to++ = kDigits[found[k] >> 4];
        *to++ = kDigits[found[k] & 15];
      }
      *to = '"';
      out.insert(out.end(), text, text + sizeof text);
      at = behind;
    } else {
      const u8* until = at + 1;
      while (until != end && *until != '"' && *until != '[') until++;
      copy(until);
    }
  }
  return out;
}

}  // namespace

void bind_octet_lists(nb::module_& m) {
  // The text `data` with each list of 32 bytes as a string that begins with `mark`, a byte of ASCII that needs no escape.
  m.def("fold_octet_lists", [](InBytes data, u8 mark) {
    std::vector<char> folded;
    {
      nb::gil_scoped_release released;
      folded = fold(data.data(), data.size(), char(mark));
    }
    return nb::bytes(folded.data(), folded.size());
  });
}

}  // namespace dp
