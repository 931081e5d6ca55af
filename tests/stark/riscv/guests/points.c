// Sums of points by host calls. Private input, in words: a number of `Curve`, and the points p and q. Public output: p + q, and
// p + p. What has no sum by the formula traps.
#include "curves.h"

static Field field;
static uint32_t p[2 * FIELD_WORDS], q[2 * FIELD_WORDS], twice[2 * FIELD_WORDS];

int main(void) {
  read_private_word();  // the length
  field_open(&field, (Curve)read_private_word());
  const int words = 2 * field.words;
  for (int i = 0; i < words; ++i) p[i] = twice[i] = read_private_word();
  for (int i = 0; i < words; ++i) q[i] = read_private_word();
  point_add(field.curve, p, q);
  point_double(field.curve, twice);
  for (int i = 0; i < words; ++i) write_word(p[i]);
  for (int i = 0; i < words; ++i) write_word(twice[i]);
  return 0;
}
