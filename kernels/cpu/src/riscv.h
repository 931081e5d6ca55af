// A machine for RV32IM and RV64IM programs: fast execution with snapshots, counts of instructions, and execution records.
// docs/riscv.md is the specification: the machine, its host calls, segments and the record.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "platform.h"

namespace dp::riscv {

using u8 = std::uint8_t;
using i32 = std::int32_t;
using i64 = std::int64_t;

constexpr u32 PAGE_BITS = 12, PAGE = 1u << PAGE_BITS;
constexpr u32 ADDRESS_BITS = 32, ADDRESS_BITS_64 = 37;  // of an address of data, in RV32IM and RV64IM
constexpr u32 LOWEST = 4096;                 // addresses below are never accessed
constexpr size_t MOST_OUTPUT = 1u << 26;     // words
constexpr u32 MOST_RECORDED = 1u << 28;      // cycles of a segment
constexpr u32 CLASSES = 16;                  // classes of operations that a segment may count apart
constexpr u32 CLASSES_32 = 8;                // of them those that a segment of RV32IM counts
constexpr u32 STATE_WORDS = 50, STATE_BYTES = 4 * STATE_WORDS;  // of Keccak-f

// Numbers of the host calls that access memory, and the words that each accesses. All numbers are below HOST_CALLS.
enum Call : u32 {
  KECCAK_F = 6, SHA256_BLOCK, SHA256_EXTEND, SHA256_COMPRESS,
  MULTIPLY, MULTIPLY_ADD, MULTIPLY_384, MULTIPLY_ADD_384,
  SECP256K1_ADD, SECP256K1_DOUBLE, SECP256R1_ADD, SECP256R1_DOUBLE, BN254_ADD, BN254_DOUBLE,
  BLS12_381_ADD, BLS12_381_DOUBLE, ED25519_ADD, HOST_CALLS
};
constexpr u32 CALL_WORDS[HOST_CALLS] = {0,  0,  0,  0,  0,  0,  STATE_WORDS, 25, 64, 73, 36,
                                        44, 52, 64, 34, 16, 34, 16,          34, 16, 50, 24, 34};

// A segment ends behind such a call if a table of one call more could have more rows than the largest table beside it: a
// row for each cycle, and ROWS_ALWAYS that a segment has in any case. Rows are those of a call in the table that computes
// it; products and sums of points take one row each, and the table of words one for each word.
constexpr u64 KECCAK_ROWS = 100, SHA256_ROWS = 18, ROWS_ALWAYS = 1u << 18;

// Rows of a record, as docs/riscv.md has them.
enum Field : int {
  PC, WORD, RS1, RS2, RD_BEFORE, RD_AFTER, NEXT_PC, ADDRESS, MEMORY_BEFORE, MEMORY_AFTER,
  RS1_PREVIOUS, RS2_PREVIOUS, RD_PREVIOUS, MEMORY_PREVIOUS, FIELDS,
  // Of RV64IM alone: upper halves of registers, and the second word of an access of eight bytes.
  RS1_UPPER = FIELDS, RS2_UPPER, RD_BEFORE_UPPER, RD_AFTER_UPPER,
  MEMORY_BEFORE_UPPER, MEMORY_AFTER_UPPER, MEMORY_UPPER_PREVIOUS, FIELDS_64
};

// Registers, and three slots beside them. x0 as a source is slot 0; as the second source slot NO_SECOND, as the
// destination NO_DESTINATION. An operand that an instruction does not have takes the same slots.
constexpr u32 REGISTERS = 32, NO_DESTINATION = 32, NO_SECOND = 33, SLOTS = 34;

// Why the machine stands still. The numbers are those of `Stop` in distprove/stark/riscv/executor.py.
enum class Stop : int {
  LIMIT,  // the cycles that were asked for are done
  EXIT,
  ILLEGAL,
  EBREAK,
  UNALIGNED_LOAD,
  UNALIGNED_STORE,
  UNALIGNED_JUMP,
  OUTSIDE,  // a jump to where there is no program, or the end of the program was passed
  SELF_JUMP,
  LOW_ADDRESS,
  READ_ONLY,
  UNKNOWN_CALL,
  PRIVATE_END,
  PUBLIC_END,
  MEMORY_LIMIT,
  OUTPUT_LIMIT,
  BEYOND,
  OVERLAP,
  QUOTIENT,
  COORDINATE,
  NO_SUM,
};

// A decoded instruction.
struct Op {
  u8 code;
  u8 rd, rs1, rs2;  // slots
  u32 imm;          // immediate; result of lui, and of auipc in 32 bits; index of the target of jumps and branches
  u32 pc;
  u32 uses;  // a bit for each register that it reads or writes, but x0
};

// A part of the file that is loaded.
struct Segment {
  u32 address, size;       // size in memory, never beyond 2^32
  const u8* data;
  u32 data_size;           // bytes from the file, at most `size`
  bool writable, executable;
};

// Words of consecutive addresses that are executable; their operations follow one another, and an end behind them.
struct Range {
  u32 address, words, first;
};

// An instruction that is executed in place of the word at its address, which loads still read.
struct Patch {
  u32 address, word;
};

struct HostCall {
  u32 cycle, number, word;
};

// A state that Keccak-f permuted: its words before and after, and the times of their last accesses before.
struct Permuted {
  u32 before[STATE_WORDS], after[STATE_WORDS], previous[STATE_WORDS];
};

// Consecutive words that a call accesses at the base time of its cycle plus `slot`.
struct Operand {
  u32 address, words, slot;
  bool stores;
};

// What a call does: its operands, in the order of their slots, of which one stores `result`.
struct Taken {
  Operand operands[5];
  u32 count, result[64];
};

// An access of a word by such a call: its value before and after, its time, and that of the last access before.
struct Access {
  u32 address, before, after, time, previous;
};

// A word of memory that a segment accesses: its value at the start of the segment, and one more than the number of the
// last earlier segment that accessed it (0: none).
struct Touched {
  u64 address;
  u32 start, segment;
};

// Operations of each class, modulo 2^32.
struct Counts {
  u32 of[CLASSES];
};

// So many bytes of address space that takes memory as it is used. Throws std::bad_alloc.
class AddressSpace {
 public:
  explicit AddressSpace(size_t size);
  ~AddressSpace();
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;
  u8* data() const { return data_; }
  void clear();  // all zero again, and the memory given back

