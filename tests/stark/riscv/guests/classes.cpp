// C++ without exceptions and type information: objects with constructors at namespace scope, virtual functions, lambdas.
extern "C" {
#include "guest.h"
}

struct Shape {
  virtual uint32_t area() const = 0;
};
struct Square : Shape {
  uint32_t side;
  explicit Square(uint32_t n) : side(n) {}
  uint32_t area() const override { return side * side; }
};
struct Table {
  uint32_t values[16];
  Table() {
    for (uint32_t i = 0; i < 16; ++i) values[i] = i * i + 7;
  }
};
static Table table;
static volatile uint32_t seed = 3;
static uint32_t begun = seed * 5;
static Square square(seed);

template <class Function>
static uint32_t fold(const uint32_t* values, int n, Function function) {
  uint32_t sum = 0;
  for (int i = 0; i < n; ++i) sum = function(sum, values[i]);
  return sum;
}

extern "C" void __cxa_pure_virtual() { guest_exit(250); }

int main() {
  const Shape* shape = &square;
  write_word(shape->area());
  write_word(begun);
  write_word(fold(table.values, 16, [](uint32_t sum, uint32_t x) { return sum * 31 + x; }));
  return 0;
}
