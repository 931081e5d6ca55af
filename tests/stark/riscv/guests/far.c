// Host calls on memory beyond 2^32, which a guest of RV64IM has and the calls cannot reach. Private input, in words: which call,
// and 1 if its operand lies there. Its lower 32 bits are the address of a buffer below 2^32, which no call may take for it.
#include "guest.h"

static uint64_t near[64];

int main(void) {
  read_private_word();  // the length
  const uint32_t call = read_private_word();
  uint64_t* const buffer = near + read_private_word() * ((1ull << 32) / sizeof near[0]);
  buffer[0] = 5;
  uint32_t* const words = (uint32_t*)buffer;
  static uint32_t one[8] = {1}, result[8];
  Sha256 hash = {0, SHA256_START};
  ModularProduct p = {guest_address(result), guest_address(one), guest_address(one), 0, {7}};
  if (call == 0) keccak_f(buffer);
  if (call == 1) sha256_extend(words);
  if (call == 2) hash.message = guest_address(words), sha256_block(&hash);
  if (call == 3) hash.message = guest_address(words), sha256_compress(&hash);
  if (call == 4) p.result = guest_address(words), multiply_modulo(&p);
  if (call == 5) p.x = guest_address(words), multiply_modulo(&p);
  if (call == 6) p.addend = guest_address(words), multiply_add_modulo(&p);
  if (call == 7) *(ModularProduct*)words = p, multiply_modulo((ModularProduct*)words);
  write_word(hash.state[0] + result[0] + words[0]);
  return 0;
}
