// The interpreter: direct threading over decoded operations. One source makes four loops for either width of registers: the
// fast one, the one that counts, the one of segments, and the one that records.
#include <algorithm>
#include <cstring>
#include <type_traits>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "hash/keccak.h"
#include "riscv_codes.h"

#define DP_RARE(condition) __builtin_expect(!!(condition), 0)

namespace dp::riscv {

namespace {

constexpr u32 BLOCK = 256;  // cycles that are written to a record at once
constexpr Field MEMORY_FIELDS[] = {ADDRESS, MEMORY_BEFORE, MEMORY_AFTER, MEMORY_PREVIOUS,
                                   MEMORY_BEFORE_UPPER, MEMORY_AFTER_UPPER, MEMORY_UPPER_PREVIOUS};

// All bits for the slots that are registers with a value of their own.
struct Real {
  u32 mask[SLOTS] = {};
  constexpr Real() {
    for (u32 i = 1; i < REGISTERS; ++i) mask[i] = ~0u;
  }
};
constexpr Real REAL;

// Copy words past the caches, where the machine can: a record is larger than they are, and is read much later.
void write_through(u32* to, const u32* from, size_t count) {
  size_t done = 0;
#ifdef __SSE2__
  if (reinterpret_cast<std::uintptr_t>(to) % 16 == 0)
    for (; done + 4 <= count; done += 4)
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + done),
                       _mm_load_si128(reinterpret_cast<const __m128i*>(from + done)));
#endif
  std::memcpy(to + done, from + done, (count - done) * sizeof(u32));
}

// Other threads see what was written past the caches.
void written_through() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

// A word or a register as a number with sign.
template <class X>
using Signed = std::make_signed_t<X>;

// The number of 32 bits with its sign, in a register.
template <class X>
X extended(u32 value) {
  return (X)(Signed<X>)(i32)value;
}

// Twice as many bits as X.
template <class X>
using Double = std::conditional_t<sizeof(X) == 4, u64, unsigned __int128>;
template <class X>
using SignedDouble = std::conditional_t<sizeof(X) == 4, i64, __int128>;

template <class X>
X upper_half(Double<X> product) {
  return (X)(product >> 8 * sizeof(X));
}

template <class X>
X divide(X a, X b) {
  if (b == 0) return ~(X)0;
  if (b == ~(X)0) return 0 - a;
  return (X)((Signed<X>)a / (Signed<X>)b);
}

template <class X>
X divide_unsigned(X a, X b) {
  return b != 0 ? a / b : ~(X)0;
}

template <class X>
X remainder(X a, X b) {
  if (b == 0) return a;
  if (b == ~(X)0) return 0;
  return (X)((Signed<X>)a % (Signed<X>)b);
}

template <class X>
X remainder_unsigned(X a, X b) {
  return b != 0 ? a % b : a;
}

template <class T>
T get(const u8* memory, u64 address) {
  T value;
  std::memcpy(&value, memory + address, sizeof(T));
  return value;
}

template <class T>
void put(u8* memory, u64 address, T value) {
  std::memcpy(memory + address, &value, sizeof(T));
}

// Keccak-f of the 25 lanes at an address.
__attribute__((noinline)) void permute(u8* state) {
  u64 lanes[25];
  static_assert(sizeof lanes == STATE_BYTES);
  std::memcpy(lanes, state, sizeof lanes);
  keccak::permute(lanes);
  std::memcpy(state, lanes, sizeof lanes);
}

// Cycles that are not yet written to a record of so many rows.
template <int ROWS>
struct Block {
  alignas(16) u32 rows[ROWS][BLOCK + 16];

  Block() {
    for (int field : MEMORY_FIELDS)
      if (field < ROWS) std::memset(rows[field], 0, sizeof rows[field]);
  }

