"""The kinds of statements of Filecoin's that are proven, and how each is made from its files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from distprove.errors import FormatError, VanillaMismatch
from distprove.filecoin import porep
from distprove.filecoin.c1 import read_c1
from distprove.filecoin.options import FilecoinOptions
from distprove.filecoin.statement import Statement
from distprove.filecoin.values import prover_id_of, within


@dataclass(frozen=True, repr=False)
class Given:
    """A statement with the inputs of its partitions, which are secret."""

    statement: Statement
    inputs: Callable[[int], dict[str, list[int]]]
    """The inputs of a partition's circuit."""


KINDS: Mapping[str, Callable[[Any], Statement]] = {porep.KIND: porep.SealStatement.from_record}
"""Makes a statement from its record, by its kind."""


def statement_of(kind: Any, record: Any) -> Statement:
    """The statement in a proof file, from untrusted data. Raises FormatError, VanillaMismatch."""
    if not isinstance(kind, str) or kind not in KINDS:
        raise FormatError("the proof is of a kind of statement that this distprove does not know")
    return KINDS[kind](record)


def read_given(options: FilecoinOptions) -> Given:
    """Read the files of a job and check that they belong together. Raises InputError, UsageError."""
    assert options.c1 is not None  # `check` has seen to it
    output = read_c1(options.c1, options.proof_type)
    with within(str(options.c1)):
        sector = output.sector if options.sector is None else options.sector
        if output.sector not in (None, sector):
            raise FormatError(f"the file is of sector {output.sector}, not {sector}")
        sealed = None
        if options.prover_id is not None and sector is not None:
            sealed = porep.Sealed(prover_id_of(options.prover_id), sector, output.ticket)
        porep_id = options.porep_octets() or output.proof.porep_id
        commitments = output.comm_d, output.comm_r, output.replica_id
        try:
            statement = porep.SealStatement(output.proof, porep_id, *commitments, output.seed, sealed)
            porep.check_vanilla(statement, output.partitions)
        except VanillaMismatch as error:
            if not output.assumed:
                raise
            hint = f"the file names no proof type, {output.proof.name} is assumed: --proof-type names another"
            raise VanillaMismatch(f"{error} ({hint})") from None
    return Given(statement, lambda k: porep.circuit_inputs(statement, k, output.partitions[k]))
