// malloc and its kin, in place of picolibc's, which sets every block to zero byte by byte. Blocks have a power of two of
// bytes, with their size in the word before them. Each size has a list of free blocks; without one, a block comes from the
// end of the used memory. All operations take constant time, but for copies; blocks are never joined or split.
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD = 16, LARGEST = 29 };  // an address that malloc returns is a multiple of 16

extern uint8_t __heap_start[], __heap_end[];

static uintptr_t end;  // first free address behind all blocks, 0 before the first
static void* free_blocks[LARGEST + 1];  // of 2^k bytes with the head; each has the next one behind its head

static uint32_t* size_of(void* pointer) { return (uint32_t*)((uint8_t*)pointer - HEAD); }

// 2^k is the size of a block with `size` bytes behind its head; LARGEST + 1 if there is no such k.
static unsigned class_of(size_t size) {
  if (size > (1u << LARGEST) - HEAD) return LARGEST + 1;
  unsigned k = 5;
  while (1u << k < size + HEAD) ++k;
  return k;
}

// `*fresh` says that the memory was never used, and so is zero.
static void* allocate(size_t size, int* fresh) {
  const unsigned k = class_of(size);
  void* block = k <= LARGEST ? free_blocks[k] : NULL;
  *fresh = block == NULL;
  if (block != NULL) {
    memcpy(&free_blocks[k], block, sizeof(void*));
    return block;
  }
  if (end == 0) end = (uintptr_t)__heap_start;
  if (k > LARGEST || (1u << k) > (uintptr_t)__heap_end - end) {
    errno = ENOMEM;
    return NULL;
  }
  block = (void*)(end + HEAD);
  *size_of(block) = k;
  end += 1u << k;
  return block;
}

void* malloc(size_t size) {
  int fresh;
  return allocate(size, &fresh);
}

void free(void* pointer) {
  if (pointer == NULL) return;
  const unsigned k = *size_of(pointer);
  memcpy(pointer, &free_blocks[k], sizeof(void*));
  free_blocks[k] = pointer;
}

void* calloc(size_t count, size_t size) {
  size_t bytes;
  int fresh;
  if (__builtin_mul_overflow(count, size, &bytes)) bytes = SIZE_MAX;
  void* block = allocate(bytes, &fresh);
  return block == NULL || fresh ? block : memset(block, 0, bytes);
}

void* realloc(void* pointer, size_t size) {
  if (pointer == NULL) return malloc(size);
  const unsigned k = *size_of(pointer);
  if (class_of(size) == k) return pointer;
  void* moved = malloc(size);
  if (moved == NULL) return NULL;
  const size_t room = (1u << k) - HEAD;
  memcpy(moved, pointer, size < room ? size : room);
  free(pointer);
  return moved;
}