  // Write `count` cycles, at least one, to columns that begin `stride` apart. `next`: where the last one leads.
  __attribute__((noinline)) void write(u32* to, size_t stride, u32 count, u32 next) {
    std::memcpy(rows[NEXT_PC], rows[PC] + 1, (count - 1) * sizeof(u32));
    rows[NEXT_PC][count - 1] = next;
    for (int field = 0; field < ROWS; ++field) write_through(to + field * stride, rows[field], count);
    for (int field : MEMORY_FIELDS)
      if (field < ROWS) std::memset(rows[field], 0, count * sizeof(u32));
  }
};

}  // namespace

template <Machine::Mode mode, class X>
Stop Machine::go(const u64 cycles, u64* const counts, u32* const columns, const size_t stride) {
  constexpr bool RECORD = mode == Mode::RECORD, COUNT = mode == Mode::COUNT, SEGMENT = mode == Mode::SEGMENT;
  constexpr bool WIDE = sizeof(X) == 8;
  constexpr u32 BITS = 8 * sizeof(X);
  const Op* const ops = ops_.data();
  const u32* const words = words_.data();
  const Op* op = find(pc_);
  if (op == nullptr) {
    fault_ = pc_;
    return cycles == 0 ? Stop::LIMIT : Stop::OUTSIDE;
  }
  // The largest range, where almost all jumps of jalr go.
  const Range* largest = &ranges_[0];
  for (const Range& range : ranges_)
    if (range.words > largest->words) largest = &range;
  const u32 main_address = largest->address, main_words = largest->words;
  const Op* const main_ops = ops + largest->first;

  u8* const memory = memory_.data();
  const u8* const open = open_.data();
  X x[SLOTS];  // a copy: no store into the guest's memory can change it, which the compiler then knows
  std::copy(registers_, registers_ + SLOTS, x);

  u32 last[SLOTS] = {};  // RECORD: time of the last access
  u32* const marks = RECORD || SEGMENT ? reinterpret_cast<u32*>(marks_->data()) : nullptr;
  size_t recorded = 0;
  u32 time = 4;

  u64 left = cycles;
  Stop stop = Stop::LIMIT;

  // RECORD: cycles are gathered in a block. Written one by one to columns that lie a power of two apart, they would fall
  // into one set of the cache. A cycle stores as little as it can: the next pc is the pc of the cycle behind it, and what
  // concerns memory is zero unless the cycle says otherwise.
  Block<WIDE ? FIELDS_64 : FIELDS> block;
  u32 filled = 0;
  const auto flush = [&](u32 next) {
    block.write(columns + recorded, stride, filled, next);
    recorded += filled;
    filled = 0;
  };
  const auto record = [&](const Op& done, X a, X b, X before, X after, u32 next) {
    auto& rows = block.rows;
    const u32 i = filled;
    rows[PC][i] = done.pc;
    rows[WORD][i] = words[&done - ops];
    rows[RS1][i] = (u32)a;
    rows[RS2][i] = (u32)b;
    rows[RD_BEFORE][i] = (u32)before;
    rows[RD_AFTER][i] = (u32)after;
    if constexpr (WIDE) {
      rows[RS1_UPPER][i] = (u32)(a >> 32);
      rows[RS2_UPPER][i] = (u32)(b >> 32);
      rows[RD_BEFORE_UPPER][i] = (u32)(before >> 32);
      rows[RD_AFTER_UPPER][i] = (u32)(after >> 32);
    }
    rows[RS1_PREVIOUS][i] = last[done.rs1];
    last[done.rs1] = time & REAL.mask[done.rs1];
    rows[RS2_PREVIOUS][i] = last[done.rs2];
    last[done.rs2] = (time + 1) & REAL.mask[done.rs2];
    rows[RD_PREVIOUS][i] = last[done.rd];
    last[done.rd] = (time + 3) & REAL.mask[done.rd];
    time += 4;
    if (DP_RARE(++filled == BLOCK)) flush(next);
  };
  // RECORD: the access of memory of the cycle whose record comes next.
  const auto record_memory = [&](X address, u32 before, u32 after, u32 previous) {
    block.rows[ADDRESS][filled] = (u32)address;
    block.rows[MEMORY_BEFORE][filled] = before;
    block.rows[MEMORY_AFTER][filled] = after;
    block.rows[MEMORY_PREVIOUS][filled] = previous;
  };
  // RECORD: the same for the word behind it, in an access of eight bytes.
  const auto record_upper = [&](u32 before, u32 after, u32 previous) {
    if constexpr (WIDE) {
      block.rows[MEMORY_BEFORE_UPPER][filled] = before;
      block.rows[MEMORY_AFTER_UPPER][filled] = after;
      block.rows[MEMORY_UPPER_PREVIOUS][filled] = previous;
    }
  };
  // RECORD: the time of the last access of the word, which is set; a word that is met for the first time is noted.
  const auto visit = [&](X address, u32 value, u32 slot = 2) {
    u32& mark = marks[address / 4];
    const u32 previous = mark;
    if (previous == 0) touched_.push_back({address, value, 0});
    mark = time + slot;
    return previous;
  };
  // SEGMENT: note the words and the registers that the segment uses.
  const u32 number = segments_begun_;
  const auto note = [&](X address) {
    u32& mark = marks[address / 4];
    if (mark == number) return;
    const X whole = address & ~(X)3;
    touched_.push_back({whole, get<u32>(memory, whole), mark});
    if (mark == 0) all_words_.push_back(whole);
    mark = number;
  };
  u32 used = 0;
  // SEGMENT: operations executed by class, those of the straight run that is under way only when it is left.
  const Counts* const before = SEGMENT ? before_.data() : nullptr;
  Counts executed = {};
  const auto count = [&](const Counts& to, const Counts& from) {
    for (u32 i = 0; i < (WIDE ? CLASSES : CLASSES_32); ++i) executed.of[i] += to.of[i] - from.of[i];
  };
  const auto leave = [&](const Op* last, const Op* next) { count(before[last + 1 - ops], before[next - ops]); };
  if constexpr (SEGMENT) count(Counts{}, before[op - ops]);

#define DP_LABEL(name) &&name##_,
  static const void* const LABELS[] = {DP_RISCV_CODES(DP_LABEL)};
#undef DP_LABEL

#define GO()                                          \
  do {                                                \
    if (DP_RARE(left == 0)) goto over;                \
    --left;                                           \
    if constexpr (COUNT) ++counts[op - ops];          \
    if constexpr (SEGMENT) used |= op->uses;          \
    goto* LABELS[op->code];                           \
  } while (0)
#define TRAP(reason, about)   \
  do {                        \
    stop = (reason);          \
    fault_ = (about);         \
    goto trapped;             \
  } while (0)
// Write `value` to rd, record, go on at `next`.
#define WRITE(a, b, value, next, next_pc)             \
  do {                                                \
    const Op* const following = (next);               \
    [[maybe_unused]] const X before = x[op->rd];      \
    x[op->rd] = (value);                              \
    if constexpr (RECORD) {                           \
      x[NO_DESTINATION] = 0;                          \
      record(*op, a, b, before, x[op->rd], next_pc);  \
    }                                                 \
    op = following;                                   \
    GO();                                             \
  } while (0)
#define REGISTERS_(name, expression)                                  \
  name##_ : {                                                         \
    const X a = x[op->rs1], b = x[op->rs2];                           \
    WRITE(a, b, expression, op + 1, op->pc + 4);                      \
  }
