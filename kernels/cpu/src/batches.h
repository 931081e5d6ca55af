// Runs items on several threads, batch by batch: no item of a batch waits for another of it, and all wait for the batch
// before. A batch is cut into pieces, which threads claim one at a time. A thread that gets no time claims none, so nobody
// waits for it; only a claimed piece is waited for. Batches take tens of microseconds, for which waking threads up would
// take too long: they spin, and then yield.
#pragma once
#include <atomic>
#include <exception>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "threads.h"

namespace dp {

class Batches {
 public:
  // Ends the piece that items are added to, if there is any.
  void end_piece() {
    if (items_ > piece_ends_.back()) piece_ends_.push_back(items_);
  }
  // Ends the batch, and its last piece.
  void end_batch() {
    end_piece();
    if (piece_ends_.size() - 1 > batch_ends_.back()) batch_ends_.push_back(piece_ends_.size() - 1);
  }
  void add_item() { ++items_; }

  size_t items() const { return items_; }
  size_t batches() const { return batch_ends_.size() - 1; }

  // body(first, last, worker) for the items of every piece. Rethrows what a body throws first, when all others have ended.
  template <class Body>
  void run(Pool& pool, const Body& body) const {
    const std::unique_ptr<Progress[]> progress(new Progress[batches()]);
    std::exception_ptr thrown;
    std::atomic<bool> failed{false};
    pool.run((size_t)pool.threads(), [&](size_t, int worker) {
      for (size_t batch = 0; batch < batches(); ++batch) {
        Progress& own = progress[batch];
        const size_t begin = batch_ends_[batch], count = batch_ends_[batch + 1] - begin;
        for (size_t piece; (piece = own.claimed.fetch_add(1, std::memory_order_relaxed)) < count;) {
          try {
            body(piece_ends_[begin + piece], piece_ends_[begin + piece + 1], worker);
          } catch (...) {  // whoever waits for this piece must not wait for ever
            if (!failed.exchange(true)) thrown = std::current_exception();
          }
          own.done.fetch_add(1, std::memory_order_release);
        }
        for (int spins = 0; own.done.load(std::memory_order_acquire) < count; ++spins)
          if (spins > SPINS) std::this_thread::yield();
      }
    });
    if (thrown) std::rethrow_exception(thrown);
  }

 private:
  struct alignas(64) Progress {
    std::atomic<size_t> claimed{0}, done{0};
  };
  static constexpr int SPINS = 2000;  // some microseconds

  size_t items_ = 0;
  std::vector<size_t> piece_ends_{0};  // in items
  std::vector<size_t> batch_ends_{0};  // in pieces
};

}  // namespace dp
