"""The kinds of statements of Filecoin's that are proven, and how each is made from its files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distprove.errors import FormatError, UsageError, VanillaMismatch
from distprove.filecoin import porep, post, update
from distprove.filecoin.c1 import read_c1
from distprove.filecoin.options import COMMITMENTS, FilecoinOptions
from distprove.filecoin.sectors import Draw
from distprove.filecoin.statement import ELEMENT, Statement
from distprove.filecoin.values import MAX_FILE, hex_octets, json_value, prover_id_of, within
from distprove.formats.files import read_bounded


@dataclass(frozen=True, repr=False)
class Given:
    """A statement with the inputs of its partitions, which are secret."""

    statement: Statement
    inputs: Callable[[int], dict[str, list[int]]]
    """The inputs of a partition's circuit."""


KINDS: Mapping[str, Callable[[Any], Statement]] = {
    porep.KIND: porep.SealStatement.from_record,
    post.WINNING: post.PostStatement.from_record,
    post.WINDOW: post.PostStatement.from_record,
    update.KIND: update.UpdateStatement.from_record,
}
"""Makes a statement from its record, by its kind."""


def statement_of(kind: Any, record: Any) -> Statement:
    """The statement in a proof file, from untrusted data. Raises FormatError, VanillaMismatch."""
    if not isinstance(kind, str) or kind not in KINDS:
        raise FormatError("the proof is of a kind of statement that this distprove does not know")
    made = KINDS[kind](record)
    if made.kind != kind:
        raise FormatError(f"the statement is of kind {made.kind}, not {kind}")
    return made


def read_given(options: FilecoinOptions) -> Given:
    """Read the file of a job and check that what it holds belongs together. Raises InputError, UsageError."""
    name, path = options.vanilla
    if name == "c1":
        return _sealed(options, path)
    with within(str(path)):
        value = json_value(read_bounded(path, MAX_FILE))
        return _updated(options, value) if name == "update" else _post(options, value, winning=name == "winning_post")


def _sealed(options: FilecoinOptions, path: Path) -> Given:
    output = read_c1(path, options.proof_type)
    with within(str(path)):
        sector = output.sector if options.sector is None else options.sector
        if output.sector not in (None, sector):
            raise VanillaMismatch(f"the file is of sector {output.sector}, not {sector}")
        sealed = None
        if options.prover_id is not None and sector is not None:
            sealed = porep.Sealed(prover_id_of(options.prover_id), sector, output.ticket)
        elif options.prover_id is not None or (options.sector is not None and output.sector is None):
            raise UsageError("the replica id follows from both: give `prover_id` and `sector`")
        own = options.porep_id
        porep_id = output.proof.porep_id if own is None else hex_octets(own, "porep_id")
        commitments = output.comm_d, output.comm_r, output.replica_id
        # The file of a non-interactive type may have a seed, which nothing follows from: it is not stated.
        seed = bytes(ELEMENT) if output.proof.draw is Draw.NON_INTERACTIVE else output.seed
        try:
            statement = porep.SealStatement(output.proof, porep_id, *commitments, seed, sealed)
            porep.check_vanilla(statement, output.partitions)
        except VanillaMismatch as error:
            if not output.assumed:
                raise
            hint = f"the file names no proof type, {output.proof.name} is assumed: --proof-type names another"
            raise VanillaMismatch(f"{error} ({hint})") from None
    return Given(statement, lambda k: porep.circuit_inputs(statement, k, output.partitions[k]))


def _post(options: FilecoinOptions, value: Any, *, winning: bool) -> Given:
    assert options.randomness is not None  # `check` has seen to it
    proof, sectors = post.read_sectors(value, options.proof_type, winning=winning)
    statement = post.statement_of(proof, hex_octets(options.randomness, "randomness"), sectors)
    post.check_sectors(statement, sectors)
    return Given(statement, lambda k: post.circuit_inputs(statement, k, sectors))


def _updated(options: FilecoinOptions, value: Any) -> Given:
    proof, partitions = update.read_update(value, options.proof_type)
    statement = update.statement_of(proof, partitions)
    for name in COMMITMENTS:
        wanted = getattr(options, name)
        if wanted is not None and hex_octets(wanted, name) != getattr(statement, name):
            raise VanillaMismatch(f"{name} of the vanilla proofs is {getattr(statement, name).hex()}, not {wanted}")
    update.check_update(statement, partitions)
    return Given(statement, lambda k: update.circuit_inputs(statement, k, partitions[k]))