 private:
  u8* data_;
  size_t size_;
};

class Machine {
 public:
  // `most_pages`: pages that the program may touch. `answered`: bit i for each of the calls from SHA256_BLOCK on that is
  // answered; others are unknown calls. Throws std::invalid_argument for segments that break the rules of
  // the loader, which checks them with better words, and for patches that are not in the program. `wide`: registers
  // have 64 bits, and the program is of RV64IM. Addresses of data then have 37 bits; the program lies below 2^32.
  Machine(const std::vector<Segment>& segments, const std::vector<Patch>& patches, u32 entry, size_t most_pages,
          u32 answered, bool wide);

  // The state at the start of a run, with these inputs (words, as docs/riscv.md says).
  void start(std::vector<u32> private_input, std::vector<u32> public_input);
  // The state of a snapshot; `words` are those that its segment accesses.
  void restore(const u64* registers, u32 pc, u64 cycle, const u64* addresses, const u32* values, size_t words,
               std::vector<u32> private_input, std::vector<u32> public_input);

  // The class of each of `operations()`, which runs by segments count: below CLASSES, or CLASSES for none. Before, all
  // have none.
  void classify(const u8* classes);

  // Run for at most `cycles`.
  Stop run(u64 cycles);
  // The same; counts[i] grows by one each time that operation i of `operations()` is executed: the words of each range of
  // the program in ascending order, and one that is never executed behind each range.
  Stop run_counting(u64 cycles, u64* counts);
  // The same, as the next segment, which many calls that access memory end earlier (`full`): its registers and words are
  // noted. All calls of a run are of this kind, or none.
  Stop run_segment(u64 cycles);
  // The same, and write the record: `fields()` rows of `stride` entries each. cycles <= min(stride, MOST_RECORDED).
  Stop run_recording(u64 cycles, u32* columns, size_t stride);

  u64 cycle() const { return cycle_; }
  u32 pc() const { return pc_; }
  u32 word() const;   // instruction at pc, 0 outside of the program
  u64 fault() const { return fault_; }
  u64 registers(u32 i) const { return registers_[i]; }
  u32 fields() const { return wide_ ? FIELDS_64 : FIELDS; }
  size_t operations() const { return ops_.size(); }
  const std::vector<u32>& output() const { return output_; }

  size_t private_read() const { return private_at_; }
  // Append to the private input. A run that stopped at its end goes on from there.
  void feed(const std::vector<u32>& words) { private_.insert(private_.end(), words.begin(), words.end()); }
  size_t public_read() const { return public_at_; }

