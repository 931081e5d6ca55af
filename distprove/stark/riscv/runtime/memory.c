// What compilers call by themselves. Build with -fno-tree-loop-distribute-patterns, or these call themselves.
#include <stddef.h>
#include <stdint.h>

void* memcpy(void* to, const void* from, size_t size) {
  uint8_t* out = to;
  const uint8_t* in = from;
  const uintptr_t both = (uintptr_t)out | (uintptr_t)in;
#if __riscv_xlen == 64
  if ((both & 7) == 0)
    for (; size >= 8; size -= 8, out += 8, in += 8) *(uint64_t*)out = *(const uint64_t*)in;
#endif
  if ((both & 3) == 0)
    for (; size >= 4; size -= 4, out += 4, in += 4) *(uint32_t*)out = *(const uint32_t*)in;
  while (size--) *out++ = *in++;
  return to;
}

void* memmove(void* to, const void* from, size_t size) {
  uint8_t* out = to;
  const uint8_t* in = from;
  if (out <= in) return memcpy(to, from, size);
  while (size--) out[size] = in[size];
  return to;
}

void* memset(void* to, int value, size_t size) {
  uint8_t* out = to;
  const uintptr_t word = UINTPTR_MAX / 255 * (uint8_t)value;
  for (; size && (uintptr_t)out % sizeof word; --size) *out++ = (uint8_t)value;
  for (; size >= sizeof word; size -= sizeof word, out += sizeof word) *(uintptr_t*)out = word;
  while (size--) *out++ = (uint8_t)value;
  return to;
}

int memcmp(const void* left, const void* right, size_t size) {
  const uint8_t *a = left, *b = right;
  for (size_t i = 0; i < size; ++i)
    if (a[i] != b[i]) return a[i] - b[i];
  return 0;
}
