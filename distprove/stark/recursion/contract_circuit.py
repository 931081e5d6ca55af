"""The circuit of the proof that a contract reads: one job of a program ended with this exit code and this output.

It verifies one node, the last below the root of the job's tree, and checks what a root's verifier checks of the list of
segments (`recursion.root`), which are values here. The numbers of its steps are those of docs/recursion.md, "What a
contract reads". Statement, number of places and key of nodes are constants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from distprove.errors import InvalidProof
from distprove.stark.barrier import Commitment
from distprove.stark.encoding import unpack
from distprove.stark.field import P, Words
from distprove.stark.heights import encode_heights
from distprove.stark.multilinear.challenges import draw_global
from distprove.stark.multilinear.places import OUTPUT_WORDS, READ, WORD_BYTES, challenge_words, segment_words
from distprove.stark.recursion.circuit import Circuit, Wire
from distprove.stark.recursion.contract import (
    EXIT_CODE,
    INPUTS,
    ProgramRecord,
    Read,
    constants_of,
    program_words,
)
from distprove.stark.recursion.contract_form import ContractForm
from distprove.stark.recursion.node import (
    DIGEST_BYTES,
    KEY,
    MOST_CHILDREN,
    OCTETS,
    Identity,
    Proven,
    list_words,
    node_statement,
    proof_fields,
    verify_node_steps,
)
from distprove.stark.recursion.symbols import Octets, Symbols, scalar_array
from distprove.stark.statement import PublicRef, Statement
from distprove.stark.transcript import packed
from kernels.cpu.poseidon2 import DIGEST
from kernels.host.units import count_of
from kernels.interface.tree_hash import TreeHash

BELOW = "child."
"""What the fields of the node's proof begin with."""


@dataclass(frozen=True)
class _Segment:
    """A place of the job."""

    present: Wire
    last: Wire
    """Whether it is the last one that is present."""
    public: Mapping[str, Sequence[Wire]]


@dataclass(frozen=True)
class _Node:
    """A leaf or node of the tree, if it is present."""

    present: Wire
    own: Wire
    """Whether its key is that of nodes."""
    listed: Sequence[Wire]
    """The digest of its children."""
    key: Sequence[Wire]

    def words(self, s: Symbols) -> list[Wire]:
        """Its words in the list of the node above, all zero if it is absent."""
        return [self.present, *_if(s, self.present, [self.own, *self.listed, *self.key])]


def contract_circuit(form: ContractForm) -> Circuit:
    """The circuit of a form. It is satisfied by the trees over jobs of the stated program that end with the stated exit
    code and output. The program's digest is for whoever relies on it to compute (`contract.check_program`)."""
    s = Symbols()
    stated = {name: s.public(name, count) for name, count in READ}
    record = _record(s, form)
    key, heights, leaf, constants = record
    of_circuit = _constant_octets(s, form.digest())
    for own, said in zip(program_words(s, of_circuit, *_absorbed(record)), stated["program"], strict=True):  # 8
        s.need_equal(own, said, "the program's record has another digest than is stated")
    present = _present(s, form.places)  # 1
    publics, listed = [], list[Wire]()
    for number, here in enumerate(present):  # 2
        public, digest = _segment(s, form, f"{number}.", key, heights)
        publics.append(public)
        listed += [here, *_if(s, here, digest)]
    top = _top(s, form, present, listed, leaf)  # 3
    output = [*stated["output_length"], *stated["output"]]
    words = challenge_words(s, key, scalar_array(listed), scalar_array(output))  # 4
    challenge = Octets(tuple(half for word in words for half in s.bits(word).halves), DIGEST_BYTES)
    segments = _segments(s, form.statement, present, publics)
    _check_statement(s, form.statement, segments, constants)  # 5
    _check_exit_code(s, segments, stated["exit_code"][0])
    within = _check_output(s, form.statement, segments, output)  # 6
    total = s.scalars("sum", 3)
    _check_buses(s, form, segments, output, within, challenge, total)  # 7
    public_below = [*challenge.scalars, *top.listed, *total, *_identity(s, form.node_key)]
    verify_node_steps(s, form.below, BELOW, top.key, public_below, 0)
    return s.circuit()


_Record = tuple[Octets, Octets, tuple[Wire, ...], tuple[Wire, ...]]
"""Digest of the segments' key, encoded heights, key of leaves, constants."""


def _record(s: Symbols, form: ContractForm) -> _Record:
    key = Octets(s.scalars("key", OCTETS), DIGEST_BYTES)
    heights = Octets(s.scalars("heights", len(packed(bytes(form.tables)))), form.tables)
    return key, heights, s.scalars("leaf", KEY), s.scalars("constants", len(constants_of(form.statement)))


def _constant_octets(s: Symbols, data: bytes) -> Octets:
    """Bytes that are constants of the circuit."""
    return Octets(tuple(s.constant(value) for value in packed(data)), len(data))


def _absorbed(record: _Record) -> tuple[Octets, Octets, Any, Any]:
    key, heights, leaf, constants = record
    return key, heights, scalar_array(leaf), scalar_array(constants)


