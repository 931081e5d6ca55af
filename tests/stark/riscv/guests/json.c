// Private input: a text of at most 1 MiB. Public output, if it is JSON (RFC 8259): the numbers of objects, arrays, strings
// (names among them), numbers, and literals; the greatest depth; the sum modulo 2^32 of the numbers without fraction and
// exponent; the sum h = 31 h + byte over all bytes of decoded strings, in UTF-8. Exit code 1 if it is not JSON. UTF-8 is not
// checked, and lone surrogates are encoded as they stand.
#include "guest.h"

enum { DEEPEST = 64 };

static char text[(1u << 20) + 1];
static const char* at;
static uint32_t objects, arrays, strings, numbers, literals, deepest, sum, hash;

static void skip(void) {
  while (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r') ++at;
}

static void hash_byte(uint32_t byte) { hash = 31 * hash + byte; }

static void hash_point(uint32_t point) {
  if (point < 0x80) {
    hash_byte(point);
    return;
  }
  if (point < 0x800) {
    hash_byte(0xc0 | point >> 6);
  } else {
    if (point < 0x10000) {
      hash_byte(0xe0 | point >> 12);
    } else {
      hash_byte(0xf0 | point >> 18);
      hash_byte(0x80 | (point >> 12 & 63));
    }
    hash_byte(0x80 | (point >> 6 & 63));
  }
  hash_byte(0x80 | (point & 63));
}

// Four hexadecimal digits, or -1.
static int32_t hex(void) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i, ++at) {
    const char c = *at;
    uint32_t digit;
    if (c >= '0' && c <= '9')
      digit = c - '0';
    else if (c >= 'a' && c <= 'f')
      digit = c - 'a' + 10;
    else if (c >= 'A' && c <= 'F')
      digit = c - 'A' + 10;
    else
      return -1;
    value = value << 4 | digit;
  }
  return (int32_t)value;
}

static int escape(void) {
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  if (*at == 'u') {
    ++at;
    int32_t point = hex();
    if (point < 0) return 0;
    if (point >> 10 == 0x36 && at[0] == '\\' && at[1] == 'u') {
      const char* const here = at;
      at += 2;
      const int32_t low = hex();
      if (low < 0) return 0;
      if (low >> 10 == 0x37)
        point = 0x10000 + ((point & 0x3ff) << 10 | (low & 0x3ff));
      else
        at = here;
    }
    hash_point((uint32_t)point);
    return 1;
  }
  for (int i = 0; i < 8; ++i)
    if (*at == from[i]) {
      ++at;
      hash_byte((uint8_t)to[i]);
      return 1;
    }
  return 0;
}

static int string(void) {
  if (*at++ != '"') return 0;
  ++strings;
  while (*at != '"') {
    if ((uint8_t)*at < 0x20) return 0;  // the end of the text is one of these
    if (*at == '\\') {
      ++at;
      if (!escape()) return 0;
    } else {
      hash_byte((uint8_t)*at++);
    }
  }
  ++at;
  return 1;
}

static int digit(void) { return *at >= '0' && *at <= '9'; }

static int number(void) {
  const int negative = *at == '-';
  uint32_t value = 0;
  int whole = 1;
  at += negative;
  if (!digit()) return 0;
  if (*at == '0')
    ++at;
  else
    while (digit()) value = 10 * value + (uint32_t)(*at++ - '0');
  if (*at == '.') {
    whole = 0;
    ++at;
    if (!digit()) return 0;
    while (digit()) ++at;
  }
  if (*at == 'e' || *at == 'E') {
    whole = 0;
    ++at;
    if (*at == '+' || *at == '-') ++at;
    if (!digit()) return 0;
    while (digit()) ++at;
  }
  ++numbers;
  if (whole) sum += negative ? -value : value;
  return 1;
}

static int literal(const char* word) {
  while (*word)
    if (*at++ != *word++) return 0;
  ++literals;
  return 1;
}

static int value(uint32_t depth) {
  skip();
  if (depth > DEEPEST) return 0;
  if (depth > deepest) deepest = depth;
  switch (*at) {
    case '{':
    case '[': {
      const int object = *at++ == '{';
      const char end = object ? '}' : ']';
      if (object)
        ++objects;
      else
        ++arrays;
      skip();
      if (*at == end) {
        ++at;
        return 1;
      }
      for (;;) {
        if (object) {
          skip();
          if (!string()) return 0;
          skip();
          if (*at++ != ':') return 0;
        }
        if (!value(depth + 1)) return 0;
        skip();
        if (*at == end) {
          ++at;
          return 1;
        }
        if (*at++ != ',') return 0;
      }
    }
    case '"':
      return string();
    case 't':
      return literal("true");
    case 'f':
      return literal("false");
    case 'n':
      return literal("null");
    default:
      return number();
  }
}

int main(void) {
  const size_t size = read_private(text, sizeof text - 1);
  at = text;
  if (!value(1)) return 1;
  skip();
  if (at != text + size) return 1;
  const uint32_t found[] = {objects, arrays, strings, numbers, literals, deepest, sum, hash};
  write_bytes(found, sizeof found);
  return 0;
}