#define IMMEDIATE_(name, expression)                                  \
  name##_ : {                                                         \
    const X a = x[op->rs1], b = extended<X>(op->imm);                 \
    WRITE(a, 0, expression, op + 1, op->pc + 4);                      \
  }
// Of RV64 alone: an operation on the lower halves a and b, whose result is extended by its sign.
#define REGISTERS_W_(name, expression)                                \
  name##_ : {                                                         \
    const X first = x[op->rs1], second = x[op->rs2];                  \
    const u32 a = (u32)first, b = (u32)second;                        \
    WRITE(first, second, extended<X>(expression), op + 1, op->pc + 4); \
  }
#define IMMEDIATE_W_(name, expression)                                \
  name##_ : {                                                         \
    const X first = x[op->rs1];                                       \
    const u32 a = (u32)first, b = op->imm;                            \
    WRITE(first, 0, extended<X>(expression), op + 1, op->pc + 4);     \
  }
// The address of an access of a `type`, which must be aligned, and in memory.
#define ADDRESS_(type, unaligned)                                                                      \
    const X a = x[op->rs1], address = a + extended<X>(op->imm);                                        \
    if (DP_RARE(address % sizeof(type) != 0)) TRAP(unaligned, address);                                \
    if constexpr (WIDE)                                                                                \
      if (DP_RARE(address >> ADDRESS_BITS_64 != 0)) TRAP(Stop::BEYOND, address);
