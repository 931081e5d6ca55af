// Sums of points by the host calls for products. Private input, in words: a number of `Curve`, and the points p and q. Public
// output: p + q, and p + p. The exit code is 1 where one of them is not a sum by the formula.
#include "curves.h"

static Field field;
static uint32_t p[2 * FIELD_WORDS], q[2 * FIELD_WORDS], twice[2 * FIELD_WORDS];

int main(void) {
  read_private_word();  // the length
  field_open(&field, (Curve)read_private_word());
  const int words = 2 * field.words;
  for (int i = 0; i < words; ++i) p[i] = twice[i] = read_private_word();
  for (int i = 0; i < words; ++i) q[i] = read_private_word();
  const int edwards = field.curve == ED25519;
  if (!(edwards ? edwards_add(&field, p, q) : point_add(&field, p, q))) return 1;
  if (!(edwards ? edwards_add(&field, twice, twice) : point_double(&field, twice))) return 1;
  for (int i = 0; i < words; ++i) write_word(p[i]);
  for (int i = 0; i < words; ++i) write_word(twice[i]);
  return 0;
}
