// The steps of multilinear_steps.h on a pool of threads.
#include "multilinear_steps.h"

#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "goldilocks_multilinear.h"
#include "multilinear_lanes.h"

namespace dp {

namespace {

using namespace gl;

constexpr size_t GRAIN = 1 << 10;  // items; below, waking a thread costs more than it saves

template <class Step>
Step arguments(const void* bytes, size_t size) {
  if (size != sizeof(Step)) throw std::invalid_argument("a step's arguments: wrong length");
  Step step;
  std::memcpy(&step, bytes, size);
  return step;
}

template <class Step>
void each(const Lanes& lanes, const void* bytes, size_t size, size_t items, int, u64*) {
  const Step step = arguments<Step>(bytes, size);
  for (const Range& left : lanes.each(step, items))
    lanes.pool.ranges(left.end - left.begin, GRAIN, [&](size_t begin, size_t end) {
      for (size_t i = left.begin + begin; i < left.begin + end; ++i) step(i);
    });
}

template <class Step>
std::vector<Ext> sums_of(const Lanes& lanes, const Step& step, size_t items, int log_classes) {
  const size_t classes = (size_t)1 << log_classes;
  std::vector<Ext> total(Step::SUMS * classes, embed(0));
  std::mutex mutex;
  for (const Range& left : lanes.sums(step, items, log_classes, total))
    lanes.pool.ranges(left.end - left.begin, GRAIN, [&](size_t from, size_t to) {
      const size_t begin = left.begin + from, end = left.begin + to;
      std::vector<Ext> own(Step::SUMS * classes, embed(0));
      for (size_t a = 0; a < classes; ++a) {
        Ext sums[Step::SUMS] = {};
        for (size_t i = begin + ((a - begin) & (classes - 1)); i < end; i += classes) step(i, sums);
        for (int k = 0; k < Step::SUMS; ++k) own[k * classes + a] = sums[k];
      }
      std::lock_guard<std::mutex> lock(mutex);
      for (size_t i = 0; i < own.size(); ++i) total[i] = add(total[i], own[i]);
    });
  return total;
}

template <class Step>
void sum(const Lanes& lanes, const void* bytes, size_t size, size_t items, int log_classes, u64* out) {
  const auto total = sums_of(lanes, arguments<Step>(bytes, size), items, log_classes);
  std::memcpy(out, total.data(), total.size() * sizeof(Ext));
}

template <class Step>
void round(const Lanes& lanes, const void* bytes, size_t size, size_t items, int, u64*) {
  const Step step = arguments<Step>(bytes, size);
  const auto total = sums_of(lanes, step, items, 0);
  Ext sums[Step::SUMS];
  std::memcpy(sums, total.data(), sizeof sums);
  step.finish(Alone{}, sums);
}

// A block of one thread.
struct Block {
  u64 first = 0, stride = 1;
  void sync() const {}
  Ext sum(const Ext& v) const { return v; }
  bool leads() const { return true; }
  Alone lanes() const { return {}; }
};

template <class Step>
void block(const Lanes&, const void* bytes, size_t size, size_t, int, u64*) {
  arguments<Step>(bytes, size)(Block{});
}

using Run = void (*)(const Lanes&, const void*, size_t, size_t, int, u64*);

struct Known {
  Run run;
  size_t sums;
};

#define DP_EACH(name, Step) {#name, {&each<steps::Step>, 0}},
#define DP_SUM(name, Step) {#name, {&sum<steps::Step>, steps::Step::SUMS}},
#define DP_ROUND(name, Step) {#name, {&round<steps::Step>, 0}},
#define DP_BLOCK(name, Step) {#name, {&block<steps::Step>, 0}},
const std::map<std::string, Known> KNOWN = {DP_MULTILINEAR_STEPS(DP_EACH, DP_SUM) DP_ROW_PROGRAM_STEPS(DP_EACH, DP_SUM)
                                                DP_ROUND_STEPS(DP_ROUND) DP_BLOCK_STEPS(DP_BLOCK)};

}  // namespace

void multilinear_step(Pool& pool, const std::string& set, const std::string& name, const void* arguments, size_t bytes, size_t items,
                      int log_classes, u64* out, size_t words) {
  const auto found = KNOWN.find(name);
  if (found == KNOWN.end()) throw std::invalid_argument("unknown step " + name);
  if (words != 3 * (found->second.sums << log_classes)) throw std::invalid_argument("out: wrong length");
  found->second.run({pool, multilinear_kernels(set)}, arguments, bytes, items, log_classes, out);
}

}  // namespace dp