#define LOAD_(name, type)                                                                              \
  name##_ : {                                                                                          \
    ADDRESS_(type, Stop::UNALIGNED_LOAD)                                                               \
    if (DP_RARE(!(open[address >> PAGE_BITS] & READABLE))) {                                           \
      const Stop refused = open_page(address, sizeof(type), false);                                    \
      if (refused != Stop::LIMIT) TRAP(refused, address);                                              \
    }                                                                                                  \
    if constexpr (SEGMENT) note(address);                                                              \
    if constexpr (SEGMENT && sizeof(type) == 8) note(address + 4);                                     \
    if constexpr (RECORD) {                                                                            \
      const X whole = address & ~(X)3;                                                                 \
      const u32 content = get<u32>(memory, whole);                                                     \
      record_memory(whole, content, content, visit(whole, content));                                   \
      if constexpr (sizeof(type) == 8) {                                                               \
        const u32 more = get<u32>(memory, whole + 4);                                                  \
        record_upper(more, more, visit(whole + 4, more));                                              \
      }                                                                                                \
    }                                                                                                  \
    WRITE(a, 0, (X)(Signed<X>)get<type>(memory, address), op + 1, op->pc + 4);                         \
  }
#define STORE_(name, type)                                                                             \
  name##_ : {                                                                                          \
    ADDRESS_(type, Stop::UNALIGNED_STORE)                                                              \
    const X b = x[op->rs2];                                                                            \
    if (DP_RARE(!(open[address >> PAGE_BITS] & WRITABLE))) {                                           \
      const Stop refused = open_page(address, sizeof(type), true);                                     \
      if (refused != Stop::LIMIT) TRAP(refused, address);                                              \
    }                                                                                                  \
    if constexpr (SEGMENT) note(address);                                                              \
    if constexpr (SEGMENT && sizeof(type) == 8) note(address + 4);                                     \
    [[maybe_unused]] const X whole = address & ~(X)3;                                                  \
    [[maybe_unused]] const u32 before = get<u32>(memory, whole);                                       \
    [[maybe_unused]] u32 more = 0;                                                                     \
    if constexpr (RECORD && sizeof(type) == 8) more = get<u32>(memory, whole + 4);                     \
    put(memory, address, (type)b);                                                                     \
    if constexpr (RECORD) {                                                                            \
      record_memory(whole, before, get<u32>(memory, whole), visit(whole, before));                     \
      if constexpr (sizeof(type) == 8)                                                                 \
        record_upper(more, get<u32>(memory, whole + 4), visit(whole + 4, more));                       \
      record(*op, a, b, 0, 0, op->pc + 4);                                                             \
    }                                                                                                  \
    ++op;                                                                                              \
    GO();                                                                                              \
  }
