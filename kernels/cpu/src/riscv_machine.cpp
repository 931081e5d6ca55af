// Loading, memory and snapshots of the machine.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

#include "riscv_codes.h"

namespace dp::riscv {

namespace {

constexpr u64 PROGRAM_END = (u64)1 << 32;  // segments of the file end here

}  // namespace

AddressSpace::AddressSpace(size_t size) : size_(size) {
  void* const found =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) throw std::bad_alloc();
  // A huge page would be zeroed in full for every word of its own.
  madvise(found, size, MADV_NOHUGEPAGE);
  data_ = static_cast<u8*>(found);
}

AddressSpace::~AddressSpace() { munmap(data_, size_); }

void AddressSpace::clear() {
  if (madvise(data_, size_, MADV_DONTNEED) != 0) throw std::bad_alloc();
}

Machine::Machine(const std::vector<Segment>& segments, const std::vector<Patch>& patches, u32 entry,
                 size_t most_pages, u32 answered, bool wide)
    : segments_(segments), most_pages_(most_pages), entry_(entry), answered_(answered), wide_(wide),
      memory_(memory_size()), open_(memory_size() >> PAGE_BITS) {
  std::sort(segments_.begin(), segments_.end(), [](auto& a, auto& b) { return a.address < b.address; });
  size_t bytes = 0;
  u64 end = LOWEST;
  for (const Segment& segment : segments_) {
    if (segment.address < end) throw std::invalid_argument("segments: overlapping, or too low");
    end = (u64)segment.address + segment.size;
    if (end > PROGRAM_END || segment.data_size > segment.size) throw std::invalid_argument("segments: beyond the end");
    if (segment.executable && (segment.writable || segment.address % 4 != 0))
      throw std::invalid_argument("segments: not fit to be executed");
    bytes += segment.data_size;
  }
  image_.resize(bytes);
  bytes = 0;
  for (Segment& segment : segments_) {
    if (segment.data_size != 0) std::memcpy(image_.data() + bytes, segment.data, segment.data_size);
    segment.data = image_.data() + bytes;
    bytes += segment.data_size;
    if (segment.executable) decode(segment);
  }
  for (const auto& [address, word] : patches) {
    const Op* const op = find(address);
    if (op == nullptr) throw std::invalid_argument("patches: not in the program");
    words_[op - ops_.data()] = word;
    ops_[op - ops_.data()] = riscv::decode(word, address, wide_);
  }
  link();
  if (find(entry_) == nullptr) throw std::invalid_argument("entry: not in the program");
}

void Machine::decode(const Segment& segment) {
  const u32 words = segment.data_size / 4;
  if (words == 0) return;
  const bool joins = !ranges_.empty() && ranges_.back().address + 4 * ranges_.back().words == segment.address;
  if (joins) {  // there is no end behind the range that goes on
    ops_.pop_back();
    words_.pop_back();
  } else {
    ranges_.push_back({segment.address, 0, (u32)ops_.size()});
  }
  for (u32 i = 0; i < words; ++i) {
    u32 word;
    std::memcpy(&word, segment.data + 4 * i, 4);
    ops_.push_back(riscv::decode(word, segment.address + 4 * i, wide_));
    words_.push_back(word);
  }
  ranges_.back().words += words;
  ops_.push_back({END, NO_DESTINATION, 0, NO_SECOND, 0, segment.address + 4 * words, 0});
  words_.push_back(0);
}

// Replace the targets of branches and jumps by the indices of their operations.
void Machine::link() {
  for (Op& op : ops_) {
    if (op.code < BEQ || op.code > JAL) continue;
    const u64 address = target_of(op);
    const Op* const target = address >> 32 == 0 ? find((u32)address) : nullptr;
    if (target == nullptr || target == &op)
      op.code += TO_BAD;
    else
      op.imm = (u32)(target - ops_.data());
  }
}

void Machine::classify(const u8* classes) {
  Counts before = {};
  before_.resize(ops_.size());
  for (size_t i = 0; i < ops_.size(); ++i) {
    before_[i] = before;
    if (classes[i] < CLASSES) ++before.of[classes[i]];
  }
}

