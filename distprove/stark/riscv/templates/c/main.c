// Adds up the orders of a ledger. The ledger is private input, and the report is public output.
// host.py has the same types in Python.
#include <stdio.h>

#include "values.h"

int main(void) {
  Reader in = open_private();
  const size_t orders = get_length(&in);
  uint64_t total = 0, largest = 0;
  for (size_t i = 0; i < orders; ++i) {
    size_t size;
    const char* customer = (const char*)get_bytes(&in, &size);
    const uint64_t cents = get_u64(&in);
    printf("%.*s spends %llu\n", (int)size, customer, (unsigned long long)cents);  // `distprove run` shows it; no proof has it
    if (__builtin_add_overflow(total, cents, &total)) return 1;
    if (cents > largest) largest = cents;
  }
  values_end(&in);

  Writer out = {0};
  put_u32(&out, (uint32_t)orders);
  put_u64(&out, total);
  put_bool(&out, orders != 0);  // whether there is a largest order
  if (orders != 0) put_u64(&out, largest);
  commit(&out);
  return 0;
}
