// The reader's side of the throttle word (kernels/host/throttle.py): loops look at it between two pieces of work and make way.
#pragma once
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <thread>

namespace dp {

class Throttle {
 public:
  using Clock = std::chrono::steady_clock;

  // `file` is an open descriptor, which stays the caller's. Whose file it is and that it keeps its size, the caller knows.
  explicit Throttle(int file) {
    struct stat facts;
    bool whole = ::fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size >= 8;
    void* map = whole ? ::mmap(nullptr, 8, PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
    if (map == MAP_FAILED) throw std::invalid_argument("the open file is no throttle word");
    word_ = static_cast<const std::atomic<uint64_t>*>(map);
  }
  ~Throttle() { ::munmap(const_cast<std::atomic<uint64_t>*>(word_), 8); }
  Throttle(const Throttle&) = delete;
  Throttle& operator=(const Throttle&) = delete;

  // A count in the low 16 bits; above it the time, in milliseconds of the monotonic clock, until which it is believed: who
  // raised the word and died is not obeyed for ever.
  bool raised() const {
    uint64_t word = word_->load(std::memory_order_relaxed);
    if ((word & 0xFFFF) == 0) return false;
    auto now = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now().time_since_epoch());
    return (uint64_t)now.count() < word >> 16;
  }

  // While the word is raised, rest three times as long as was worked since `since`, so that a loop keeps a quarter of its
  // pace (cluster/lab/simulator/engine.py reckons with that) and its owner is never held up for good. Returns the time.
  Clock::time_point make_way(Clock::time_point since) const {
    auto worked = Clock::now() - since;
    auto until = Clock::now() + std::min<Clock::duration>(3 * worked, std::chrono::milliseconds(20));
    while (raised() && Clock::now() < until) std::this_thread::sleep_for(std::chrono::microseconds(200));
    return Clock::now();
  }

 private:
  const std::atomic<uint64_t>* word_;
};

}  // namespace dp
