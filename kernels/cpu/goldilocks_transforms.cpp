#include "goldilocks_transforms.h"

#include <atomic>
#include <cstring>

#include "hash/keccak.h"

namespace dp {
namespace transforms {

namespace {

constexpr size_t LEAF_ROWS = 256;  // rows that one task hashes

// Twiddles of every level of a transform of size n, level with half-size h at offset h: w_{2h}^0 .. w_{2h}^{h-1}.
std::vector<u64> twiddles(int log_n, bool inverse) {
  const size_t n = (size_t)1 << log_n;
  std::vector<u64> table(n);
  for (size_t h = 1; h < n; h *= 2) {
    u64 w = gl::pow(gl::GENERATOR, (gl::P - 1) / (2 * h));
    if (inverse) w = gl::inverse(w);
    u64 power = 1;
    for (size_t i = 0; i < h; ++i, power = gl::mul(power, w)) table[h + i] = power;
  }
  return table;
}

// Natural to bit-reversed order, halves depth-first, so that what a half touches stays in the cache.
void forward(u64* a, size_t n, const u64* table) {
  if (n == 1) return;
  const size_t h = n / 2;
  const u64* w = table + h;
  for (size_t i = 0; i < h; ++i) {
    const u64 x = a[i], y = a[i + h];
    a[i] = gl::add(x, y);
    a[i + h] = gl::mul(gl::sub(x, y), w[i]);
  }
  forward(a, h, table);
  forward(a + h, h, table);
}

// Bit-reversed to natural order.
void backward(u64* a, size_t n, const u64* table) {
  if (n == 1) return;
  const size_t h = n / 2;
  backward(a, h, table);
  backward(a + h, h, table);
  const u64* w = table + h;
  for (size_t i = 0; i < h; ++i) {
    const u64 x = a[i], y = gl::mul(a[i + h], w[i]);
    a[i] = gl::add(x, y);
    a[i + h] = gl::sub(x, y);
  }
}

// scale[bitrev(j)] = first * base^j
std::vector<u64> reversed_powers(int log_n, u64 base, u64 first) {
  std::vector<u64> scale((size_t)1 << log_n);
  scale[0] = first;
  // Bit b of j is bit log_n - 1 - b of its reverse: each pass adds one bit of j.
  u64 square = base;
  for (int bit = 0; bit < log_n; ++bit, square = gl::sqr(square)) {
    const size_t step = (size_t)1 << (log_n - 1 - bit);
    for (size_t i = 0; i < scale.size(); i += 2 * step) scale[i + step] = gl::mul(scale[i], square);
  }
  return scale;
}

struct Sponge {
  u64 state[25] = {};
  int lane = 0;
  void absorb(u64 word) {
    state[lane++] ^= word;
    if (lane == keccak::RATE_LANES) {
      keccak::permute(state);
      lane = 0;
    }
  }
  void finish(u64* digest) {
    keccak::pad(state, lane);
    keccak::permute(state);
    std::memcpy(digest, state, 32);
  }
};

void hash_pair(u64 tag, const u64* left, const u64* right, u64* out) {
  u64 s[25] = {tag};
  std::memcpy(s + 1, left, 32);
  std::memcpy(s + 5, right, 32);
  keccak::pad(s, 9);
  keccak::permute(s);
  std::memcpy(out, s, 32);
}

}  // namespace

void lde(Pool& pool, const u64* in, u64* out, size_t width, int log_n, int log_blowup, u64 coset) {
  const size_t n = (size_t)1 << log_n, cosets = (size_t)1 << log_blowup;
  const std::vector<u64> inverse_table = twiddles(log_n, true), table = twiddles(log_n, false);
  const u64 root = gl::pow(gl::GENERATOR, (gl::P - 1) >> (log_n + log_blowup));
  const u64 inverse_coset = gl::inverse(coset), inverse_n = gl::inverse((u64)n % gl::P);
  std::vector<std::vector<u64>> scales(cosets);
  pool.run(cosets, [&](size_t k, int) {
    const u64 shift = gl::mul(gl::mul(gl::GENERATOR, gl::pow(root, k)), inverse_coset);
    scales[k] = reversed_powers(log_n, shift, inverse_n);
  });
  pool.run(width, [&](size_t c, int) {
    u64* column = out + c * cosets * n;
    u64* last = column + (cosets - 1) * n;  // holds the coefficients until its own coset is made, the last
    std::memcpy(last, in + c * n, n * sizeof(u64));
    forward(last, n, inverse_table.data());
    for (size_t k = 0; k < cosets; ++k) {
      u64* target = column + k * n;
      const u64* scale = scales[k].data();
      for (size_t i = 0; i < n; ++i) target[i] = gl::mul(last[i], scale[i]);
      backward(target, n, table.data());
    }
  });
}

void hash_leaves(Pool& pool, const std::vector<LeafMatrix>& matrices, size_t cosets, size_t rows, size_t arity, u64* digests) {
  // Header: one u32 with tag and count, one with each width, zero-padded to whole lanes.
  std::vector<u32> words = {(u32)(keccak::LEAF_TAG + 256 * matrices.size())};
  for (const LeafMatrix& m : matrices) words.push_back((u32)(m.width * arity));
  if (words.size() % 2) words.push_back(0);
  const size_t blocks = (rows + LEAF_ROWS - 1) / LEAF_ROWS;
  pool.run(cosets * blocks, [&](size_t task, int) {
    const size_t k = task / blocks, begin = task % blocks * LEAF_ROWS;
    const size_t end = std::min(rows, begin + LEAF_ROWS);
    for (size_t j = begin; j < end; ++j) {
      Sponge sponge;
      for (size_t i = 0; i < words.size(); i += 2) sponge.absorb((u64)words[i] | (u64)words[i + 1] << 32);
      for (const LeafMatrix& m : matrices)
        for (size_t t = 0; t < arity; ++t)
          for (size_t c = 0; c < m.width; ++c) sponge.absorb(m.data[(c * cosets + k) * rows * arity + t * rows + j]);
      sponge.finish(digests + 4 * (k * rows + j));
    }
  });
}

void hash_level(Pool& pool, const u64* below, const u64* injected, u64* out, size_t groups, size_t below_rows) {
  const size_t rows = below_rows / 2;
  pool.ranges(groups * rows, LEAF_ROWS, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const u64* left = below + 4 * (i / rows * below_rows + i % rows);
      hash_pair(keccak::NODE_TAG, left, left + 4 * rows, out + 4 * i);
      if (injected) hash_pair(keccak::INJECT_TAG, out + 4 * i, injected + 4 * i, out + 4 * i);
    }
  });
}

