#include "recursion_tree.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "hash/poseidon2.h"

namespace dp {
namespace recursion {

namespace {

using poseidon2::DIGEST;
using poseidon2::RATE;
using poseidon2::WIDTH;

// The digests of rows, each after the header.
std::vector<u64> leaf_digests(const HashOps& hash, const TreeOpening& tree, Permuted& permuted) {
  const size_t n = tree.row_count, heads = tree.header.size(), length = heads + tree.width;
  std::vector<u64> states(n * WIDTH, 0), outs(n * WIDTH), digests(n * DIGEST);
  for (size_t i = 0; i < n; ++i) {
    states[i * WIDTH + RATE] = poseidon2::SPONGE_TAG;
    states[i * WIDTH + RATE + 1] = length;
  }
  for (size_t at = 0; at < length; at += RATE) {
    for (size_t i = 0; i < n; ++i)
      for (size_t k = 0; k < RATE; ++k) {
        const size_t word = at + k;
        u64& to = states[i * WIDTH + k];
        to = word < heads ? tree.header[word] : word < length ? tree.rows[i * tree.width + word - heads] : 0;
      }
    permute_states(hash, states.data(), n, outs.data());
    permuted.keep(states.data(), n, outs.data());
    states.swap(outs);
  }
  for (size_t i = 0; i < n; ++i) std::memcpy(&digests[i * DIGEST], &states[i * WIDTH], DIGEST * sizeof(u64));
  return digests;
}

// The digests of nodes from their children, `arity` digests each.
std::vector<u64> node_digests(const HashOps& hash, const std::vector<u64>& children, size_t arity, Permuted& permuted) {
  const size_t own = arity * DIGEST, n = children.size() / own;
  std::vector<u64> states(n * WIDTH, 0), outs(n * WIDTH), digests(n * DIGEST);
  for (size_t i = 0; i < n; ++i) {
    std::memcpy(&states[i * WIDTH], &children[i * own], own * sizeof(u64));
    if (own < WIDTH) states[i * WIDTH + own] = poseidon2::NODE_TAG;
  }
  permute_states(hash, states.data(), n, outs.data());
  permuted.keep(states.data(), n, outs.data());
  for (size_t i = 0; i < n; ++i)
    for (int w = 0; w < DIGEST; ++w) digests[i * DIGEST + w] = gl::add(outs[i * WIDTH + w], states[i * WIDTH + w]);
  return digests;
}

void sort_distinct(std::vector<u64>& numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

// The place of a number among ascending ones; their count where it is not among them.
size_t place_of(const std::vector<u64>& ascending, u64 number) {
  const auto found = std::lower_bound(ascending.begin(), ascending.end(), number);
  return found != ascending.end() && *found == number ? (size_t)(found - ascending.begin()) : ascending.size();
}

constexpr size_t ENTRY = 2 * WIDTH;  // words of an entry of `Permuted`

u64 low_bits(u32 count) { return ((u64)1 << count) - 1; }

}  // namespace

void permute_states(const HashOps& hash, const u64* states, size_t n, u64* out) {
  const size_t whole = n / hash.lanes * hash.lanes, left = n - whole;
  hash.permute(states, whole, out);
  if (left == 0) return;
  states += whole * WIDTH, out += whole * WIDTH;
  if (left == 1) return POSEIDON2_PORTABLE.permute(states, 1, out);
  std::vector<u64> lanes(hash.lanes * WIDTH, 0);
  std::memcpy(lanes.data(), states, left * WIDTH * sizeof(u64));
  hash.permute(lanes.data(), hash.lanes, lanes.data());
  std::memcpy(out, lanes.data(), left * WIDTH * sizeof(u64));
}

void Permuted::keep(const u64* states, size_t n, const u64* outs) {
  grow(words_.size() / ENTRY + n);
  for (size_t i = 0; i < n; ++i, states += WIDTH, outs += WIDTH) {
    u32& place = places_[slot(states)];
    if (place) continue;
    words_.insert(words_.end(), states, states + WIDTH);
    words_.insert(words_.end(), outs, outs + WIDTH);
    place = (u32)(words_.size() / ENTRY);
  }
}

const u64* Permuted::find(const u64* state) const {
  if (places_.empty()) return nullptr;
  const u32 place = places_[slot(state)];
  return place ? &words_[(place - 1) * ENTRY + WIDTH] : nullptr;
}

// Where a state is, or would be.
size_t Permuted::slot(const u64* state) const {
  u64 hash = 0;
  for (int k = 0; k < WIDTH; ++k) hash = (hash ^ state[k]) * 0x9e3779b97f4a7c15;
  const size_t mask = places_.size() - 1;
  for (size_t at = (hash >> 32) & mask;; at = (at + 1) & mask) {
    const u32 place = places_[at];
    if (!place || std::memcmp(&words_[(place - 1) * ENTRY], state, WIDTH * sizeof(u64)) == 0) return at;
  }
}

// Makes room for so many entries.
void Permuted::grow(size_t entries) {
  if (entries >> 31) throw std::invalid_argument("openings with too many nodes");
  size_t slots = std::max<size_t>(places_.size(), 64);
  while (slots < 2 * entries) slots *= 2;
  if (slots == places_.size()) return;
  places_.assign(slots, 0);
  for (size_t entry = 0; entry * ENTRY < words_.size(); ++entry) places_[slot(&words_[entry * ENTRY])] = (u32)entry + 1;
}

bool OpenedNodes::open(const HashOps& hash, const TreeOpening& tree, const std::vector<u64>& leaves, Permuted& permuted) {
  if (tree.levels.empty()) throw std::invalid_argument("a tree has levels");
  for (size_t i = 0; i < tree.levels.size(); ++i) {
    const int log_size = tree.levels[i], above = i + 1 < tree.levels.size() ? tree.levels[i + 1] : 0;
    const bool last = i + 1 == tree.levels.size();
    if (log_size < 0 || log_size > 60 || (last ? log_size != 0 : log_size - above < 1 || log_size - above > 2))
      throw std::invalid_argument("a tree's levels: from the leaves to the root, by one or two");
  }
  mask_ = low_bits((u32)tree.levels[0]);
  leaves_ = leaves;
  for (u64& leaf : leaves_) leaf &= mask_;
  sort_distinct(leaves_);
  levels_.clear();
  width_ = tree.width;
  rows_ = tree.rows;
  if (tree.row_count == leaves_.size() && rise(hash, tree, permuted)) return true;
  rows_ = nullptr;
  levels_.clear();
  return false;
}

bool OpenedNodes::rise(const HashOps& hash, const TreeOpening& tree, Permuted& permuted) {
  for (size_t i = 0; i < tree.path_count * DIGEST; ++i)
    if (tree.path[i] >= gl::P) return false;
  std::vector<u64> known = leaves_, digests = leaf_digests(hash, tree, permuted);
  const u64 *path = tree.path, *const end = path + tree.path_count * DIGEST;
  for (size_t i = 0; i + 1 < tree.levels.size(); ++i) {
    levels_.push_back({(u32)tree.levels[i], (u32)tree.levels[i + 1], {}, {}, {}});
    Level& level = levels_.back();
    const size_t arity = (size_t)1 << (level.below - level.above);
    for (const u64 number : known) level.parents.push_back(number & low_bits(level.above));
    sort_distinct(level.parents);
    level.children.resize(level.parents.size() * arity * DIGEST);
    for (size_t c = 0, next = 0; c < arity; ++c)  // in ascending order, of the known ones and of the path's
      for (size_t p = 0; p < level.parents.size(); ++p) {
        u64* const to = &level.children[(p * arity + c) * DIGEST];
        const u64* from;
        if (next < known.size() && known[next] == level.parents[p] + ((u64)c << level.above)) {
          from = &digests[next++ * DIGEST];
        } else {
          if (path == end) return false;
          from = path;
          path += DIGEST;
        }
        std::memcpy(to, from, DIGEST * sizeof(u64));
      }
    known = level.parents;
    digests = level.digests = node_digests(hash, level.children, arity, permuted);
  }
  return path == end;
}

const u64* OpenedNodes::row(u64 leaf) const {
  const size_t place = place_of(leaves_, leaf & mask_);
  return rows_ && place < leaves_.size() ? rows_ + place * width_ : nullptr;
}

OpenedNodes::Node OpenedNodes::above(u64 leaf, u32 log_size, size_t arity) const {
  for (const Level& level : levels_) {
    if (level.below != log_size || (size_t)1 << (level.below - level.above) != arity) continue;
    const size_t place = place_of(level.parents, leaf & low_bits(level.above));
    if (place < level.parents.size()) return {&level.children[place * arity * DIGEST], &level.digests[place * DIGEST]};
  }
  return {nullptr, nullptr};
}

const u64* OpenedNodes::node(u64 leaf, u32 log_size) const {
  for (const Level& level : levels_) {
    if (level.below != log_size) continue;
    const u64* const all = above(leaf, log_size, (size_t)1 << (level.below - level.above)).children;
    return all ? all + (leaf >> level.above & low_bits(level.below - level.above)) * DIGEST : nullptr;
  }
  return nullptr;
}

}  // namespace recursion
}  // namespace dp