#define BRANCH_(name, condition)                                                                       \
  name##_ : {                                                                                          \
    const X a = x[op->rs1], b = x[op->rs2];                                                            \
    const Op* const next = (condition) ? ops + op->imm : op + 1;                                       \
    if constexpr (RECORD) record(*op, a, b, 0, 0, next->pc);                                           \
    if constexpr (SEGMENT) leave(op, next);                                                            \
    op = next;                                                                                         \
    GO();                                                                                              \
  }                                                                                                    \
  BAD_##name##_ : {                                                                                    \
    const X a = x[op->rs1], b = x[op->rs2];                                                            \
    if (condition) TRAP(bad_target(*op, target_of(*op)), target_of(*op));                              \
    if constexpr (RECORD) record(*op, a, b, 0, 0, op->pc + 4);                                         \
    ++op;                                                                                              \
    GO();                                                                                              \
  }

  GO();

  REGISTERS_(ADD, a + b)
  REGISTERS_(SUB, a - b)
  REGISTERS_(SLL, a << (b & (BITS - 1)))
  REGISTERS_(SLT, (Signed<X>)a < (Signed<X>)b)
  REGISTERS_(SLTU, a < b)
  REGISTERS_(XOR, a ^ b)
  REGISTERS_(SRL, a >> (b & (BITS - 1)))
  REGISTERS_(SRA, (X)((Signed<X>)a >> (b & (BITS - 1))))
  REGISTERS_(OR, a | b)
  REGISTERS_(AND, a & b)
  REGISTERS_(MUL, a * b)
  REGISTERS_(MULH, upper_half<X>((Double<X>)((SignedDouble<X>)(Signed<X>)a * (Signed<X>)b)))
  REGISTERS_(MULHSU, upper_half<X>((Double<X>)(SignedDouble<X>)(Signed<X>)a * b))
  REGISTERS_(MULHU, upper_half<X>((Double<X>)a * b))
  REGISTERS_(DIV, divide(a, b))
  REGISTERS_(DIVU, divide_unsigned(a, b))
  REGISTERS_(REM, remainder(a, b))
  REGISTERS_(REMU, remainder_unsigned(a, b))
  IMMEDIATE_(ADDI, a + b)
  IMMEDIATE_(SLLI, a << b)
  IMMEDIATE_(SLTI, (Signed<X>)a < (Signed<X>)b)
  IMMEDIATE_(SLTIU, a < b)
  IMMEDIATE_(XORI, a ^ b)
  IMMEDIATE_(SRLI, a >> b)
  IMMEDIATE_(SRAI, (X)((Signed<X>)a >> b))
  IMMEDIATE_(ORI, a | b)
  IMMEDIATE_(ANDI, a & b)
  LOAD_(LB, std::int8_t)
  LOAD_(LH, std::int16_t)
  LOAD_(LW, std::int32_t)
  LOAD_(LBU, std::uint8_t)
  LOAD_(LHU, std::uint16_t)
  STORE_(SB, std::uint8_t)
  STORE_(SH, std::uint16_t)
  STORE_(SW, std::uint32_t)
  BRANCH_(BEQ, a == b)
  BRANCH_(BNE, a != b)
  BRANCH_(BLT, (Signed<X>)a < (Signed<X>)b)
  BRANCH_(BGE, (Signed<X>)a >= (Signed<X>)b)
  BRANCH_(BLTU, a < b)
  BRANCH_(BGEU, a >= b)

JAL_:
  if constexpr (SEGMENT) leave(op, ops + op->imm);
  WRITE(0, 0, op->pc + 4, ops + op->imm, following->pc);
BAD_JAL_:
  TRAP(bad_target(*op, target_of(*op)), target_of(*op));
JALR_: {
  const X a = x[op->rs1], sum = (a + extended<X>(op->imm)) & ~(X)1;
  if constexpr (WIDE)
    if (DP_RARE((u64)sum >> 32 != 0)) TRAP(sum % 4 != 0 ? Stop::UNALIGNED_JUMP : Stop::OUTSIDE, sum);
  const u32 target = (u32)sum, offset = target - main_address;
  const Op* next = offset / 4 < main_words ? main_ops + offset / 4 : find(target);
  if (DP_RARE(next == nullptr || target % 4 != 0)) TRAP(bad_target(*op, target), target);
  // Where rd is its own source, the next turn may lead elsewhere.
  if (DP_RARE(next == op) && op->rd != op->rs1) TRAP(Stop::SELF_JUMP, target);
  if constexpr (SEGMENT) leave(op, next);
  WRITE(a, 0, op->pc + 4, next, target);
}
CONSTANT_:
  WRITE(0, 0, extended<X>(op->imm), op + 1, op->pc + 4);
