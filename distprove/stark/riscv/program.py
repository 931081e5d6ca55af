"""The program `riscv`: the execution of a guest, cut into segments, one a partition.

The statement: the guest, started with registers and memory as its ELF file has them, on the stated words of public
input and some private input, ends with the stated exit code and has written the output, whose length and digest are
stated.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distprove.errors import InputError, InvalidProof, ResourceError, UsageError
from distprove.formats.files import read_bounded
from distprove.host.cgroup import memory_available
from distprove.stark.air import Air, Bus, CppRows
from distprove.stark.heights import LogHeights, tallest
from distprove.stark.levels import levelled
from distprove.stark.output import output_public
from distprove.stark.program import Cut, Fits, Program, Slice, Trace
from distprove.stark.programs.registry import PROGRAMS
from distprove.stark.riscv.buses import OUTPUT, STATED
from distprove.stark.riscv.calls import PRECOMPILES
from distprove.stark.riscv.declared import format_declared, parse_declared, require_within
from distprove.stark.riscv.elf import LARGEST_FILE, Elf, parse_elf, require_instructions
from distprove.stark.riscv.executor import MAX_CYCLES, Execution, Inputs, Replay, Snapshot, Trap, input_words
from distprove.stark.riscv.foreign import FOREIGN
from distprove.stark.riscv.guest import Guest
from distprove.stark.riscv.host import MOST_WORDS
from distprove.stark.riscv.links import Words, cut_evenly
from distprove.stark.riscv.machine import MACHINES, Machine
from distprove.stark.riscv.record import Usage
from distprove.stark.riscv.segment import (
    NO_WORD,
    PUBLIC,
    Fixed,
    Place,
    operation_classes,
    outputs_of,
    run_heights,
    segment_inputs,
    segment_trace,
)
from distprove.stark.statement import Boundary, Constant, Output, PublicRef, Statement
from distprove.wanted import require_wanted
from kernels.cpu.keccak import keccak256
from kernels.host.units import count_of
from kernels.interface.arrays import Array
from kernels.interface.backend import Backend

MOST_BYTES = 1 << 32
"""Maximum size of an input."""
MOST_SEGMENTS = 1 << 14
"""Maximum number of segments of a run: no file holds more proofs, as each takes more than 64 KiB of its 1 GiB. A guest
that never ends is given up here, and not after 2^36 cycles, for each few of which there may be a snapshot in memory."""

ANOTHER_KIND = 500_000_000
"""What another leaf costs a job, in cells and fractions of segments' tables. One H200 proves so many in 0.5 s."""

_FIXED_LOCK = threading.Lock()
LOOK_BYTES = 1 << 24
"""Bytes of snapshots between two looks at how much memory is left."""
FREE_BYTES = 1 << 26
"""Bytes that a job may take of memory however little is left."""


def _segment_name(index: int) -> str:
    """The name of a segment. All have the same length: there are no more than `MOST_SEGMENTS`."""
    return f"segment-{index:05}"


