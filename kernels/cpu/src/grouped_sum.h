// Sums of points by group: out[g] = sum of the points named by entries[offsets[g]] to entries[offsets[g + 1]].
//
// The entries, ordered by group, are cut into segments of equal length whatever the groups' sizes, so that one group with
// nearly all the points costs no more than many small ones and threads share the work evenly. Within a segment the points of
// each group are added in pairs, round by round, all pairs of a round in one batch (batch_add.h, or field_lanes.h where that
// is usable). A group cut by a segment's end leaves partial sums, which are summed the same way.
#pragma once
#include <memory>
#include <type_traits>
#include <vector>

#include "field_lanes.h"
#include "batch_add.h"
#include "threads.h"
#include "views.h"

namespace dp {

// An entry names a point and a sign.
DP_HD u32 make_entry(size_t index, bool negative) { return (u32)(index << 1) | (u32)negative; }
constexpr size_t MAX_ENTRY_POINTS = (size_t)1 << 31;

template <class F>
class GroupedSum {
 public:
  explicit GroupedSum(Pool& pool) : pool_(pool), scratch_(pool.threads()) {}

  // entries and offsets (groups + 1 of them, from 0) as above; out receives `groups` points
  void run(In<Affine<F>> points, const u32* entries, const size_t* offsets, size_t groups, Affine<F>* out) {
    std::fill(out, out + groups, Affine<F>::infinity());
    const size_t total = offsets[groups];
    if (total == 0) return;
    const size_t length = segment_length(total);
    const size_t segments = (total + length - 1) / length;
    std::vector<Partial> partials(2 * segments, Partial{NO_GROUP, Affine<F>::infinity()});
    pool_.run(segments, [&](size_t s, int worker) {
      segment(scratch_[worker], points, entries, offsets, groups, s * length, std::min(total, (s + 1) * length), out,
              &partials[2 * s]);
    });
    merge(partials, out);
  }

 private:
  static constexpr size_t NO_GROUP = ~(size_t)0;
  // Half a megabyte of points: with the products beside them they stay in the second-level cache.
  static constexpr size_t MAX_SEGMENT = ((size_t)1 << 19) / sizeof(Affine<F>);
  static constexpr size_t MIN_SEGMENT = 256;  // an inversion costs as much as some tens of additions

  struct Partial {
    size_t group;
    Affine<F> sum;
  };
  struct Run {
    u32 first, count;  // a group's points within the segment
  };
  using Pair = lanes::Pair;  // slot out = slot left + slot left + 1
  struct Scratch {
    std::vector<Affine<F>> slots;
    std::vector<F> suffix;
    std::vector<u64> lanes;  // scratch of FieldLanes
    std::vector<Run> runs;
    std::vector<Pair> pairs;
  };

  size_t segment_length(size_t total) const {
    const size_t share = total / ((size_t)pool_.threads() * 4) + 1;
    return std::min(MAX_SEGMENT, std::max(MIN_SEGMENT, share));
  }