FENCE_:
  WRITE(0, 0, 0, op + 1, op->pc + 4);
ECALL_: {
  const X call = x[17];
  const u32 argument = (u32)x[10];
  // An address that is more than its lower half, which lies elsewhere. A number of 32 bits has its sign extended.
  const bool far = (x[10] & ~(X)0xffffffff) != 0 && x[10] != extended<X>(argument);
  u32 result = argument;
  switch (call) {
    case 1:
      stop = Stop::EXIT;
      break;
    case 2:
      if (output_.size() == MOST_OUTPUT) TRAP(Stop::OUTPUT_LIMIT, 0);
      output_.push_back(argument);
      break;
    case 3:
      if (private_at_ == private_.size()) TRAP(Stop::PRIVATE_END, 0);
      result = private_[private_at_++];
      break;
    case 4:
      if (public_at_ == public_.size()) TRAP(Stop::PUBLIC_END, 0);
      result = public_[public_at_++];
      break;
    case 5:
      result = (u32)(cycle_ + (cycles - left - 1));
      break;
    case KECCAK_F: {
      if (DP_RARE(far)) TRAP(Stop::BEYOND, x[10]);
      const Stop refused = open_words(argument, STATE_WORDS, true);
      if (refused != Stop::LIMIT) TRAP(refused, argument);
      if constexpr (SEGMENT)
        for (u32 i = 0; i < STATE_BYTES; i += 4) note(argument + i);
      if constexpr (RECORD) {
        permuted_.emplace_back();
        std::memcpy(permuted_.back().before, memory + argument, STATE_BYTES);
        for (u32 i = 0; i < STATE_WORDS; ++i)
          permuted_.back().previous[i] = visit(argument + 4 * i, permuted_.back().before[i]);
      }
      permute(memory + argument);
      if constexpr (RECORD) std::memcpy(permuted_.back().after, memory + argument, STATE_BYTES);
      break;
    }
    case SHA256_BLOCK:
    case SHA256_EXTEND:
    case SHA256_COMPRESS:
    case MULTIPLY:
    case MULTIPLY_ADD:
    case MULTIPLY_384:
    case MULTIPLY_ADD_384:
    case SECP256K1_ADD:
    case SECP256K1_DOUBLE:
    case SECP256R1_ADD:
    case SECP256R1_DOUBLE:
    case BN254_ADD:
    case BN254_DOUBLE:
    case BLS12_381_ADD:
    case BLS12_381_DOUBLE:
    case ED25519_ADD: {
      if (!(answered_ >> call & 1)) TRAP(Stop::UNKNOWN_CALL, call);
      if (DP_RARE(far)) TRAP(Stop::BEYOND, x[10]);
      Taken taken;
      u32 about;
      const Stop refused = take((u32)call, argument, taken, about);
      if (refused != Stop::LIMIT) TRAP(refused, about);
      for (u32 k = 0; k < taken.count; ++k) {
        const Operand& of = taken.operands[k];
        for (u32 i = 0; i < of.words; ++i) {
          const u32 address = of.address + 4 * i;
          if constexpr (SEGMENT) note(address);
          if constexpr (RECORD) {
            const u32 word = get<u32>(memory, address), previous = visit(address, word, of.slot);
            accesses_.push_back({address, word, of.stores ? taken.result[i] : word, time + of.slot, previous});
          }
        }
      }
      for (u32 k = 0; k < taken.count; ++k)
        if (taken.operands[k].stores)
          std::memcpy(memory + taken.operands[k].address, taken.result, 4 * taken.operands[k].words);
      break;
    }
    default:
      TRAP(Stop::UNKNOWN_CALL, call);
  }
  [[maybe_unused]] const X before = x[10];
  x[10] = extended<X>(result);
  if constexpr (COUNT) ++call_counts_[call];
  if constexpr (SEGMENT) ++segment_calls_[call];
  if constexpr (RECORD) {
    calls_.push_back({(u32)(recorded + filled), (u32)call, result});
    record(*op, call, before, before, x[10], stop == Stop::EXIT ? 0 : op->pc + 4);
  }
  if (stop == Stop::EXIT) goto over;
  ++op;
  if constexpr (SEGMENT)
    if (DP_RARE(call >= KECCAK_F && full(cycles - left))) goto over;
  GO();
}
EBREAK_:
  TRAP(Stop::EBREAK, op->pc);
