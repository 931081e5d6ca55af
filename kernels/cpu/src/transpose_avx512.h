// Eight by eight words in AVX-512 registers. Only for files compiled for such CPUs; in an unnamed namespace, so that no other
// file is ever linked with code from here.
#pragma once
#include <immintrin.h>

namespace dp {
namespace {

// Word k of x[i] to word i of x[k].
inline void transpose_words(__m512i (&x)[8]) {
  __m512i a[8], b[8];
  for (int i = 0; i < 8; i += 2) {  // pairs
    a[i] = _mm512_unpacklo_epi64(x[i], x[i + 1]);
    a[i + 1] = _mm512_unpackhi_epi64(x[i], x[i + 1]);
  }
  for (int i = 0; i < 8; i += 4)  // quarters 0 2, then 1 3, of two vectors
    for (int k = 0; k < 2; ++k) {
      b[i + k] = _mm512_shuffle_i64x2(a[i + k], a[i + k + 2], 0x88);
      b[i + k + 2] = _mm512_shuffle_i64x2(a[i + k], a[i + k + 2], 0xDD);
    }
  for (int k = 0; k < 4; ++k) {
    x[k] = _mm512_shuffle_i64x2(b[k], b[k + 4], 0x88);
    x[k + 4] = _mm512_shuffle_i64x2(b[k], b[k + 4], 0xDD);
  }
}

}  // namespace
}  // namespace dp