def _present(s: Symbols, places: int) -> list[Wire]:
    """Whether each place has a segment. The first one has."""
    found = [s.one]
    for _ in range(places - 1):
        flag = s.flag("present")
        s.need_equal(s.mul(flag, found[-1]), flag, "a place has a segment, and the one before has none")
        found.append(flag)
    return found


def _segment(
    s: Symbols, form: ContractForm, prefix: str, key: Octets, heights: Octets
) -> tuple[tuple[Wire, ...], list[Wire]]:
    """The public values of a segment that is given, and its digest."""
    name = Octets(s.scalars(prefix + "name", len(packed(bytes(form.name_length)))), form.name_length)
    public = s.scalars(prefix + "public", form.statement.public_values)
    root, anchor = s.root(prefix + "root"), s.element(prefix + "anchor")
    return public, segment_words(s, key, heights, name, scalar_array(public), root, anchor)


def _top(
    s: Symbols, form: ContractForm, present: Sequence[Wire], listed: Sequence[Wire], leaf: Sequence[Wire]
) -> _Node:
    """The one node of the first level that has no more than one: a leaf, or a node above leaves. Which level it is
    follows from the number of segments alone."""
    room, node_key = 1 + DIGEST, _identity(s, form.node_key)
    level = []
    for first in range(0, len(present), MOST_CHILDREN):
        own = listed[first * room : (first + MOST_CHILDREN) * room]
        padded = [*own, *[s.zero] * (room * MOST_CHILDREN - len(own))]
        level.append(_Node(present[first], s.zero, list_words(s, scalar_array(padded)), leaf))
    top = level[0]
    while len(level) > 1:
        several, above = level[1].present, list[_Node]()
        for first in range(0, len(level), MOST_CHILDREN):
            own = [word for node in level[first : first + MOST_CHILDREN] for word in node.words(s)]
            padded = [*own, *[s.zero] * ((2 + DIGEST + KEY) * MOST_CHILDREN - len(own))]
            above.append(_Node(level[first].present, s.one, list_words(s, scalar_array(padded)), node_key))
        upper = above[0]
        top = _Node(
            s.one, s.zero, _chosen(s, several, upper.listed, top.listed), _chosen(s, several, upper.key, top.key)
        )
        level = above
    return top


def _segments(
    s: Symbols, statement: Statement, present: Sequence[Wire], publics: Sequence[Sequence[Wire]]
) -> list[_Segment]:
    """The places with their public values by name."""
    found, layout = [], statement.layout()
    for here, after, public in zip(present, [*present[1:], s.zero], publics, strict=True):
        named = {name: public[at : at + count] for name, (at, count) in layout.items()}
        found.append(_Segment(here, s.sub(here, after), named))
    return found


def _check_statement(s: Symbols, statement: Statement, segments: Sequence[_Segment], constants: Sequence[Wire]) -> None:
    """What S 11.1 asks of the public values of all segments; and none has read public input."""

    def need(if_: Wire, a: Wire, b: Wire, otherwise: str) -> None:
        s.need_equal(s.mul(if_, s.sub(a, b)), s.zero, otherwise)

    values = iter(constants)
    for constant in statement.constants:
        own = [next(values) for _ in constant.values]
        for number, segment in enumerate(segments):
            here = {"first": s.zero if number else s.one, "last": segment.last, "every": segment.present}
            for a, b in zip(segment.public[constant.name], own, strict=True):
                need(here[constant.where], a, b, f"{constant.name} is not the constant of the statement")
    for number, segment in enumerate(segments):
        for end, start in statement.chain if number else ():
            for a, b in zip(segments[number - 1].public[end], segment.public[start], strict=True):
                need(segment.present, a, b, f"{start} of a segment is not {end} of the one before")
        for name in statement.same:
            for a, b in zip(segments[0].public[name], segment.public[name], strict=True):
                need(segment.present, a, b, f"{name} of a segment differs from the first one's")
        if statement.index is not None:
            place = s.constant(number)
            need(segment.present, segment.public[statement.index][0], place, f"{statement.index} is not the position")
        if statement.count is not None:
            count = s.sum([each.present for each in segments])
            need(segment.present, segment.public[statement.count][0], count, f"{statement.count} is not the number")
        if INPUTS in segment.public:
            need(segment.present, segment.public[INPUTS][0], s.zero, "a segment has read public input")


def _check_exit_code(s: Symbols, segments: Sequence[_Segment], stated: Wire) -> None:
    """It is the last segment's, and has 32 bits."""
    own = s.sum([s.mul(each.last, each.public[EXIT_CODE][0]) for each in segments])
    s.need_equal(own, stated, "the last segment has another exit code than is stated")
    _need_word(s, stated, "the exit code is beyond 32 bits")


