// Typed input and output, in postcard's wire format, version 1. The module distprove.stark.riscv.values reads and writes
// the same bytes in Python. A wrong input ends the guest with exit code 254, and says why in the debug stream.
#pragma once
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest.h"

typedef struct {
  const uint8_t* bytes;
  size_t size, place;
  const char* which;  // "private" or "public", for messages
} Reader;

typedef struct {
  uint8_t* bytes;
  size_t size, room;
} Writer;

__attribute__((noreturn)) static inline void values_fail(const char* why) {
  printf("values: %s\n", why);
  abort();
}

__attribute__((noreturn)) static inline void values_refuse(const Reader* in, const char* why) {
  printf("values: the %s input %s\n", in->which != NULL ? in->which : "given", why);
  abort();
}

static inline void* values_memory(void* before, size_t size) {
  void* found = realloc(before, size);
  if (found == NULL) values_fail("out of memory");
  return found;
}

// An input as a reader. The input must be read once; free((void*)reader.bytes) gives its memory back.
static inline Reader values_open(uint32_t call) {
  const size_t size = guest_call(call, 0);
  Reader in = {NULL, size, 0, call == GUEST_READ_PRIVATE ? "private" : "public"};
  if (size > SIZE_MAX - 4) values_refuse(&in, "is larger than the memory");  // a prover chooses it
  uint8_t* bytes = values_memory(NULL, size + 4);
  for (size_t i = 0; i < size; i += 4) {
    const uint32_t word = guest_call(call, 0);
    memcpy(bytes + i, &word, 4);
  }
  in.bytes = bytes;
  return in;
}

static inline Reader open_private(void) { return values_open(GUEST_READ_PRIVATE); }
static inline Reader open_public(void) { return values_open(GUEST_READ_PUBLIC); }

static inline size_t values_left(const Reader* in) { return in->size - in->place; }

// The input is over: call it after the last value.
static inline void values_end(const Reader* in) {
  if (values_left(in) != 0) values_refuse(in, "has bytes behind its value");
}

static inline uint8_t get_u8(Reader* in) {
  if (values_left(in) == 0) values_refuse(in, "ends within a value");
  return in->bytes[in->place++];
}

static inline bool get_bool(Reader* in) {
  const uint8_t byte = get_u8(in);
  if (byte > 1) values_refuse(in, "has a bool that is neither 0 nor 1");
  return byte;
}

static inline uint64_t values_varint(Reader* in, unsigned bits) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < bits; shift += 7) {
    const uint8_t byte = get_u8(in);
    if (bits - shift < 7 && (byte & 0x7f) >> (bits - shift)) break;
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  values_refuse(in, "has an integer that is larger than its type");
}

static inline uint16_t get_u16(Reader* in) { return (uint16_t)values_varint(in, 16); }
static inline uint32_t get_u32(Reader* in) { return (uint32_t)values_varint(in, 32); }
static inline uint64_t get_u64(Reader* in) { return values_varint(in, 64); }

static inline int64_t values_signed(uint64_t value) { return (int64_t)(value >> 1) ^ -(int64_t)(value & 1); }
static inline int32_t get_i32(Reader* in) { return (int32_t)values_signed(get_u32(in)); }
static inline int64_t get_i64(Reader* in) { return values_signed(get_u64(in)); }

// The count of a list's values, each of which takes a byte at least.
static inline size_t get_length(Reader* in) {
  const size_t count = get_u32(in);
  if (count > values_left(in)) values_refuse(in, "ends within a list: its length is larger");
  return count;
}

// Bytes or a text, which lie in the reader's memory and have no zero behind them; printf takes them as "%.*s".
static inline const uint8_t* get_bytes(Reader* in, size_t* size) {
  *size = get_length(in);
  const uint8_t* from = in->bytes + in->place;
  in->place += *size;
  return from;
}

static inline void put_u8(Writer* out, uint8_t byte) {
  if (out->size == out->room) out->bytes = values_memory(out->bytes, out->room = out->room ? 2 * out->room : 64);
  out->bytes[out->size++] = byte;
}

static inline void put_bool(Writer* out, bool value) { put_u8(out, value); }

static inline void put_u64(Writer* out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) put_u8(out, (uint8_t)value | 0x80);
  put_u8(out, (uint8_t)value);
}

static inline void put_u32(Writer* out, uint32_t value) { put_u64(out, value); }
static inline void put_u16(Writer* out, uint16_t value) { put_u64(out, value); }
static inline void put_i64(Writer* out, int64_t value) { put_u64(out, ((uint64_t)value << 1) ^ (uint64_t)(value >> 63)); }
static inline void put_i32(Writer* out, int32_t value) { put_i64(out, value); }

static inline void put_bytes(Writer* out, const void* from, size_t size) {
  put_u32(out, (uint32_t)size);
  for (size_t i = 0; i < size; ++i) put_u8(out, ((const uint8_t*)from)[i]);
}

// Append all values to the public output, filled up with zeros to a multiple of four bytes, and empty the writer.
static inline void commit(Writer* out) {
  write_bytes(out->bytes, out->size);
  free(out->bytes);
  *out = (Writer){0};
}