const Op* Machine::find(u32 address) const {
  for (const Range& range : ranges_) {
    const u32 offset = address - range.address;
    if (offset / 4 < range.words && offset % 4 == 0) return &ops_[range.first + offset / 4];
  }
  return nullptr;
}

u32 Machine::word() const {
  const Op* const op = find(pc_);
  return op != nullptr ? words_[op - ops_.data()] : 0;
}

u64 Machine::target_of(const Op& op) const {
  return wide_ ? (u64)((i64)op.pc + (i32)(op.imm - op.pc)) : op.imm;
}

Stop Machine::bad_target(const Op& op, u64 target) const {
  if (target % 4 != 0) return Stop::UNALIGNED_JUMP;
  return target == op.pc ? Stop::SELF_JUMP : Stop::OUTSIDE;
}

u32 Machine::memory_word(u64 address) const {
  u32 word;
  std::memcpy(&word, memory_.data() + (address & ~(u64)3), 4);
  return word;
}

u32 Machine::memory_mark(u64 address) const {
  u32 mark = 0;
  if (marks_ != nullptr) std::memcpy(&mark, marks_->data() + (address & ~(u64)3), 4);
  return mark;
}

void Machine::forget_marks() {
  if (marks_ == nullptr)
    marks_ = std::make_unique<AddressSpace>(memory_size());
  else
    marks_->clear();
}

void Machine::reset(std::vector<u32> private_input, std::vector<u32> public_input) {
  memory_.clear();
  open_.clear();
  std::fill(std::begin(registers_), std::end(registers_), 0);
  std::fill(std::begin(register_segment_before_), std::end(register_segment_before_), 0);
  std::fill(std::begin(register_segment_), std::end(register_segment_), 0);
  pages_ = private_at_ = public_at_ = 0;
  segments_begun_ = 0;
  touched_.clear();
  calls_.clear();
  permuted_.clear();
  accesses_.clear();
  std::fill(std::begin(call_counts_), std::end(call_counts_), 0);
  all_words_.clear();
  output_.clear();
  private_ = std::move(private_input);
  public_ = std::move(public_input);
  cycle_ = 0;
}

void Machine::start(std::vector<u32> private_input, std::vector<u32> public_input) {
  reset(std::move(private_input), std::move(public_input));
  for (const Segment& segment : segments_)
    if (segment.data_size != 0) std::memcpy(memory_.data() + segment.address, segment.data, segment.data_size);
  pc_ = entry_;
}

void Machine::restore(const u64* registers, u32 pc, u64 cycle, const u64* addresses, const u32* values, size_t words,
                      std::vector<u32> private_input, std::vector<u32> public_input) {
  reset(std::move(private_input), std::move(public_input));  // no image: what the segment accesses is in the snapshot
  std::copy(registers, registers + REGISTERS, registers_);
  registers_[0] = 0;
  pc_ = pc;
  cycle_ = cycle;
  for (size_t i = 0; i < words; ++i) {
    if (addresses[i] % 4 != 0 || addresses[i] >= memory_size()) throw std::invalid_argument("words: not aligned");
    std::memcpy(memory_.data() + addresses[i], values + i, 4);
  }
}

bool Machine::writable(u64 address, u32 size) const {
  if (address < LOWEST) return false;
  for (const Segment& segment : segments_)
    if (!segment.writable && segment.address < address + size &&
        address < (u64)segment.address + segment.size)
      return false;
  return true;
}

Stop Machine::open_page(u64 address, u32 size, bool store) {
  if (address < LOWEST) return Stop::LOW_ADDRESS;
  if (store && !writable(address, size)) return Stop::READ_ONLY;
  const u64 page = address >> PAGE_BITS;
  u8& flags = open_.data()[page];
  if (!(flags & READABLE)) {
    if (pages_ == most_pages_) return Stop::MEMORY_LIMIT;
    ++pages_;
    flags |= READABLE;
  }
  // A page that a read-only segment shares stays closed for stores, and each is looked at.
  if (store && writable(page << PAGE_BITS, PAGE)) flags |= WRITABLE;
  return Stop::LIMIT;
}

}  // namespace dp::riscv
