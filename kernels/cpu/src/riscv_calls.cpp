// Host calls that work on memory, but Keccak-f: SHA-256, products modulo a number of 256 or 384 bits, and sums of points.
// docs/riscv.md, "Host calls", is the specification.
#include <algorithm>
#include <cstring>

#include "hash/sha256.h"
#include "riscv_codes.h"
#include "riscv_numbers.h"
#include "riscv_points.h"

namespace dp::riscv {

namespace {

u32 small_sigma(u32 x, int first, int second, int shifted) {
  return sha256_rotated(x, first) ^ sha256_rotated(x, second) ^ x >> shifted;
}

// Words 16 to 63 of the message schedule (FIPS 180-4, 6.2.2, step 1).
void extend(u32 (&w)[64]) {
  for (int i = 16; i < 64; ++i)
    w[i] = small_sigma(w[i - 2], 17, 19, 10) + w[i - 7] + small_sigma(w[i - 15], 7, 18, 3) + w[i - 16];
}

// The rounds over all 64 words, and the sums with the state (steps 2 to 4).
void compress(const u32 (&w)[64], u32* state) {
  u32 v[8];
  std::memcpy(v, state, sizeof v);
  for (int i = 0; i < 64; ++i) {
    const u32 a = v[0], e = v[4];
    const u32 sum1 = sha256_rotated(e, 6) ^ sha256_rotated(e, 11) ^ sha256_rotated(e, 25);
    const u32 sum0 = sha256_rotated(a, 2) ^ sha256_rotated(a, 13) ^ sha256_rotated(a, 22);
    const u32 first = v[7] + sum1 + (v[6] ^ (e & (v[5] ^ v[6]))) + SHA256_ROUNDS[i] + w[i];
    const u32 second = sum0 + ((a & v[1]) | (v[2] & (a | v[1])));
    std::memmove(v + 1, v, 7 * sizeof(u32));
    v[4] += first;
    v[0] = first + second;
  }
  for (int i = 0; i < 8; ++i) state[i] += v[i];
}

}  // namespace

Stop Machine::open_words(u32 address, u32 words, bool store) {
  const u32 bytes = 4 * words;
  if (address % 4 != 0) return store ? Stop::UNALIGNED_STORE : Stop::UNALIGNED_LOAD;
  if (address > ((u64)1 << ADDRESS_BITS) - bytes) return Stop::BEYOND;
  const u32 first = std::min(bytes, PAGE - address % PAGE);  // bytes in the page where it begins
  for (const auto& [at, size] : {std::pair(address, first), std::pair(address + first, bytes - first)}) {
    if (size == 0 || open_.data()[at >> PAGE_BITS] & (store ? WRITABLE : READABLE)) continue;
    const Stop refused = open_page(at, size, store);
    if (refused != Stop::LIMIT) return refused;
  }
  return Stop::LIMIT;
}

Stop Machine::take(u32 call, u32 argument, Taken& taken, u32& about) {
  const u8* const memory = memory_.data();
  const auto word = [&](u32 address) {
    u32 value;
    std::memcpy(&value, memory + address, 4);
    return value;
  };
  const auto open = [&](u32 address, u32 words, u32 slot, bool store) {
    about = address;
    taken.operands[taken.count++] = {address, words, slot, store};
    return open_words(address, words, store);
  };
  taken.count = 0;
  Stop refused;
  if (call == SHA256_EXTEND) {
    if ((refused = open(argument, 64, 2, true)) != Stop::LIMIT) return refused;
    std::memcpy(taken.result, memory + argument, sizeof taken.result);
    extend(taken.result);
    return Stop::LIMIT;
  }
  if (call == SHA256_BLOCK || call == SHA256_COMPRESS) {
    about = argument;
    if ((refused = open_words(argument, 9, true)) != Stop::LIMIT) return refused;
    const u32 message = word(argument), words = call == SHA256_BLOCK ? 16 : 64;
    if ((refused = open(message, words, 0, false)) != Stop::LIMIT) return refused;
    taken.operands[taken.count++] = {argument, 9, 2, true};
    u32 w[64];
    std::memcpy(w, memory + message, 4 * words);
    if (call == SHA256_BLOCK) {
      for (u32 i = 0; i < 16; ++i) w[i] = __builtin_bswap32(w[i]);
      extend(w);
    }
    std::memcpy(taken.result, memory + argument, 9 * sizeof(u32));
    compress(w, taken.result + 1);
    return Stop::LIMIT;
  }
  if (call >= SECP256K1_ADD) return take_points(call, argument, taken, about);
  // {result, x, y, addend} as pointers, and the modulus.
  const bool adds = call == MULTIPLY_ADD || call == MULTIPLY_ADD_384, large = call >= MULTIPLY_384;
  const u32 limbs = large ? 12 : 8;
  about = argument;
  if ((refused = open_words(argument, 4 + limbs, false)) != Stop::LIMIT) return refused;
  u32 at[4], n[3][MOST_LIMBS], m[MOST_LIMBS];
  std::memcpy(at, memory + argument, sizeof at);
  std::memcpy(m, memory + argument + sizeof at, 4 * limbs);
  if ((refused = open(at[1], limbs, 0, false)) != Stop::LIMIT) return refused;
  if ((refused = open(at[2], limbs, 1, false)) != Stop::LIMIT) return refused;
  taken.operands[taken.count++] = {argument, 4 + limbs, 2, false};
  if (adds) {
    if ((refused = open(at[3], limbs, 2, false)) != Stop::LIMIT) return refused;
    if (at[3] < (u64)argument + 4 * (4 + limbs) && argument < (u64)at[3] + 4 * limbs) return Stop::OVERLAP;
  }
  if ((refused = open(at[0], limbs, 3, true)) != Stop::LIMIT) return refused;
  for (u32 i = 0; i < (adds ? 3u : 2u); ++i) std::memcpy(n[i], memory + at[i + 1], 4 * limbs);
  about = argument;
  const auto multiply = large ? multiply_add<12> : multiply_add<8>;
  return multiply(n[0], n[1], adds ? n[2] : nullptr, m, taken.result) ? Stop::LIMIT : Stop::QUOTIENT;
}

Stop Machine::take_points(u32 call, u32 argument, Taken& taken, u32& about) {
  // The argument of a sum is the address of {p, q} as pointers, and that of a double the point itself.
  const bool adds = (call - SECP256K1_ADD) % 2 == 0;
  const Curve curve = (Curve)((call - SECP256K1_ADD) / 2);
  const u32 words = point_words(curve);
  u32 at[2] = {argument, 0};
  Stop refused;
  taken.count = 0;
  if (adds) {
    about = argument;
    if ((refused = open_words(argument, 2, false)) != Stop::LIMIT) return refused;
    std::memcpy(at, memory_.data() + argument, sizeof at);
    about = at[1];
    if ((refused = open_words(at[1], words, false)) != Stop::LIMIT) return refused;
    taken.operands[taken.count++] = {at[1], words, 0, false};
    taken.operands[taken.count++] = {argument, 2, 2, false};
  }
  about = at[0];
  if ((refused = open_words(at[0], words, true)) != Stop::LIMIT) return refused;
  taken.operands[taken.count++] = {at[0], words, 3, true};
  u32 points[2][MOST_POINT_WORDS];
  for (int i = 0; i < (adds ? 2 : 1); ++i) std::memcpy(points[i], memory_.data() + at[i], 4 * words);
  about = argument;
  switch (add_points(curve, points[0], adds ? points[1] : nullptr, taken.result)) {
    case PointFault::COORDINATE:
      return Stop::COORDINATE;
    case PointFault::NO_SUM:
      return Stop::NO_SUM;
    default:
      return Stop::LIMIT;
  }
}

bool Machine::full(u64 cycles) const {
  const u32* const calls = segment_calls_;
  const u64 hashes = (u64)calls[SHA256_BLOCK] + calls[SHA256_EXTEND] + calls[SHA256_COMPRESS];
  u64 points = 0;
  for (u32 call = SECP256K1_ADD; call <= BN254_DOUBLE; ++call) points += calls[call];
  const u64 most = std::max({(u64)calls[MULTIPLY] + calls[MULTIPLY_ADD],
                             (u64)calls[MULTIPLY_384] + calls[MULTIPLY_ADD_384], points,
                             (u64)calls[BLS12_381_ADD] + calls[BLS12_381_DOUBLE], (u64)calls[ED25519_ADD]});
  u64 words = CALL_WORDS[SHA256_COMPRESS];
  for (u32 call = KECCAK_F; call < HOST_CALLS; ++call) words += (u64)CALL_WORDS[call] * calls[call];
  const u64 rows = std::max({KECCAK_ROWS * (calls[KECCAK_F] + 1), SHA256_ROWS * (hashes + 1), most + 1, words});
  return rows >= std::max(ROWS_ALWAYS, cycles);
}

}  // namespace dp::riscv
