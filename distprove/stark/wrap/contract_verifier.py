"""The verifier of a wrap that a contract reads. It has no list of partitions.

From the program, the heights of its segments and its parameters it makes the keys of segments and leaves, and computes
the program's digest. It compares that with the wrap's public values and verifies the Groth16 proof. Exit code and
output are in the public values. A contract does the same with digests that it was given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distprove.circuits.wrap.statement import READ_NAMES, read_values
from distprove.errors import InvalidProof, UsageError
from distprove.groth16.verifier import verify
from distprove.options import SECURITY_BITS
from distprove.stark.entry import own_verifier
from distprove.stark.entry import verifier as verifier_of
from distprove.stark.job_verifier import StarkVerifier
from distprove.stark.multilinear.key import MultilinearKey, with_root
from distprove.stark.multilinear.places import OUTPUT_WORDS, READ, WORD_BYTES
from distprove.stark.recursion.contract import Read, check_program
from distprove.stark.recursion.contract_proof import record_of
from distprove.stark.recursion.node import MOST_CHILDREN
from distprove.stark.recursion.node_proof import NodeKey
from distprove.stark.recursion.plan import INNER, WRAP, Kind
from distprove.stark.recursion.security import Layer, bits_of, node_layers, tree_layers
from distprove.stark.recursion.whole import checked_key
from distprove.stark.recursion.work import check_work
from distprove.stark.security import two_places
from distprove.stark.wrap.files import Wrap
from distprove.stark.wrap.program_file import PROGRAM, ProgramFile, is_read
from kernels.host.units import count_of

__all__ = ["VerifiedRead", "halves", "is_read", "program_digest", "read_in", "verify_read_files", "verify_read_wrap"]

if TYPE_CHECKING:
    from distprove.entry import OwnProgram

_HALF, _WORD = 1 << 128, 1 << 32


@dataclass(frozen=True)
class SecondRoot:
    """What tells the proof inside a wrap from others of the same program: the program does not bind it."""

    rules: bytes
    """The digest of its key without the root of its columns, which take minutes to make."""
    bits: float
    """Its proven bits."""

    @classmethod
    def of(cls, key: MultilinearKey) -> SecondRoot:
        """`key` is that of the second root, with or without the root of its columns."""
        (layer,) = node_layers([(key, 1)])
        return cls(with_root(key, b"").digest, two_places(layer.bits))

    def to_record(self) -> dict[str, Any]:
        """As plain data, for reports."""
        return {"rules": self.rules.hex(), "bits": self.bits}


@dataclass(frozen=True)
class VerifiedRead:
    """What a contract reads of a job, verified."""

    key: MultilinearKey
    """Of the segments."""
    read: Read
    wrap_key: bytes
    """The digest of the wrap's verification key, which does not show how it was made."""
    weakness: str | None
    """Why anybody can forge wraps under that key, if it shows that."""
    second: SecondRoot
    """The proof inside the wrap. The key of the wrap must be of the circuit that verifies this one."""
    layers: tuple[Layer, ...]
    """Of a tree with a segment in each place. A job has no more, and no fewer bits."""

    def require(self, exit_code: int, output: bytes | None = None) -> None:
        """Raise InvalidProof unless the job ended with this exit code and, if one is given, with this output."""
        if self.read.exit_code != exit_code:
            raise InvalidProof(
                f"the wrap holds, and states exit code {self.read.exit_code}; {exit_code} is expected (--exit-code, "
                "exit_code=)"
            )
        if output not in (None, self.read.output):
            raise InvalidProof("the wrap holds, and states another output than is given (--output, output=)")

    @property
    def bits(self) -> float:
        """Proven bits of the proofs inside the wrap."""
        return bits_of(self.layers)

    @property
    def program(self) -> tuple[int, int]:
        """The program's digest as the contract has it: its lower and its upper half, each below 2^128."""
        return halves(self.read.program)


def verify_read_files(
    folder: Path,
    wrap_vk: Path,
    vk: Path | None = None,
    program: OwnProgram | None = None,
    least_security: float = SECURITY_BITS,
    tree_wires: int | None = None,
) -> VerifiedRead:
    """Verify the wrap in a folder, which has it as proof.json and public.json, with program.msgpack. `wrap_vk` is its
    verification key, which is trusted to be of the right circuit. `vk` is the segments' key, or `program` is the one
    that the caller names; else the file names one that ships.

    Raises InvalidProof, FormatError, InputError, UsageError, and TooMuchWork for leaves of more than `tree_wires`.
    """
    file = ProgramFile.read(folder / PROGRAM)
    named = dict(file.named)
    verifier: Any = verifier_of(named, vk) if program is None else own_verifier(named, program)
    assert isinstance(verifier, StarkVerifier)
    if verifier.asked:
        raise UsageError(f"a contract's program reads no public input: leave out {', '.join(verifier.asked)} (--with)")
    found = verify_read_wrap(verifier.key, verifier.tree_keys(), file, Wrap.read(folder, wrap_vk), tree_wires)
    if not found.bits >= least_security:
        raise InvalidProof(
            f"the wrap holds, with {found.bits:.2f} proven bits; {least_security:g} are asked for (--security)"
        )
    return found