  void segment(Scratch& s, In<Affine<F>> points, const u32* entries, const size_t* offsets, size_t groups, size_t begin,
               size_t end, Affine<F>* out, Partial* partials) {
    const size_t count = end - begin;
    if (s.slots.size() < count) {
      s.slots.resize(count);
      s.suffix.resize(count / 2 + 1);
    }
    const size_t first_group = std::upper_bound(offsets, offsets + groups + 1, begin) - offsets - 1;
    s.runs.clear();
    for (size_t g = first_group; g < groups && offsets[g] < end; ++g) {
      const size_t a = std::max(offsets[g], begin), b = std::min(offsets[g + 1], end);
      if (a < b) s.runs.push_back({(u32)(a - begin), (u32)(b - a)});
    }
    const u32* own = entries + begin;
    auto gather = [&](size_t slot, auto& out) {
      Affine<F> p = points[own[slot] >> 1];
      if (!std::is_same_v<decltype(out), F&> && own[slot] & 1) p.y = p.y.neg();
      take(p, out);
    };
    auto prefetch = [&](size_t slot) {
      if (slot < count) points.prefetch(own[slot] >> 1);
    };
    // On lanes all points are copied to the slots first. Otherwise the first round takes them from where they lie.
    if (FieldLanes<F>::usable()) {
      for (u32 slot = 0; slot < count; ++slot) {
        prefetch(slot + PREFETCH);
        gather(slot, s.slots[slot]);
      }
    } else {
      pair_up(s);
      batch_add(
          s.pairs.size(), s.suffix.data(),
          [&](size_t i, auto& a, auto& b) {
            const u32 left = s.pairs[i].left;
            for (const u32 next : {left - PREFETCH, left + PREFETCH}) {  // on the way back, and forth
              prefetch(next);
              prefetch(next + 1);
            }
            gather(left, a);
            gather(left + 1, b);
          },
          [&](size_t i, const Affine<F>& sum) { s.slots[s.pairs[i].out] = sum; });
      for (Run& run : s.runs) {
        if (run.count & 1) gather(run.first + run.count - 1, s.slots[run.first + run.count / 2]);
        run.count = (run.count + 1) / 2;
      }
    }
    // then within the slots, until each run is one point
    while (pair_up(s)) {
      if (FieldLanes<F>::usable() && s.pairs.size() >= lanes::LANES) {
        FieldLanes<F>::add(s.slots.data(), s.pairs, s.lanes);
      } else {
        batch_add(
            s.pairs.size(), s.suffix.data(),
            [&](size_t i, auto& a, auto& b) {
              take(s.slots[s.pairs[i].left], a);
              take(s.slots[s.pairs[i].left + 1], b);
            },
            [&](size_t i, const Affine<F>& sum) { s.slots[s.pairs[i].out] = sum; });
      }
      for (Run& run : s.runs) {
        if (run.count & 1) s.slots[run.first + run.count / 2] = s.slots[run.first + run.count - 1];
        run.count = (run.count + 1) / 2;
      }
    }
    size_t r = 0;
    for (size_t g = first_group; g < groups && offsets[g] < end; ++g) {
      if (offsets[g] == offsets[g + 1] || offsets[g + 1] <= begin) continue;
      const Affine<F>& sum = s.slots[s.runs[r++].first];
      if (offsets[g] >= begin && offsets[g + 1] <= end) {
        out[g] = sum;
      } else {
        partials[offsets[g] >= begin] = {g, sum};  // [0]: begun before this segment; [1]: goes on after it
      }
    }
  }

  // The pairs of the next round; false when every run is one point.
  static bool pair_up(Scratch& s) {
    s.pairs.clear();
    for (const Run& run : s.runs)
      for (u32 i = 0; i + 1 < run.count; i += 2) s.pairs.push_back({run.first + i, run.first + i / 2});
    return !s.pairs.empty();
  }

  void merge(const std::vector<Partial>& partials, Affine<F>* out) {
    std::vector<Affine<F>> sums;
    std::vector<u32> entries;
    std::vector<size_t> groups, offsets;
    for (const Partial& p : partials) {
      if (p.group == NO_GROUP) continue;
      if (groups.empty() || groups.back() != p.group) {
        groups.push_back(p.group);
        offsets.push_back(sums.size());
      }
      entries.push_back(make_entry(sums.size(), false));
      sums.push_back(p.sum);
    }
    if (groups.empty()) return;
    offsets.push_back(sums.size());
    std::vector<Affine<F>> totals(groups.size());
    run(In<Affine<F>>(reinterpret_cast<const u8*>(sums.data())), entries.data(), offsets.data(), groups.size(),
        totals.data());
    for (size_t i = 0; i < groups.size(); ++i) out[groups[i]] = totals[i];
  }

  static constexpr u32 PREFETCH = 16;  // entries ahead
  Pool& pool_;
  std::vector<Scratch> scratch_;
};

}  // namespace dp