  // Of the last segment that was run or recorded. Words are in the order of their first access.
  const std::vector<Touched>& touched() const { return touched_; }
  const std::vector<HostCall>& calls() const { return calls_; }
  const std::vector<Permuted>& permuted() const { return permuted_; }
  const std::vector<Access>& accesses() const { return accesses_; }
  // How often a run that counts made the host call of this number.
  u64 call_count(u32 number) const { return call_counts_[number]; }
  u32 register_time(u32 i) const { return register_time_[i]; }
  // One more than the number of the last segment, before and with the last one, that used the register; 0: none.
  u32 register_segment_before(u32 i) const { return register_segment_before_[i]; }
  u32 register_segment(u32 i) const { return register_segment_[i]; }
  // Of the last segment that was run: operations executed of class i, below CLASSES; host calls of number i, below HOST_CALLS.
  u32 segment_class(u32 i) const { return segment_classes_[i]; }
  u32 segment_calls(u32 i) const { return segment_calls_[i]; }
  // Of the last run by segments: the addresses of all words that it accessed, in the order of their first access.
  const std::vector<u64>& all_words() const { return all_words_; }
  // `address` must lie in memory.
  u32 memory_word(u64 address) const;
  // Time of the last access of the word in a record, or number of the last segment, plus 1, in a run by segments.
  u32 memory_mark(u64 address) const;
  size_t memory_size() const { return (size_t)1 << (wide_ ? ADDRESS_BITS_64 : ADDRESS_BITS); }

 private:
  enum class Mode { FAST, COUNT, SEGMENT, RECORD };
  // The interpreter, with registers of type X: u32 or u64.
  template <Mode mode, class X>
  Stop go(u64 cycles, u64* counts, u32* columns, size_t stride);
  template <Mode mode>
  Stop go(u64 cycles, u64* counts, u32* columns, size_t stride) {
    return wide_ ? go<mode, u64>(cycles, counts, columns, stride) : go<mode, u32>(cycles, counts, columns, stride);
  }
  void reset(std::vector<u32> private_input, std::vector<u32> public_input);
  void decode(const Segment& segment);
  void link();
  void forget_marks();
  const Op* find(u32 address) const;
  // Where a jump or branch leads that has no index yet: modulo 2^32 in RV32IM, and modulo 2^64 in RV64IM.
  u64 target_of(const Op& op) const;
  Stop bad_target(const Op& op, u64 target) const;
  // Allow an access of `size` bytes in a page that is not open for it, or say why not; LIMIT if it is allowed.
  Stop open_page(u64 address, u32 size, bool store);
  bool writable(u64 address, u32 size) const;
  // Allow an access of these words, or say why not; LIMIT if it is allowed.
  Stop open_words(u32 address, u32 words, bool store);
  // Allow a call from SHA256_BLOCK on, and compute it, or say why not, and which address is at fault.
  Stop take(u32 call, u32 argument, Taken& taken, u32& about);
  // The same for a sum of points.
  Stop take_points(u32 call, u32 argument, Taken& taken, u32& about);
  // Whether a segment of so many cycles, with its calls so far, has to end.
  bool full(u64 cycles) const;

  std::vector<Op> ops_;
  std::vector<u32> words_;  // instruction of each operation
  // For each operation those before it, by class. What is executed between two jumps is the difference of two of them.
  std::vector<Counts> before_;
  std::vector<Range> ranges_;
  std::vector<Segment> segments_;  // of the loaded image: data points into `image_`
  std::vector<u8> image_;
  size_t most_pages_, pages_ = 0;
  u32 entry_, answered_;
  bool wide_;

  AddressSpace memory_, open_;  // bytes, and the flags of each page
  // A number beside each word of the memory: see memory_mark.
  std::unique_ptr<AddressSpace> marks_;

  u64 registers_[SLOTS] = {};
  u32 register_time_[SLOTS] = {};
  u32 register_segment_before_[REGISTERS] = {}, register_segment_[REGISTERS] = {}, segments_begun_ = 0;
  u32 pc_ = 0;
  u64 cycle_ = 0, fault_ = 0;
  u32 segment_classes_[CLASSES] = {}, segment_calls_[HOST_CALLS] = {};
  std::vector<u32> private_, public_, output_;
  std::vector<u64> all_words_;
  size_t private_at_ = 0, public_at_ = 0;
  std::vector<HostCall> calls_;
  std::vector<Permuted> permuted_;
  std::vector<Access> accesses_;
  u64 call_counts_[HOST_CALLS] = {};
  std::vector<Touched> touched_;
};

}  // namespace dp::riscv
