// Verifies a signature of Ed25519 (RFC 8032, 5.1.7) by the host calls for sums of points and products. Public input: the public key of
// 32 bytes, the signature of 64, and the message. Public output: the word 1 if the signature is one of the message, otherwise 0.
#include "curves.h"

enum { ROOM = 1 << 12 };

static const uint64_t ROUNDS[80] = {
    0x428a2f98d728ae22, 0x7137449123ef65cd, 0xb5c0fbcfec4d3b2f, 0xe9b5dba58189dbbc, 0x3956c25bf348b538,
    0x59f111f1b605d019, 0x923f82a4af194f9b, 0xab1c5ed5da6d8118, 0xd807aa98a3030242, 0x12835b0145706fbe,
    0x243185be4ee4b28c, 0x550c7dc3d5ffb4e2, 0x72be5d74f27b896f, 0x80deb1fe3b1696b1, 0x9bdc06a725c71235,
    0xc19bf174cf692694, 0xe49b69c19ef14ad2, 0xefbe4786384f25e3, 0x0fc19dc68b8cd5b5, 0x240ca1cc77ac9c65,
    0x2de92c6f592b0275, 0x4a7484aa6ea6e483, 0x5cb0a9dcbd41fbd4, 0x76f988da831153b5, 0x983e5152ee66dfab,
    0xa831c66d2db43210, 0xb00327c898fb213f, 0xbf597fc7beef0ee4, 0xc6e00bf33da88fc2, 0xd5a79147930aa725,
    0x06ca6351e003826f, 0x142929670a0e6e70, 0x27b70a8546d22ffc, 0x2e1b21385c26c926, 0x4d2c6dfc5ac42aed,
    0x53380d139d95b3df, 0x650a73548baf63de, 0x766a0abb3c77b2a8, 0x81c2c92e47edaee6, 0x92722c851482353b,
    0xa2bfe8a14cf10364, 0xa81a664bbc423001, 0xc24b8b70d0f89791, 0xc76c51a30654be30, 0xd192e819d6ef5218,
    0xd69906245565a910, 0xf40e35855771202a, 0x106aa07032bbd1b8, 0x19a4c116b8d2d0c8, 0x1e376c085141ab53,
    0x2748774cdf8eeb99, 0x34b0bcb5e19b48a8, 0x391c0cb3c5c95a63, 0x4ed8aa4ae3418acb, 0x5b9cca4f7763e373,
    0x682e6ff3d6b2b8a3, 0x748f82ee5defb2fc, 0x78a5636f43172f60, 0x84c87814a1f0ab72, 0x8cc702081a6439ec,
    0x90befffa23631e28, 0xa4506cebde82bde9, 0xbef9a3f7b2c67915, 0xc67178f2e372532b, 0xca273eceea26619c,
    0xd186b8c721c0c207, 0xeada7dd6cde0eb1e, 0xf57d4f7fee6ed178, 0x06f067aa72176fba, 0x0a637dc5a2c898a6,
    0x113f9804bef90dae, 0x1b710b35131c471b, 0x28db77f523047d84, 0x32caab7b40c72493, 0x3c9ebe0a15c9bebc,
    0x431d67c49c100d4c, 0x4cc5d4becb3e42b6, 0x597f299cfc657e2a, 0x5fcb6fab3ad6faec, 0x6c44198c4a475817,
};

static const uint32_t ORDER[8] = {0x5cf5d3ed, 0x5812631a, 0xa2f79cd6, 0x14def9de, 0x00000000, 0x00000000, 0x00000000, 0x10000000};
static const uint32_t POWER[8] = {0x8d98951d, 0xd6ec3174, 0x737dcf70, 0xc6ef5bf4, 0xfffffffe, 0xffffffff, 0xffffffff, 0x0fffffff};  // 2^256 modulo the order
static const uint32_t BASE[16] = {0x8f25d51a, 0xc9562d60, 0x9525a7b2, 0x692cc760, 0xfdd6dc5c, 0xc0a4e231, 0xcd6e53fe, 0x216936d3,
                                  0x66666658, 0x66666666, 0x66666666, 0x66666666, 0x66666666, 0x66666666, 0x66666666, 0x66666666};

static uint64_t rotated(uint64_t x, int by) { return x >> by | x << (64 - by); }