def _check_output(s: Symbols, statement: Statement, segments: Sequence[_Segment], output: Sequence[Wire]) -> list[Wire]:
    """The output has the length that all segments state, in whole words of 32 bits, and zeros behind it. Returns for
    each word whether it is within the length."""
    assert statement.output is not None, "a key that a contract reads"
    length, *words = output
    for segment in segments:
        own = segment.public[statement.output.length][0]
        s.need_equal(
            s.mul(segment.present, s.sub(own, length)), s.zero, "a segment states another length of the output"
        )
    within, before = list[Wire](), s.one
    for word in words:
        flag = s.flag("within")
        s.need_equal(s.mul(flag, before), flag, "a word is within the output, and the one before is not")
        s.need_equal(s.mul(flag, word), word, "a word behind the output is not zero")
        _need_word(s, word, "a word of the output is beyond 32 bits")
        within.append(flag)
        before = flag
    written = s.scale(s.sum(within), WORD_BYTES)
    s.need_equal(written, length, "the length of the output is another than that of its words")
    return within


def _check_buses(
    s: Symbols,
    form: ContractForm,
    segments: Sequence[_Segment],
    output: Sequence[Wire],
    within: Sequence[Wire],
    challenge: Octets,
    total: Sequence[Wire],
) -> None:
    """The fractions of segments, boundary and output sum to zero."""
    z, beta = draw_global(s, challenge, TreeHash.POSEIDON2)
    numbers, statement = dict(form.buses), form.statement
    assert statement.output is not None, "a key that a contract reads"
    widest = max((len(boundary.values) for boundary in statement.boundary), default=0)
    powers = s.powers(beta, max(3, widest + 1))
    terms = [s.join(total)]

    def fraction(bus: str, values: Sequence[Wire], times: Wire) -> None:
        fingerprint = s.add(z, s.constant(numbers[bus]))
        for value, power in zip(values, powers[1:], strict=False):
            fingerprint = s.add(fingerprint, s.mul(power, value))
        inverse = s.inverse(fingerprint, "a tuple of the boundary or of the output has the fingerprint zero")
        terms.append(s.mul(times, inverse))

    for boundary in statement.boundary:
        for number, segment in enumerate(segments):
            here = {"first": s.zero if number else s.one, "last": segment.last, "every": segment.present}[
                boundary.where
            ]
            if here is s.zero:
                continue
            own = [
                segment.public[v.name][v.index] if isinstance(v, PublicRef) else s.constant(v) for v in boundary.values
            ]
            fraction(boundary.bus, own, s.scale(here, boundary.times % P))
    minus = s.constant(-1)
    for place, (word, flag) in enumerate(zip(output, [s.one, *within], strict=True)):
        fraction(statement.output.bus, [s.constant(place), word], s.mul(flag, minus))
    s.need_equal(s.sum(terms), s.zero, "the global buses do not balance over the segments")


def _need_word(s: Symbols, value: Wire, otherwise: str) -> None:
    """The scalar is below 2^32."""
    s.need_equal(s.bits(value).halves[1], s.zero, otherwise)


def _identity(s: Symbols, key: Identity) -> list[Wire]:
    """The scalars of a key that is a constant."""
    return [s.constant(value) for value in key.scalars()]


def _if(s: Symbols, flag: Wire, words: Sequence[Wire]) -> list[Wire]:
    """The words, or zeros if the flag is zero."""
    return [s.mul(flag, word) for word in words]


def _chosen(s: Symbols, flag: Wire, if_one: Sequence[Wire], if_zero: Sequence[Wire]) -> list[Wire]:
    """The words `if_one` if the flag is one, or else `if_zero`."""
    return [s.add(b, s.mul(flag, s.sub(a, b))) for a, b in zip(if_one, if_zero, strict=True)]


# -- what a job gives to the circuit ----------------------------------------------------------------------------------


def contract_fields(
    form: ContractForm, record: ProgramRecord, segments: Sequence[Commitment], read: Read, below: Proven
) -> dict[str, Words]:
    """The fields of the circuit, but for the openings of trees, from the segments of a job and the node over them.
    Places without a segment get the first one. Raises InvalidProof for a job that does not fit the form."""
    if not 1 <= len(segments) <= form.places:
        raise InvalidProof(f"{count_of(len(segments), 'segment')} in a job that has places for {form.places}")
    _, total = node_statement(below.public)
    words = len(read.output) // WORD_BYTES
    given: dict[str, Any] = {
        "key": packed(record.key),
        "heights": packed(encode_heights(record.log_heights)),
        "leaf": record.leaf.scalars(),
        "constants": record.constants,
        "present": [int(number < len(segments)) for number in range(1, form.places)],
        "within": [int(number < words) for number in range(OUTPUT_WORDS)],
        "sum": total,
    }
    scalars = iter(read.scalars())
    given |= {name: [next(scalars) for _ in range(count)] for name, count in READ}
    for number in range(form.places):
        own = segments[number] if number < len(segments) else segments[0]
        if len(own.name.encode()) != form.name_length or len(own.public) != form.statement.public_values:
            raise InvalidProof(f"{own.name}: a segment of another form than the circuit's")
        given[f"{number}.name"], given[f"{number}.public"] = packed(own.name.encode()), own.public
        given[f"{number}.root"] = unpack(own.main_root, (DIGEST,), own.name)
        given[f"{number}.anchor"] = unpack(own.anchors, (3,), own.name)
    fields = {name: np.array(values, dtype=np.uint64).reshape(-1) for name, values in given.items()}
    return fields | proof_fields(below.proof, BELOW)