ILLEGAL_:
  TRAP(Stop::ILLEGAL, words[op - ops]);
END_:
  TRAP(Stop::OUTSIDE, op->pc);

// RV64 alone; in 32 bits nothing is decoded to these.
AUIPC_:
  WRITE(0, 0, (X)op->pc + extended<X>(op->imm), op + 1, op->pc + 4);
  LOAD_(LWU, std::uint32_t)
  REGISTERS_W_(ADDW, a + b)
  REGISTERS_W_(SUBW, a - b)
  REGISTERS_W_(SLLW, a << (b & 31))
  REGISTERS_W_(SRLW, a >> (b & 31))
  REGISTERS_W_(SRAW, (u32)((i32)a >> (b & 31)))
  REGISTERS_W_(MULW, a * b)
  REGISTERS_W_(DIVW, divide(a, b))
  REGISTERS_W_(DIVUW, divide_unsigned(a, b))
  REGISTERS_W_(REMW, remainder(a, b))
  REGISTERS_W_(REMUW, remainder_unsigned(a, b))
  IMMEDIATE_W_(ADDIW, a + b)
  IMMEDIATE_W_(SLLIW, a << b)
  IMMEDIATE_W_(SRLIW, a >> b)
  IMMEDIATE_W_(SRAIW, (u32)((i32)a >> b))
  LOAD_(LD, std::uint64_t)
  STORE_(SD, std::uint64_t)

trapped:  // the instruction at op was not executed
  ++left;
  if constexpr (COUNT) --counts[op - ops];
over:
  std::copy(x, x + SLOTS, registers_);
  registers_[NO_DESTINATION] = 0;
  if constexpr (RECORD) {
    if (filled != 0) flush(stop == Stop::EXIT ? 0 : op->pc);
    written_through();
    std::memcpy(register_time_, last, sizeof last);
  }
  if constexpr (SEGMENT) {
    for (u32 i = 1; i < REGISTERS; ++i)
      if (used >> i & 1) register_segment_[i] = number;
    count(before[op - ops], Counts{});  // an exit, which is not passed, has no class
    std::memcpy(segment_classes_, &executed, sizeof segment_classes_);
  }
  pc_ = stop == Stop::EXIT ? 0 : op->pc;
  cycle_ += cycles - left;
  return stop;
}

Stop Machine::run(u64 cycles) { return go<Mode::FAST>(cycles, nullptr, nullptr, 0); }

Stop Machine::run_counting(u64 cycles, u64* counts) { return go<Mode::COUNT>(cycles, counts, nullptr, 0); }

Stop Machine::run_segment(u64 cycles) {
  if (segments_begun_ == 0) forget_marks();
  ++segments_begun_;
  touched_.clear();
  if (before_.empty()) before_.resize(ops_.size(), Counts{});
  std::fill(std::begin(segment_calls_), std::end(segment_calls_), 0);
  std::memcpy(register_segment_before_, register_segment_, sizeof register_segment_);
  return go<Mode::SEGMENT>(cycles, nullptr, nullptr, 0);
}

Stop Machine::run_recording(u64 cycles, u32* columns, size_t stride) {
  forget_marks();
  touched_.clear();
  calls_.clear();
  permuted_.clear();
  accesses_.clear();
  return go<Mode::RECORD>(cycles, nullptr, columns, stride);
}

}  // namespace dp::riscv
