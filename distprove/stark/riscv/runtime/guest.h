// Host calls of the machine, for guests in C: docs/riscv.md, "Host calls". Link start.S and memory.c, with guest.ld.
#pragma once
#include <stddef.h>
#include <stdint.h>

enum { GUEST_EXIT = 1, GUEST_WRITE = 2, GUEST_READ_PRIVATE = 3, GUEST_READ_PUBLIC = 4, GUEST_CYCLES = 5, GUEST_KECCAK_F = 6 };

static inline uint32_t guest_call(uint32_t number, uint32_t argument) {
  register uint32_t a0 __asm__("a0") = argument;
  register uint32_t a7 __asm__("a7") = number;
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a7));
  return a0;
}

__attribute__((noreturn)) static inline void guest_exit(uint32_t code) {
  guest_call(GUEST_EXIT, code);
  __builtin_unreachable();
}

static inline void write_word(uint32_t word) { guest_call(GUEST_WRITE, word); }
static inline uint32_t read_private_word(void) { return guest_call(GUEST_READ_PRIVATE, 0); }
static inline uint32_t read_public_word(void) { return guest_call(GUEST_READ_PUBLIC, 0); }
static inline uint32_t cycle_count(void) { return guest_call(GUEST_CYCLES, 0); }

// Permute a state by Keccak-f[1600]: lane x + 5 y is state[x + 5 y].
static inline void keccak_f(uint64_t state[25]) {
  register uint64_t* a0 __asm__("a0") = state;
  register uint32_t a7 __asm__("a7") = GUEST_KECCAK_F;
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a7) : "memory");
}

// Write `size` bytes to the public output, filled up with zeros to a multiple of four.
static inline void write_bytes(const void* from, size_t size) {
  const uint8_t* bytes = (const uint8_t*)from;
  for (size_t i = 0; i < size; i += 4) {
    uint32_t word = 0;
    for (size_t k = i; k < size && k < i + 4; ++k) word |= (uint32_t)bytes[k] << (8 * (k - i));
    write_word(word);
  }
}

// Read an input in full: its bytes go to `to`, and its length is returned. Exits with code 255 if it has more than `room`.
static inline size_t guest_read(uint32_t call, void* to, size_t room) {
  const size_t size = guest_call(call, 0);
  if (size > room) guest_exit(255);
  uint8_t* bytes = (uint8_t*)to;
  for (size_t i = 0; i < size; i += 4) {
    const uint32_t word = guest_call(call, 0);
    for (size_t k = i; k < size && k < i + 4; ++k) bytes[k] = (uint8_t)(word >> (8 * (k - i)));
  }
  return size;
}

static inline size_t read_private(void* to, size_t room) { return guest_read(GUEST_READ_PRIVATE, to, room); }
static inline size_t read_public(void* to, size_t room) { return guest_read(GUEST_READ_PUBLIC, to, room); }
