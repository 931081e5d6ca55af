// Python bindings of the machine for RV32IM and RV64IM programs; distprove/stark/riscv/executor.py is its face.
#include <cstring>

#include "bindings.h"
#include "riscv.h"

namespace dp {

namespace {

using riscv::Machine;

// The words of `array`, copied: arrays may be unaligned.
std::vector<u32> words_of(const InBytes& array, const char* what) {
  std::vector<u32> words(count_of(array, sizeof(u32), what));
  if (!words.empty()) std::memcpy(words.data(), array.data(), array.size());
  return words;
}

// The same of numbers of 64 bits.
std::vector<u64> addresses_of(const InBytes& array) {
  std::vector<u64> addresses(count_of(array, sizeof(u64), "addresses"));
  if (!addresses.empty()) std::memcpy(addresses.data(), array.data(), array.size());
  return addresses;
}

template <class T>
nb::bytes bytes_of(const std::vector<T>& values) {
  return nb::bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

template <class Get>
nb::bytes each(size_t count, Get get) {
  std::vector<decltype(get(count))> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = get(i);
  return bytes_of(values);
}

// What `get` says of each number below `count`.
template <auto get, u32 count>
nb::bytes numbered(const Machine& machine) {
  return each(count, [&](size_t i) { return (machine.*get)((u32)i); });
}

constexpr size_t SEGMENT_WORDS = 6;  // address, size, first byte in the file, bytes in the file, writable, executable

void make(Machine* self, InBytes segments, InBytes file, InBytes patches, u32 entry, size_t most_pages,
          u32 answered, bool wide) {
  const std::vector<u32> words = words_of(segments, "segments");
  if (words.size() % SEGMENT_WORDS != 0) throw std::invalid_argument("segments: not whole");
  std::vector<riscv::Segment> found;
  for (size_t i = 0; i < words.size(); i += SEGMENT_WORDS) {
    const u32* const w = &words[i];
    if ((u64)w[2] + w[3] > file.size()) throw std::invalid_argument("segments: beyond the file");
    found.push_back({w[0], w[1], file.data() + w[2], w[3], w[4] != 0, w[5] != 0});
  }
  const std::vector<u32> changed = words_of(patches, "patches");  // address, word
  if (changed.size() % 2 != 0) throw std::invalid_argument("patches: not whole");
  std::vector<riscv::Patch> made;
  for (size_t i = 0; i < changed.size(); i += 2) made.push_back({changed[i], changed[i + 1]});
  new (self) Machine(found, made, entry, most_pages, answered, wide);
}

void restore(Machine& machine, InBytes registers, u32 pc, u64 cycle, InBytes addresses, InBytes values,
             InBytes private_input, InBytes public_input) {
  expect(registers, riscv::REGISTERS * sizeof(u64), "registers");
  expect(values, addresses.size() / 2, "values");
  u64 held[riscv::REGISTERS];
  std::memcpy(held, registers.data(), sizeof held);
  const std::vector<u64> at = addresses_of(addresses);
  const std::vector<u32> words = words_of(values, "values");
  machine.restore(held, pc, cycle, at.data(), words.data(), at.size(), words_of(private_input, "private"),
                  words_of(public_input, "public"));
}

void classify(Machine& machine, InBytes classes) {
  expect(classes, machine.operations(), "classes");
  machine.classify(classes.data());
}

template <riscv::Stop (Machine::*go)(u64)>
int run(Machine& machine, u64 cycles) {
  nb::gil_scoped_release release;
  return (int)(machine.*go)(cycles);
}

int run_counting(Machine& machine, u64 cycles, OutBytes counts) {
  expect(counts, machine.operations() * sizeof(u64), "counts");
  aligned(counts, "counts");
  nb::gil_scoped_release release;
  return (int)machine.run_counting(cycles, reinterpret_cast<u64*>(counts.data()));
}

int run_recording(Machine& machine, u64 cycles, OutBytes columns) {
  const size_t stride = count_of(columns, machine.fields() * sizeof(u32), "columns");
  aligned<u32>(columns, "columns");
  if (cycles > stride || cycles > riscv::MOST_RECORDED) throw std::invalid_argument("columns: too short");
  nb::gil_scoped_release release;
  return (int)machine.run_recording(cycles, reinterpret_cast<u32*>(columns.data()), stride);
}

// Addresses, values at the start, and segments of the words that the last segment or record accessed, in the order of
// their first access.
nb::tuple touched(const Machine& machine) {
  const std::vector<riscv::Touched>& words = machine.touched();
  return nb::make_tuple(each(words.size(), [&](size_t i) { return words[i].address; }),
                        each(words.size(), [&](size_t i) { return words[i].start; }),
                        each(words.size(), [&](size_t i) { return words[i].segment; }));
}

// Values and marks of the words at these addresses.
nb::tuple words_at(const Machine& machine, InBytes addresses) {
  const std::vector<u64> at = addresses_of(addresses);
  for (const u64 address : at)
    if (address >= machine.memory_size()) throw std::invalid_argument("addresses: beyond the end of memory");
  return nb::make_tuple(each(at.size(), [&](size_t i) { return machine.memory_word(at[i]); }),
                        each(at.size(), [&](size_t i) { return machine.memory_mark(at[i]); }));
}

nb::tuple host_calls(const Machine& machine) {
  const std::vector<riscv::HostCall>& calls = machine.calls();
  return nb::make_tuple(each(calls.size(), [&](size_t i) { return calls[i].cycle; }),
                        each(calls.size(), [&](size_t i) { return calls[i].number; }),
                        each(calls.size(), [&](size_t i) { return calls[i].word; }));
}

// Of the states that the last record permuted, one after the other: words before, words after, times before.
nb::tuple permuted(const Machine& machine) {
  const std::vector<riscv::Permuted>& states = machine.permuted();
  const auto words = [&](auto field) {
    return each(states.size() * riscv::STATE_WORDS,
                [&](size_t i) { return (states[i / riscv::STATE_WORDS].*field)[i % riscv::STATE_WORDS]; });
  };
  return nb::make_tuple(words(&riscv::Permuted::before), words(&riscv::Permuted::after),
                        words(&riscv::Permuted::previous));
}

// Of the words that other calls of the last record accessed, in order: address, before, after, time, time before.
nb::bytes accesses(const Machine& machine) { return bytes_of(machine.accesses()); }

}  // namespace

void bind_riscv(nb::module_& m) {
  nb::class_<Machine>(m, "RiscvMachine", "A machine for RV32IM and RV64IM programs (docs/riscv.md).")
      .def("__init__", &make, nb::arg("segments"), nb::arg("file"), nb::arg("patches"), nb::arg("entry"),
           nb::arg("most_pages"), nb::arg("answered"), nb::arg("wide"))
      .def("start",
           [](Machine& machine, InBytes private_input, InBytes public_input) {
             machine.start(words_of(private_input, "private"), words_of(public_input, "public"));
           })
      .def("restore", &restore)
      .def("feed", [](Machine& machine, InBytes words) { machine.feed(words_of(words, "words")); })
      .def("classify", &classify)
      .def("run", &run<&Machine::run>)
      .def("run_segment", &run<&Machine::run_segment>)
      .def("run_counting", &run_counting)
      .def("run_recording", &run_recording)
      .def_prop_ro("cycle", &Machine::cycle)
      .def_prop_ro("pc", &Machine::pc)
      .def_prop_ro("word", &Machine::word)
      .def_prop_ro("fault", &Machine::fault)
      .def_prop_ro("operations", &Machine::operations)
      .def_prop_ro("private_read", &Machine::private_read)
      .def_prop_ro("public_read", &Machine::public_read)
      .def("registers", &numbered<&Machine::registers, riscv::REGISTERS>)
      .def("register_times", &numbered<&Machine::register_time, riscv::REGISTERS>)
      .def("register_segments_before", &numbered<&Machine::register_segment_before, riscv::REGISTERS>)
      .def("register_segments", &numbered<&Machine::register_segment, riscv::REGISTERS>)
      .def("segment_classes", &numbered<&Machine::segment_class, riscv::CLASSES>)
      .def("segment_calls", &numbered<&Machine::segment_calls, riscv::HOST_CALLS>)
      .def("output", [](const Machine& machine) { return bytes_of(machine.output()); })
      .def("touched", &touched)
      .def("all_words", [](const Machine& machine) { return bytes_of(machine.all_words()); })
      .def("words_at", &words_at)
      .def("host_calls", &host_calls)
      .def("permuted", &permuted)
      .def("accesses", &accesses)
      .def("call_counts", &numbered<&Machine::call_count, riscv::HOST_CALLS>);
}

}  // namespace dp
