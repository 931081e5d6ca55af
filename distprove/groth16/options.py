"""The options of Groth16: the part of a job file that belongs to it alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from distprove.errors import InputError, UsageError
from distprove.formats.files import require_file
from distprove.formats.names import is_name
from distprove.groth16.committed.names import DEFAULT, NAMES
from distprove.options import MAX_PARTITIONS, InputFile, Options, setting


@dataclass(frozen=True)
class Groth16Options(Options):
    """A Groth16 key: `zkey`, `params` with its `r1cs` or `circuit`, or `gnark_pk` with `gnark_vk` and `r1cs`. With it
    either `inputs` and what makes witnesses of them, `wasm` or `circuit`, or `witnesses`."""

    code_field = "circuit"

    zkey: Path | None = setting("the proving key", flag="--zkey")
    params: Path | None = setting("a proving key of bellperson's (.params) in place of a zkey", flag="--params")
    gnark_pk: Path | None = setting(
        "a proving key of gnark's in place of a zkey, with `gnark_vk` and `r1cs`", flag="--gnark-pk"
    )
    gnark_vk: Path | None = setting("the verifying key of `gnark_pk`", flag="--gnark-vk")
    commitment_hash: str = setting(
        "the hash of commitments of gnark's circuits: its default, or `keccak256` or `sha256`, as for its contracts",
        DEFAULT,
        flag="--commitment-hash",
        choices=NAMES,
    )
    r1cs: Path | None = setting(
        "the circuit that `params` or `gnark_pk` is for, where no `circuit` is named; beside a zkey it tells a bad "
        "witness from a damaged key",
        flag="--r1cs",
    )
    wasm: Path | None = setting("the circuit's witness program (.wasm), for the inputs", flag="--wasm")
    circuit: str | None = setting(
        "a circuit in Python in place of `wasm`: one that ships, such as filecoin/porep-2KiB, or your own as "
        "module:function",
        flag="--circuit",
    )
    inputs: tuple[InputFile, ...] = setting(
        "JSON inputs of the witness program or circuit: files, globs, folders",
        (),
        flag="--input",
        metavar="I.json...",
        suffix=".json",
        values=True,
    )
    witnesses: tuple[InputFile, ...] = setting(
        "finished witnesses: files, globs, folders", (), flag="--wtns", metavar="W.wtns...", suffix=".wtns"
    )
    vk: Path | None = setting("a verification_key.json, or a .vk, that the key must agree with", flag="--vk")
    aggregate: Path | None = setting(
        "aggregation keys (.srs): at the end the proofs are also aggregated, into the run's aggregate.msgpack",
        flag="--aggregate",
    )

    @property
    def sources(self) -> tuple[InputFile, ...]:
        """The input or witness files, one per partition, in order."""
        return self.inputs or self.witnesses

    def keyed(self) -> Groth16Options:
        return replace(self, inputs=(), witnesses=())

    def check(self) -> None:
        """Raise InputError unless every file exists and the partition names are valid and distinct, UsageError for what
        does not go together."""
        if (keys := sum(key is not None for key in (self.zkey, self.params, self.gnark_pk))) != 1:
            said = (
                "give one of `zkey`, `params` and `gnark_pk`"
                if keys
                else "no `zkey`: the proving key, nor `params` with `r1cs` or `circuit`, nor `gnark_pk`"
            )
            raise UsageError(said)
        if (self.gnark_pk is None) != (self.gnark_vk is None) or (self.gnark_pk is not None and self.r1cs is None):
            raise UsageError("`gnark_pk`, `gnark_vk` and `r1cs` (the circuit that they are for) go together")
        if self.gnark_pk is None and self.commitment_hash != DEFAULT:
            raise UsageError("`commitment_hash` is for commitments under a key of gnark's: give `gnark_pk`")
        if self.gnark_pk is not None and self.circuit is not None:
            raise UsageError(
                "`circuit` names circuits of this project, and `gnark_pk` is for one of gnark's: give `r1cs`"
            )
        if self.params is not None and self.r1cs is None and self.circuit is None:
            raise UsageError("`params` and `r1cs` (the circuit that they are for), or `circuit`, go together")
        if bool(self.inputs) == bool(self.witnesses):
            raise UsageError("give either `inputs` (with `wasm` or `circuit`) or `witnesses`")
        if self.wasm is not None and self.circuit is not None:
            raise UsageError("`wasm` and `circuit` exclude each other: both make witnesses of `inputs`")
        if bool(self.inputs) != (self.wasm is not None or self.circuit is not None):
            raise UsageError("`inputs` and `wasm` (the circuit's witness program), or `circuit`, go together")
        if self.circuit is not None:
            from distprove.circuits.registry import check_circuit

            check_circuit(self.circuit)
        if len(self.sources) > MAX_PARTITIONS:
            raise InputError(f"a job has 1 to {MAX_PARTITIONS} partitions, not {len(self.sources)}")
        names = {source.name.lower() for source in self.sources}
        if len(names) != len(self.sources) or not all(is_name(s.name) for s in self.sources):
            raise InputError("partition names must be distinct and fit for file names")
        super().check()
        for source in self.sources:
            if source.is_here:
                require_file(f"input {source.name}", source.path)