static void compress(uint64_t* state, const uint8_t* block) {
  uint64_t w[80], v[8];
  for (int i = 0; i < 16; ++i) {
    w[i] = 0;
    for (int k = 0; k < 8; ++k) w[i] = w[i] << 8 | block[8 * i + k];
  }
  for (int i = 16; i < 80; ++i) {
    const uint64_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (rotated(a, 1) ^ rotated(a, 8) ^ a >> 7) + w[i - 7] + (rotated(b, 19) ^ rotated(b, 61) ^ b >> 6);
  }
  for (int i = 0; i < 8; ++i) v[i] = state[i];
  for (int i = 0; i < 80; ++i) {
    const uint64_t a = v[0], e = v[4];
    const uint64_t first = v[7] + (rotated(e, 14) ^ rotated(e, 18) ^ rotated(e, 41)) + (v[6] ^ (e & (v[5] ^ v[6]))) + ROUNDS[i] + w[i];
    const uint64_t second = (rotated(a, 28) ^ rotated(a, 34) ^ rotated(a, 39)) + ((a & v[1]) | (v[2] & (a | v[1])));
    for (int k = 7; k > 0; --k) v[k] = v[k - 1];
    v[4] += first;
    v[0] = first + second;
  }
  for (int i = 0; i < 8; ++i) state[i] += v[i];
}

// SHA-512 of bytes with room for the padding behind them: 16 words, the lowest first, of the digest as a little-endian number.
static void sha512(uint32_t* digest, uint8_t* bytes, size_t size) {
  uint64_t state[8] = {0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
                       0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};
  const size_t end = (size + 17 + 127) & ~(size_t)127;
  for (size_t i = size; i < end; ++i) bytes[i] = i == size ? 0x80 : 0;
  for (int i = 0; i < 4; ++i) bytes[end - 1 - i] = (uint8_t)(8 * size >> 8 * i);
  for (size_t i = 0; i < end; i += 128) compress(state, bytes + i);
  for (int i = 0; i < 8; ++i) {
    digest[2 * i] = __builtin_bswap32((uint32_t)(state[i] >> 32));
    digest[2 * i + 1] = __builtin_bswap32((uint32_t)state[i]);
  }
}

static void number(uint32_t* out, const uint8_t* bytes) {
  for (int i = 0; i < 8; ++i)
    out[i] = bytes[4 * i] | bytes[4 * i + 1] << 8 | bytes[4 * i + 2] << 16 | (uint32_t)bytes[4 * i + 3] << 24;
}

static int below(const uint32_t* a, const uint32_t* b) {
  for (int i = 7; i >= 0; --i)
    if (a[i] != b[i]) return a[i] < b[i];
  return 0;
}

// [s] B = R + [k] A, of the key A and the signature R, s, and with k from the hash of R, A and the message: without the cofactor, which
// RFC 8032 leaves open.
static int verify(const uint8_t* key, const uint8_t* signature, uint8_t* message, size_t size) {
  Field field;
  field_open(&field, ED25519);
  uint32_t table[4][16] = {{[8] = 1}}, sum[16] = {[8] = 1}, s[8], k[16], digest[8];
  number(s, signature + 32);
  number(table[2] + 8, key);
  const uint32_t sign = table[2][15] >> 31;
  table[2][15] &= 0x7fffffff;
  if (!below(s, ORDER)) return 0;
  // The opposite of the key's point. x = 0 has no sign.
  if (!edwards_decompress(&field, table[2], table[2] + 8, !sign)) return 0;
  if (field_is_zero(&field, table[2]) && sign) return 0;
  for (int i = 0; i < 16; ++i) table[1][i] = BASE[i], table[3][i] = BASE[i];
  ed25519_add(table[3], table[2]);

  sha512(k, message, size);
  ModularProduct reduced = {guest_address(digest), guest_address(POWER), guest_address(k + 8), guest_address(k), {0}};
  for (int i = 0; i < 8; ++i) reduced.modulus[i] = ORDER[i];
  multiply_add_modulo(&reduced);

  for (int i = 252; i >= 0; --i) {
    ed25519_add(sum, sum);
    const uint32_t bits = (s[i / 32] >> i % 32 & 1) | (digest[i / 32] >> i % 32 & 1) << 1;
    if (bits) ed25519_add(sum, table[bits]);
  }
  uint32_t wanted[8];
  number(wanted, signature);
  sum[15] |= sum[0] << 31;
  uint32_t differ = 0;
  for (int i = 0; i < 8; ++i) differ |= sum[8 + i] ^ wanted[i];
  return differ == 0;
}

int main(void) {
  static uint8_t input[ROOM + 256];
  const size_t size = read_public(input, ROOM);
  if (size < 96) return 1;
  uint8_t key[32], signature[64];
  for (int i = 0; i < 32; ++i) key[i] = input[i];
  for (int i = 0; i < 64; ++i) signature[i] = input[32 + i];
  // What is hashed is R, the key and the message.
  for (int i = 0; i < 32; ++i) input[32 + i] = signature[i], input[64 + i] = key[i];
  write_word(verify(key, signature, input + 32, size - 32));
  return 0;
}
