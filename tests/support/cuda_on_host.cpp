// The threads of cuda_on_host.h.
//
// Every thread of a block is a fiber (ucontext). A fiber runs until it meets a barrier or a warp collective; fibers are
// resumed in alternating order, so that a missing barrier is likely to show as a wrong result. A block that cannot go on
// (a barrier that some threads do not reach, a collective whose mask names lanes that do not come) stops with an error.
// A fiber is made once in a process, and runs one thread after another: making one costs two calls of the system.
#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <forward_list>
#include <memory>
#include <vector>

#include "cuda_on_host.h"  // last: it makes macros of words that the others use

namespace dp_emulation {

Block* block = nullptr;
Thread* self = nullptr;

namespace {

constexpr std::size_t STACK_BYTES = 256 << 10;

using Place = void* [5];  // of the compiler's own jump, which keeps no registers: it asks nothing of system and library

struct Fiber : Thread {
  std::unique_ptr<unsigned char[]> stack{new unsigned char[STACK_BYTES]};
  Place left;          // where it goes on
  bool begun = false;  // it has a place to go on at
  bool done = false;   // so has its thread
  const unsigned* generation = nullptr;  // its thread waits until this
  unsigned passed;                       // is no longer this
};

struct Collective {  // the lanes of one mask meeting at one place
  explicit Collective(Mask mask) : mask(mask) {}
  Mask mask, arrived = 0;
  unsigned generation = 0;
  std::uint64_t values[2][32] = {};  // of this generation, and of the one before, which lanes may still read
};

struct Warp {
  std::forward_list<Collective> collectives[32];  // by their first lane
};

struct Running : Block {
  std::vector<Warp> warps;
  unsigned alive, at_barrier, barrier_generation;
  int barrier_sum, barrier_result;
  bool progress;
  Place scheduler;
  Call call;
  void* function;
  void** args;
};

Running running;
std::vector<std::unique_ptr<Fiber>> fibers;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "kernel emulation: %s (block %u, thread %u)\n", what, running.index.x, self ? self->linear : 0);
  std::fflush(stderr);
  std::abort();
}

// The compiler may not look into these: who calls them finds other registers than it left.
[[noreturn, gnu::noinline, gnu::noipa]] void jump(Place& place) {
  __builtin_longjmp(place, 1);
}

[[gnu::noinline, gnu::noipa]] void leave(Fiber& fiber) {
  if (__builtin_setjmp(fiber.left) == 0) jump(running.scheduler);
}

void wait(const unsigned& generation) {
  Fiber& me = static_cast<Fiber&>(*self);
  me.generation = &generation;
  me.passed = generation;
  leave(me);
  me.generation = nullptr;
}

// Every thread that still runs is at the barrier: all go on.
void pass_barrier() {
  Running& b = running;
  b.barrier_result = b.barrier_sum;
  b.at_barrier = 0;
  b.barrier_sum = 0;
  ++b.barrier_generation;
  b.progress = true;
}

void fiber_main() {
  Fiber& me = static_cast<Fiber&>(*self);
  for (;;) {
    running.call(running.function, running.args);
    me.done = true;
    --running.alive;
    running.progress = true;
    if (running.alive && running.at_barrier == running.alive) pass_barrier();
    leave(me);
  }
}

[[noreturn, gnu::noinline, gnu::noipa]] void begin(Fiber& fiber) {
  fiber.begun = true;
  ucontext_t start;
  getcontext(&start);
  start.uc_stack.ss_sp = fiber.stack.get();
  start.uc_stack.ss_size = STACK_BYTES;
  start.uc_link = nullptr;
  makecontext(&start, fiber_main, 0);
  setcontext(&start);
  std::abort();  // it does not return
}

// Runs a thread until it waits or ends.
[[gnu::noinline, gnu::noipa]] void resume(Fiber& fiber) {
  self = &fiber;
  if (__builtin_setjmp(running.scheduler) != 0) return;
  if (fiber.begun) jump(fiber.left);
  begin(fiber);
}

bool waits(const Fiber& fiber) {
  return fiber.generation && *fiber.generation == fiber.passed;
}

void run_block() {
  Running& b = running;
  b.warps.assign((b.count + 31) / 32, {});
  b.alive = b.count;
  b.at_barrier = b.barrier_generation = 0;
  b.barrier_sum = 0;
  for (unsigned i = 0; i < b.count; ++i) {
    Fiber& fiber = *fibers[i];
    fiber.index = {i % b.size.x, i / b.size.x % b.size.y, i / b.size.x / b.size.y};
    fiber.linear = i;
    fiber.lane = i % 32;
    fiber.warp = i / 32;
    fiber.done = false;
  }
  for (bool forward = true; b.alive; forward = !forward) {
    b.progress = false;
    for (unsigned k = 0; k < b.count; ++k) {
      Fiber& fiber = *fibers[forward ? k : b.count - 1 - k];
      if (!fiber.done && !waits(fiber)) resume(fiber);
    }
    self = nullptr;
    if (!b.progress) fail("no thread can go on: a barrier or a warp collective is not reached by all it waits for");
  }
}

}  // namespace

void yield() {
  leave(static_cast<Fiber&>(*self));
}

int barrier(int value) {
  Running& b = running;
  b.progress = true;
  b.barrier_sum += value;
  if (++b.at_barrier == b.alive) pass_barrier();
  else wait(b.barrier_generation);
  return b.barrier_result;
}

const std::uint64_t* meet(Mask mask, std::uint64_t value) {
  const unsigned lane = self->lane;
  if (!(mask >> lane & 1)) fail("a lane calls a collective whose mask leaves it out");
  auto& some = running.warps[self->warp].collectives[__builtin_ctz(mask)];
  auto found = std::find_if(some.begin(), some.end(), [&](const Collective& each) { return each.mask == mask; });
  Collective& c = found == some.end() ? some.emplace_front(mask) : *found;
  std::uint64_t* values = c.values[c.generation % 2];
  values[lane] = value;
  c.arrived |= Mask(1) << lane;
  running.progress = true;
  if (c.arrived == mask) {
    c.arrived = 0;
    ++c.generation;
  } else {
    wait(c.generation);
  }
  return values;
}

void launch(Call call, void* function, void** args, const unsigned* grid, const unsigned* size, std::size_t shared) {
  Running& b = running;
  b.size = {size[0], size[1], size[2]};
  b.grid = {grid[0], grid[1], grid[2]};
  b.count = size[0] * size[1] * size[2];
  b.call = call;
  b.function = function;
  b.args = args;
  while (fibers.size() < b.count) fibers.emplace_back(new Fiber);
  std::vector<std::uint64_t> memory(shared / 8 + 2);
  b.shared = reinterpret_cast<unsigned char*>(memory.data());
  if (reinterpret_cast<std::uintptr_t>(b.shared) % 16) b.shared += 8;
  block = &b;
  for (unsigned z = 0; z < grid[2]; ++z)
    for (unsigned y = 0; y < grid[1]; ++y)
      for (unsigned x = 0; x < grid[0]; ++x) {
        std::fill(memory.begin(), memory.end(), 0xa5a5a5a5a5a5a5a5ull);  // shared memory starts with rubbish
        b.index = {x, y, z};
        run_block();
      }
  block = nullptr;
}

}  // namespace dp_emulation