def verify_read_wrap(
    key: Any, node_key: NodeKey, file: ProgramFile, wrap: Wrap, tree_wires: int | None = None
) -> VerifiedRead:
    """Raise InvalidProof unless a wrap shows that a job of the program under `key`, with segments of the heights in
    `file`, ended with the exit code and output in its public values. Raises FormatError, and TooMuchWork for leaves of
    more than `tree_wires` wires before any is made."""
    # 1. The program: its key, and what no circuit checks of it.
    checked, kind = checked_key(key), Kind((file.leaf,), 0)
    program = program_digest(checked, node_key, file, tree_wires)
    # 2. The wrap is of this program, and holds.
    read = read_in(wrap.public, program)
    if not verify(wrap.key, wrap.public, wrap.proof):
        raise InvalidProof("the wrap's Groth16 proof does not verify under the key that is given")
    layers = tuple(layers_of_places(checked, node_key, kind))
    second = second_root_of(checked, node_key, file)
    return VerifiedRead(checked, read, wrap.key.digest(), wrap.key.weakness, second, layers)


def program_digest(key: Any, node_key: NodeKey, file: ProgramFile, tree_wires: int | None = None) -> tuple[int, ...]:
    """The digest of a program, after the checks of it that no circuit makes. Whoever relies on a contract computes it.
    Raises InvalidProof for a program whose jobs no contract reads, or whose jobs of all places would have too few bits,
    and TooMuchWork for leaves of more than `tree_wires` wires before any is made."""
    checked = checked_key(key)
    try:
        check_program(checked, file.log_heights)
    except UsageError as error:
        raise InvalidProof(str(error)) from None
    kind = Kind((file.leaf,), 0)
    check_work(checked, kind.leaves, tree_wires)
    return record_of(checked, node_key, kind).digest()


def second_root_of(key: MultilinearKey, node_key: NodeKey, file: ProgramFile) -> SecondRoot:
    """The proof inside the wraps of a program's jobs. Raises UsageError."""
    return SecondRoot.of(node_key(key, Kind((file.leaf,), WRAP)))


def halves(program: Sequence[int]) -> tuple[int, int]:
    """A program's digest as a contract has it: its lower and its upper half, each below 2^128."""
    low, high, *_ = read_values([*program, *[0] * (sum(count for _, count in READ) - len(program))])
    return low, high


def read_in(public: tuple[int, ...], program: tuple[int, ...]) -> Read:
    """What a contract reads in a wrap's public values, of a job of this program. Raises InvalidProof for values of
    another program, or that no wrap has."""
    if len(public) != len(READ_NAMES):
        raise InvalidProof(
            f"a wrap that a contract reads has {count_of(len(READ_NAMES), 'public value')}, not {len(public)}"
        )
    *_, low, high, end = public
    length, code = divmod(end, _WORD)
    if max(low, high) >= _HALF or length > OUTPUT_WORDS * WORD_BYTES:
        raise InvalidProof("public values that no wrap has: halves of 128 bits, exit code and length of an output")
    output = b"".join(half.to_bytes(16, "little") for half in (low, high))[:length]
    read = Read(program, code, output)
    if read_values(read.scalars()) != public:
        raise InvalidProof(
            "the wrap is of another program, or of segments of other heights, than are named: its public values have "
            "another digest"
        )
    return read


def layers_of_places(key: MultilinearKey, node_key: NodeKey, kind: Kind) -> list[Layer]:
    """The layers of a tree over a segment in each place, up to the proof inside the wrap."""
    assert key.params.places is not None, "a key that a contract reads"
    heights = kind.leaves[0][0].log_heights
    leaves = -(-key.params.places // MOST_CHILDREN)
    nodes, level = 0, leaves
    while level > 1:
        level = -(-level // MOST_CHILDREN)
        nodes += level
    made = [(kind, leaves), *([(kind.of_role(INNER), nodes)] if nodes else []), (kind.of_role(WRAP), 1)]
    return tree_layers(key, [heights] * key.params.places, [(node_key(key, each), count) for each, count in made])
