// A small persistent pool of threads for data-parallel loops.
#pragma once
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

namespace dp {

// `threads` counts the caller, who works too: Pool(1) starts none. One loop at a time; loops do not nest.
class Pool {
 public:
  explicit Pool(int threads) {
    if (threads < 1) throw std::invalid_argument("a pool needs at least one thread");
    try {
      for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { serve(i); });
    } catch (...) {  // a thread that is not joined would end the process
      stop();
      throw;
    }
  }
  ~Pool() { stop(); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int threads() const { return (int)workers_.size() + 1; }

  // body(task, worker) for every task in [0, count), worker in [0, threads()). Tasks are handed out one at a time, in
  // order. Rethrows the first exception.
  void run(size_t count, const std::function<void(size_t, int)>& body) {
    if (count == 0) return;
    next_.store(0, std::memory_order_relaxed);
    count_ = count;
    body_ = &body;
    error_ = nullptr;
    if (count > 1 && !workers_.empty()) {
      {
        std::lock_guard<std::mutex> lock(mutex_);
        busy_ = (int)workers_.size();
        ++round_;
      }
      wake_.notify_all();
      work(0);
      std::unique_lock<std::mutex> lock(mutex_);
      done_.wait(lock, [this] { return busy_ == 0; });
    } else {
      work(0);
    }
    if (error_) std::rethrow_exception(error_);
  }

  // body(begin, end) over [0, n) cut into pieces of at least `grain`, a few per thread so that a slow one does not hold up
  // the rest
  template <class Body>
  void ranges(size_t n, size_t grain, const Body& body) {
    size_t pieces = std::max<size_t>(1, n / std::max<size_t>(grain, 1));
    pieces = threads() == 1 ? 1 : std::min(pieces, (size_t)threads() * 4);
    run(pieces, [&](size_t i, int) {
      size_t begin = n / pieces * i + std::min(i, n % pieces);
      size_t end = n / pieces * (i + 1) + std::min(i + 1, n % pieces);
      if (begin < end) body(begin, end);
    });
  }

 private:
  void stop() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (auto& w : workers_) w.join();
  }
  void work(int worker) {
    for (;;) {
      size_t task = next_.fetch_add(1, std::memory_order_relaxed);
      if (task >= count_) return;
      try {
        (*body_)(task, worker);
      } catch (...) {
        std::lock_guard<std::mutex> lock(mutex_);
        if (!error_) error_ = std::current_exception();
        next_.store(count_, std::memory_order_relaxed);
      }
    }
  }
  void serve(int worker) {
    unsigned seen = 0;
    for (;;) {
      {
        std::unique_lock<std::mutex> lock(mutex_);
        wake_.wait(lock, [&] { return stopping_ || round_ != seen; });
        if (stopping_) return;
        seen = round_;
      }
      work(worker);
      std::lock_guard<std::mutex> lock(mutex_);
      if (--busy_ == 0) done_.notify_one();
    }
  }

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::atomic<size_t> next_{0};
  size_t count_ = 0;
  const std::function<void(size_t, int)>* body_ = nullptr;
  std::exception_ptr error_;
  int busy_ = 0;
  unsigned round_ = 0;
  bool stopping_ = false;
};

}  // namespace dp