void hash_rows(Pool& pool, const unsigned char* in, size_t count, size_t size, unsigned char* out) {
  pool.ranges(count, 64, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      Sponge sponge;
      const unsigned char* message = in + i * size;
      size_t at = 0;
      for (; at + 8 <= size; at += 8) {
        u64 word;
        std::memcpy(&word, message + at, 8);
        sponge.absorb(word);
      }
      u64 rest = (u64)1 << (8 * (size - at));  // the padding's first bit follows the message
      for (size_t b = 0; at + b < size; ++b) rest |= (u64)message[at + b] << (8 * b);
      sponge.state[sponge.lane] ^= rest;
      sponge.state[keccak::RATE_LANES - 1] ^= (u64)1 << 63;
      keccak::permute(sponge.state);
      std::memcpy(out + 32 * i, sponge.state, 32);
    }
  });
}

u64 grind(Pool& pool, const unsigned char* seed, int bits) {
  u64 words[4];
  std::memcpy(words, seed, 32);
  const u64 batch = 1 << 12;
  std::atomic<u64> found{~(u64)0};
  for (u64 first = 0;; first += batch * 64) {
    pool.run(64, [&](size_t task, int) {
      const u64 begin = first + task * batch;
      for (u64 nonce = begin; nonce < begin + batch && nonce < found.load(std::memory_order_relaxed); ++nonce) {
        u64 s[25] = {keccak::GRIND_TAG, words[0], words[1], words[2], words[3], nonce};
        keccak::pad(s, 6);
        keccak::permute(s);
        if (bits == 0 || __builtin_bswap64(s[0]) >> (64 - bits) == 0) {
          u64 best = found.load();
          while (nonce < best && !found.compare_exchange_weak(best, nonce)) {
          }
          return;
        }
      }
    });
    if (found.load() != ~(u64)0) return found.load();
  }
}

}  // namespace transforms
}  // namespace dp
