"""The program of the proof that a contract reads: its circuit, and a trace from a job's segments and last node."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distprove.errors import InvalidProof
from distprove.formats import canonical
from distprove.stark.barrier import Commitment
from distprove.stark.multilinear.places import READ
from distprove.stark.recursion.circuit import Circuit
from distprove.stark.recursion.circuit_cache import code
from distprove.stark.recursion.contract import ProgramRecord, Read
from distprove.stark.recursion.contract_circuit import contract_circuit, contract_fields
from distprove.stark.recursion.contract_form import ContractForm
from distprove.stark.recursion.evaluation import evaluate
from distprove.stark.recursion.frame import Frame
from distprove.stark.recursion.layout import Layout
from distprove.stark.recursion.node import Proven, node_trees
from distprove.stark.recursion.program import CircuitProgram
from distprove.stark.recursion.rows import row_counts
from kernels.host.loaded_code import digest_of

MOST_CIRCUITS = 4
"""Circuits that a process keeps, some 10 MB each."""
_LOCK = threading.Lock()
_CIRCUITS: OrderedDict[bytes, Circuit] = OrderedDict()
"""By what they depend on."""


class ContractProgram(CircuitProgram):
    """Proves what a contract reads of a job."""

    name = "contract"
    stated = READ

    def __init__(self, form: ContractForm, frame: Frame | None = None) -> None:
        """`frame` is by default the lowest one that the circuit fits."""
        super().__init__(frame or frame_of_contract(form))
        self.form = form

    @property
    def circuit(self) -> Circuit:
        return _circuit(self.form)

    @cached_property
    def layout(self) -> Layout:
        return Layout.of(self.circuit, self.frame)

    @property
    def circuit_name(self) -> str:
        return hashlib.sha256(digest_of(code()) + canonical.encode([self.name, self.form.to_record()])).hexdigest()

    def inputs(self, source: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        """`inputs_of` of a source with its arguments."""
        return self.inputs_of(**source)

    def inputs_of(
        self, record: ProgramRecord, segments: Sequence[Commitment], read: Read, below: Proven
    ) -> dict[str, NDArray[Any]]:
        """What `trace` takes, from the segments of a job and the last node of its tree. Raises InvalidProof for a job
        that is none of this program, or that has another exit code or output."""
        if below.proof.log_heights != self.form.below.shape.log_heights:
            raise InvalidProof(f"{below.name}: a proof of other heights than the circuit's")
        fields = contract_fields(self.form, record, segments, read, below)
        made = evaluate(self.circuit, fields, node_trees([self.form.below], [below]))
        made.check()
        return {**self.layout.inputs(made), "stated": np.array(read.scalars(), dtype=np.uint64)}


def frame_of_contract(form: ContractForm) -> Frame:
    """The lowest frame of the circuit of a form."""
    return Frame.fitting(row_counts(_circuit(form)))


def _circuit(form: ContractForm) -> Circuit:
    """The circuit of a form, which the process keeps. Any thread may call."""
    place = canonical.encode(form.to_record())
    with _LOCK:
        if place not in _CIRCUITS:
            _CIRCUITS[place] = contract_circuit(form)
            while len(_CIRCUITS) > MOST_CIRCUITS:
                _CIRCUITS.popitem(last=False)
        _CIRCUITS.move_to_end(place)
        return _CIRCUITS[place]