class RiscV(Program):
    """The machine with a guest. A prover gives the guest's file; a verifier its name, which the key has."""

    name = "riscv"
    compared = ("public",)
    name_bytes: int = len(_segment_name(0))
    of_key = (*Program.of_key, "_guest_file")

    def __init__(
        self,
        elf: str = "",
        input: str = "",
        public: str = "",
        segment: int = 1 << 20,
        guest: str = "",
        calls: str = "",
        heights: str = "",
    ) -> None:
        """`input` and `public` are files with the private and the public input; "" is an empty one. `segment` is the
        number of cycles of a segment. `calls` names a system whose guest the file `elf` is, a key of `FOREIGN`.
        `heights` are those of every segment of a job that ends in one proof (`riscv.declared`); "" for the run's own.
        Raises UsageError, and InputError and FormatError for a file `elf` that cannot be proven."""
        PROGRAMS["riscv"].check(segment=segment, calls=calls)
        if calls and not elf:
            raise UsageError("calls says how the file of a guest is read: it needs elf; a name (guest) needs no calls")
        self.elf, self.input, self.public, self.segment, self.guest = elf, input, public, segment, guest
        self.calls, self.heights = calls, heights
        self._known = Guest.parse(guest) if guest else None
        if elf:
            _ = self.declared_heights
            _ = self._guest_file  # what cannot be proven is refused before a job of it is taken

    # -- the key ------------------------------------------------------------------------------------------------------

    @property
    def arguments(self) -> dict[str, int | str]:
        return {"guest": self.guest}

    def key_arguments(self, root: bytes, heights: Mapping[str, int]) -> dict[str, int | str]:
        found = str(Guest(root, self._entry, heights["rom"], heights["image"], self._precompiles, self._machine.xlen))
        if self.guest not in ("", found):
            raise UsageError(f"{self.elf} is the guest {found}, and not {self.guest}")
        return {"guest": found}

    @property
    def preprocessed_root(self) -> bytes | None:
        return self._known.root if self._known and not self.elf else None

    @property
    def statement(self) -> Statement:
        stated = tuple(
            Boundary(STATED.name, (PublicRef("segment"), place, PublicRef("stated", place)), -1)
            for place in range(MOST_WORDS)
        )
        return Statement(
            public=PUBLIC,
            index="segment",
            chain=tuple((f"{each}_end", f"{each}_start") for each in ("pc", "cycles", "words", "outputs")),
            boundary=stated,
            constants=(
                Constant("pc_start", (self._entry,), "first"),
                Constant("cycles_start", (0,), "first"),
                Constant("words_start", (NO_WORD,), "first"),
                Constant("outputs_start", (0,), "first"),
                Constant("final", (1,), "last"),
            ),
            output=Output(OUTPUT.name, "output_length", "output_digest"),
        )

    @property
    def fixed_heights(self) -> Mapping[str, int]:
        if self._known and not self.elf:
            return Fixed.heights(self._known.log_rom, self._known.log_image)
        return self._fixed.log_heights()

    def preprocessed(self) -> Mapping[str, NDArray[Any]]:
        return self._fixed.columns()

    @property
    def tables(self) -> Sequence[Air]:
        return self._machine.tables_of(self._precompiles)

    @property
    def buses(self) -> Sequence[Bus]:
        return self._machine.buses

    @property
    def optional(self) -> Sequence[str]:
        return (*self._machine.optional, *self._precompiles)

    @property
    def row_functions(self) -> Sequence[CppRows]:
        if self.elf or self._known:
            return self._machine.row_functions_of(self._precompiles)
        both = [rows for machine in MACHINES.values() for rows in machine.row_functions_of(tuple(PRECOMPILES))]
        return tuple({rows.source: rows for rows in both}.values())

    @property
    def _machine(self) -> Machine:
        """The machine of the guest's width. A program without a guest, of which there is no key, has 32 bits."""
        if self.elf:
            return MACHINES[self._guest_file.xlen]
        return MACHINES[self._known.xlen if self._known else 32]

    @property
    def _precompiles(self) -> tuple[str, ...]:
        """Tables of the guest's own. A program without a guest, of which there is no key, has none."""
        if self.elf:
            return self._fixed.precompiles
        return self._known.precompiles if self._known else ()

    @property
    def _entry(self) -> int:
        return self._known.entry if self._known and not self.elf else self._guest_file.entry

    @cached_property
    def _guest_file(self) -> Elf:
        """The guest, as its file was when the job was made: workers load the key again after the file has gone."""
        if not self.elf:
            raise UsageError(
                "riscv needs the argument elf, the guest's file; or guest, its name, if it is not to prove"
            )
        return loaded(self.elf, self.calls)[0]

    @property
    def _fixed(self) -> Fixed:
        return _fixed(self._guest_file)

    # -- the prover ---------------------------------------------------------------------------------------------------

    def check_job(self, partitions: int | None) -> None:
        if partitions is not None and partitions > MOST_SEGMENTS:
            raise UsageError(f"a proof has at most {MOST_SEGMENTS} segments, not {partitions}")
        _ = self._guest_file

    def cut(self, partitions: int | None, fits: Fits) -> Cut:
        """Run the guest: one slice for each segment. Its source may hold private input. Raises UsageError for another
        number of partitions than the run has segments, InputError, Trap, CalledOff, ResourceError."""
        elf, digest = self._guest_file, keccak256(self._guest_file.data)
        private, public = (_input(Path(path)) if path else b"" for path in (self.input, self.public))
        private = private_input(self.elf, self.calls, private, self.input)
        fixed = self._fixed
        execution = Execution(elf, Inputs(private, public), classes=operation_classes(fixed, elf.program))
        snapshots, usages, taken, looked = list[bytes](), list[Usage](), 0, 0
        try:
            for snapshot in self.segments(execution):
                require_wanted()
                snapshots.append(snapshot.to_bytes())
                taken += len(snapshots[-1])
                if taken > looked + LOOK_BYTES:
                    looked = taken
                    _require_memory(
                        taken, f"the snapshots of {count_of(len(snapshots), 'segment')} take {count_of(taken, 'byte')}"
                    )
                usages.append(execution.usage)
        except Trap as trap:
            raise Trap(f"{trap}; `distprove run` shows the registers", trap.state) from None
        count = len(snapshots)
        if partitions not in (None, count):
            raise UsageError(
                f"the run has {count_of(count, 'segment')} of {count_of(self.segment, 'cycle')}, not {partitions}"
            )
        words, start, slices = Words(*execution.words()), NO_WORD, []
        heights, outputs = run_heights(fixed, usages, len(words.key)), outputs_of(usages)
        output = execution.outcome.output
        for index, places in enumerate(cut_evenly(len(words.key), count)):
            part = words.part(places.start, places.stop)
            lower, higher = part.key & np.uint64(0xFFFFFFFF), part.key >> np.uint64(32)
            columns = (lower, part.value, part.segment, part.upper, higher)
            source = {
                "elf": str(Path(self.elf).absolute()),
                "calls": self.calls,
                "digest": digest,
                "snapshot": snapshots[index],
                "last": index == count - 1,
                "words": np.stack(columns).astype("<u4").tobytes(),
                "words_start": start,
                "outputs": outputs[index],
                "output": output_public(output),
                "heights": {},
            }
            slices.append(Slice(_segment_name(index), source))
            start = int(part.key[-1]) if len(part.key) else start
        return Cut(slices, heights, output, execution.outcome.exit_code)

    @property
    def declared_heights(self) -> LogHeights | None:
        if not self.heights:
            return None
        return parse_declared(self.heights, [air.name for air in self.tables], self.fixed_heights, self.optional)

    def declares(self, log_heights: Sequence[int | None]) -> str:
        return format_declared([air.name for air in self.tables], log_heights, self.fixed_heights)

    def levelled(self, cut: Cut, kinds: int = 1) -> Cut:
        """Every segment with the declared heights, or with one of a few for which tables are filled up with rows."""
        assert cut.log_heights is not None, "cutting a run tells its heights"
        names = [air.name for air in self.tables]
        if (declared := self.declared_heights) is not None:
            require_within(names, tallest(cut.log_heights), declared)
            heights = [declared] * len(cut.slices)
        else:
            weights = [rules.main_width + len(rules.uses) for rules in self.rules]
            heights = levelled(cut.log_heights, weights, kinds, ANOTHER_KIND)
        slices = []
        for part, own in zip(cut.slices, heights, strict=True):
            named = {name: height for name, height in zip(names, own, strict=True) if height is not None}
            slices.append(Slice(part.name, {**part.source, "heights": named}))
        return Cut(slices, heights, cut.output, cut.exit_code)

    def segments(self, execution: Execution) -> Iterator[Snapshot]:
        """Run to the end by segments, of which a proof has only so many. Raises UsageError, InputError, Trap."""
        for snapshot in execution.segments(self.segment):
            if snapshot.index == MOST_SEGMENTS:
                raise UsageError(
                    f"the guest has not ended after {MOST_SEGMENTS} segments of "
                    f"{count_of(self.segment, 'cycle')}, and a proof has "
                    "no more of them"
                )
            yield snapshot

    def inputs(self, source: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        """Replay the segment, and make the arrays from which its trace is made."""
        elf, digest = loaded(source["elf"], source["calls"])
        if digest != source["digest"]:
            raise InputError(f"{source['elf']}: the guest changed during the job")
        snapshot = Snapshot.from_bytes(source["snapshot"], "a segment")
        lower, value, segment, upper, higher = np.frombuffer(source["words"], dtype="<u4").reshape(5, -1)
        keys = lower.astype(np.uint64) | higher.astype(np.uint64) << np.uint64(32)
        words = Words(keys, value, segment, upper)
        rest = (source[name] for name in ("words_start", "outputs", "output", "heights"))
        place = Place(snapshot.index, source["last"], snapshot.earlier(), words, *rest)
        return segment_inputs(_fixed(elf), Replay(elf).record(snapshot), place)

    def trace(self, inputs: Mapping[str, Array], backend: Backend) -> Trace:
        return segment_trace(inputs, backend)

    def explain(self, public: Sequence[Sequence[int]], log_heights: Sequence[Sequence[Any]]) -> dict[str, str]:
        named = [dict(zip((name for name, _ in PUBLIC), values, strict=False)) for values in public]
        # The machine's own tables rule this out. A name that nobody vouches for may stand for other lookups and places.
        if any(n["inputs"] > MOST_WORDS for n in named) or any(w >> 32 for v in public for w in v[-MOST_WORDS:]):
            raise InvalidProof("the guest's name stands for tables other than the machine's: no guest has such words")
        return {
            "exit code": str(named[-1]["exit_code"]),
            "cycles": str(named[-1]["cycles_end"]),
            "segments": str(len(public)),
            "public input read": _words_read(public).hex() or "none",
        }

    def compare(self, argument: str, value: Any, public: Sequence[Sequence[int]]) -> tuple[str, str]:
        """A guest that stops reading states the words that it read, and these alone are compared: with the rest of its
        input, whatever it is, the run is the same."""
        data = value if isinstance(value, bytes) else _input(Path(value)) if value else b""
        read = _words_read(public)
        return read.hex(), input_words(data).astype("<u4").tobytes()[: len(read)].hex()


def _words_read(public: Sequence[Sequence[int]]) -> bytes:
    """The words of public input that the segments read, in order."""
    at = [name for name, _ in PUBLIC].index("inputs")  # each before it has one element
    read = [word for values in public for word in values[-MOST_WORDS:][: values[at]]]
    return np.array(read, dtype="<u4").tobytes()


def _input(path: Path) -> bytes:
    """The content of an input, of which there are up to four copies when the guest begins. Raises InputError,
    ResourceError."""
    with contextlib.suppress(OSError, ValueError):  # told when it is read
        size = path.stat().st_size
        _require_memory(4 * size, f"{path}: an input of {count_of(size, 'byte')} takes four times as many")
    return read_bounded(path, MOST_BYTES)


def _require_memory(nbytes: int, what: str) -> None:
    """Raise ResourceError where a job takes more than a quarter of the memory that it and others have left: however
    many there are at work, they leave some."""
    left = memory_available()
    if nbytes > max(FREE_BYTES, left // 4):
        raise ResourceError(
            f"{what}, more than a quarter of the {count_of(left, 'byte')} of memory that can be had now"
        )


def loaded(path: str, calls: str = "") -> tuple[Elf, bytes]:
    """The guest in a file, whose calls are this machine's or those of a system of `FOREIGN`, and the digest of what is
    loaded. Raises InputError, FormatError."""
    elf = _parsed(read_bounded(Path(path), LARGEST_FILE), path, calls)
    return elf, keccak256(elf.data)


def private_input(path: str, calls: str, content: bytes, what: str, max_cycles: int = MAX_CYCLES) -> bytes:
    """The private input of the guest in a file, from the content of a file in the form of `calls`, which `what` names.
    Raises InputError, FormatError, and for a guest that is run to find it Trap, CycleLimit."""
    if not calls:
        return content
    guest = parse_elf(read_bounded(Path(path), LARGEST_FILE), path)
    return FOREIGN[calls].private_input(content, what, guest, max_cycles)


@lru_cache(maxsize=2)
def _parsed(data: bytes, path: str, calls: str) -> Elf:
    elf = parse_elf(data, path)
    require_instructions(elf, path)
    if not calls:
        return elf
    if elf.xlen not in FOREIGN[calls].widths:
        raise InputError(f"{path}: a guest of RV{elf.xlen}IM; calls {calls} is for guests of RV32IM")
    return FOREIGN[calls].translate(elf, path)


def _fixed(elf: Elf) -> Fixed:
    with _FIXED_LOCK:  # the thread that compiles the tables of a guest asks for them while another cuts its run
        return _fixed_of(elf)


@lru_cache(maxsize=2)
def _fixed_of(elf: Elf) -> Fixed:
    return Fixed.of(elf.image())
