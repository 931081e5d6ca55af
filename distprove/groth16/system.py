"""Groth16 as a proof system for the driver: a partition is one input (or one finished witness) of one circuit."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from distprove.errors import (
    CurveMismatch,
    InputError,
    InvalidKey,
    UnsatisfiedWitness,
    UsageError,
    WitnessMismatch,
)
from distprove.formats.sampled import sample
from distprove.groth16.binfile import map_file
from distprove.groth16.committed.key import AnyVerificationKey, CommittedKey, CommittedProof
from distprove.groth16.committed.names import DEFAULT
from distprove.groth16.committed.prover import commit
from distprove.groth16.elements import Words
from distprove.groth16.input_places import WHOLE_INPUT, WHOLE_WITNESS, content_at, partitions_at, places_of
from distprove.groth16.inputs import Inputs, read_input
from distprove.groth16.job_verifier import Groth16Verifier
from distprove.groth16.key_check import check_key_once, find_damage
from distprove.groth16.keyfile import AnyProvingKey, read_key, read_trusted_key
from distprove.groth16.options import Groth16Options
from distprove.groth16.proof import Groth16Proof
from distprove.groth16.prover import MadeOnDevice, PendingGroth16, StagedWitness
from distprove.groth16.r1cs import R1csFile, open_r1cs
from distprove.groth16.resident import ResidentKey, load_key, matrix_bytes
from distprove.groth16.symbols import symbols_beside
from distprove.groth16.wtns import read_wtns, require_same_circuit
from distprove.groth16.zkey import ZKey
from distprove.options import InputFile
from distprove.system import DeviceTask, Partition, PartitionProof, StepTimes, Witness
from kernels.cpu.backend import CpuBackend
from kernels.host.arena import HostArena
from kernels.host.units import count_of
from kernels.interface.arrays import Empty
from kernels.interface.backend import Backend
from kernels.maths.encoding import unpack

if TYPE_CHECKING:
    from distprove.circuits.circuit import WitnessProgram as CircuitProgram
    from distprove.groth16.aggregate.srs import Srs
    from distprove.groth16.witness import WitnessProgram
    from distprove.proof import Proof

SANDBOX_BYTES = 64 << 20
"""Memory of a witness program that does not grow with the circuit, in bytes: code, constants, stack."""
MADE_WHERE_PROVEN = 1 << 18
"""Wires from which on the witness of a circuit in Python is made by the prover's backend, and what goes to it are the
inputs: an H200 makes the 375,000 wires of a WinningPoSt in 0.01 s, a thread of a CPU in 0.1 s."""

Beside = Callable[[Groth16Proof], CommittedProof]
"""What adds a witness's commitments to its proof."""

SharedFiles = dict[str, NDArray[np.uint8]]
KEY_FILES = ("zkey", "params", "gnark_pk", "gnark_vk", "r1cs")
"""Names of the files of a key, the proving key first."""


class Groth16System(Groth16Verifier):
    """Implements `distprove.system.ProofSystem`. It verifies under the key inside its `.zkey`."""

    name = "groth16"
    needs_barrier = False
    verifies_in_python = False

    def __init__(
        self,
        key: Mapping[str, Path] | Path,
        sources: Sequence[InputFile],
        wasm: Path | None = None,
        circuit: str | None = None,
        commitment_hash: str = DEFAULT,
    ) -> None:
        """Open the key: the path of a zkey, or paths as `read_key` takes them, with `commitment_hash`. `sources` are
        input JSON files when `wasm` or `circuit` is given, else `.wtns` witnesses.

        Raises UsageError without sources, FormatError or CurveMismatch for unusable files.
        """
        if not sources:
            raise UsageError("no inputs: a Groth16 job needs at least one witness or one input file")
        self.key_files = {"zkey": Path(key)} if isinstance(key, (str, Path)) else dict(key)
        self.key_name = next(iter(self.key_files.values())).name
        self.wasm_path = None if wasm is None else Path(wasm)
        self.circuit = circuit
        self.commitment_hash = commitment_hash
        if circuit is not None:
            from distprove.circuits.registry import circuit_maker

            circuit_maker(circuit)  # a name that nothing has is told before anything starts
        self.sources = tuple(sources)
        self._srs: tuple[Path, bytes, int] | None = None
        """The file of aggregation keys, their digest when the job began, and for how many proofs they are."""
        files = self._map()
        self._samples = {name: sample(content.data) for name, content in files.items()}
        """What tells the files that were opened from others that are put in their place."""
        opened = read_key(
            files,
            str(next(iter(self.key_files.values()))),
            circuit=circuit,
            ceremony=True,
            commitment_hash=commitment_hash,
        )
        if "r1cs" in files:
            r1cs = open_r1cs(files["r1cs"], name=str(self.key_files["r1cs"]))
            require_same_circuit(r1cs.file.name, r1cs.curve, r1cs.n_vars, opened)
        self._facts = _key_facts(opened) | ({} if circuit is None else {"circuit": circuit})
        self._key_bytes = _key_bytes(opened)
        super().__init__(opened.verification_key)

    def __getstate__(self) -> dict[str, Any]:
        """Workers do without the inputs: each is sent with the order to prove it."""
        return {**self.__dict__, "sources": (), "_places": []}

    @classmethod
    def from_options(cls, options: Groth16Options) -> Groth16System:
        """Make the system of a job. Raises InvalidKey when the job's `vk` is not the key inside its proving key."""
        named = {name: getattr(options, name) for name in KEY_FILES}
        files = {name: path for name, path in named.items() if path is not None}
        system = cls(files, options.sources, options.wasm, options.circuit, options.commitment_hash)
        if options.aggregate is not None:
            system.aggregate_with(options.aggregate)
        system.require_key(options.vk)
        return system

    @classmethod
    def of_key(cls, files: Mapping[str, Path], circuit: str | None) -> Groth16System:
        """The system of a key without a job, whose plan is empty: `files` are `zkey` or `params`, `r1cs` and `wasm`.
        Raises UsageError, and as the constructor."""
        key = {name: path for name, path in files.items() if name != "wasm"}
        if unknown := key.keys() - {*KEY_FILES}:
            raise UsageError(
                f"a key has no file `{min(unknown)[:100]}`: name {', '.join(map(repr, KEY_FILES))}, 'wasm'"
            )
        if sum(name in key for name in ("zkey", "params", "gnark_pk")) != 1:
            raise UsageError("give one of `zkey`, `params` and `gnark_pk`")
        if "gnark_pk" in key and not {"gnark_vk", "r1cs"} <= key.keys():
            raise UsageError("`gnark_pk`, `gnark_vk` and `r1cs` go together")
        if "params" in key and "r1cs" not in key and circuit is None:
            raise UsageError("`params` and `r1cs` (the circuit that they are for), or `circuit`, go together")
        ordered = {name: key[name] for name in KEY_FILES if name in key}
        made = Groth16System.__new__(cls)
        Groth16System.__init__(made, ordered, [InputFile("none", Path())], files.get("wasm"), circuit)
        return made.with_inputs(())

    def require_key(self, vk: Path | None) -> None:
        """Raise InvalidKey when the key in this file, if any, is not the one inside the proving key."""
        if vk is not None and read_trusted_key(vk, self.key).digest() != self.key_digest():
            raise InvalidKey(f"{vk.name} is not the verification key inside {self.key_name}")

    def aggregate_with(self, srs: Path) -> None:
        """Aggregate the job's proofs at its end, under the keys in this file. Raises InputError, and CurveMismatch or
        UsageError for keys that do not serve the job."""
        from distprove.groth16.aggregate.srs import read_srs

        if isinstance(self.key, CommittedKey):
            raise UsageError(f"{self.key_name}: proofs of a circuit with commitments are not aggregated")
        keys = read_srs(srs)
        if keys.curve is not self.key.curve:
            raise CurveMismatch(
                f"{srs}: aggregation keys over {keys.curve.title}, the key is over {self.key.curve.title}"
            )
        self._srs = srs, keys.verifier.digest, keys.n
        self._check_count()
        self._facts = {
            **self._facts,
            "aggregation_keys": keys.verifier.digest.hex(),
            "insecure_aggregation": keys.insecure,
        }

    def _check_count(self) -> None:
        """Raise UsageError for more partitions than the aggregation keys serve."""
        if self._srs is not None and len(self.sources) > self._srs[2]:
            srs, _, most = self._srs
            raise UsageError(f"{srs}: aggregation keys for {count_of(most, 'proof')}, the job has {len(self.sources)}")

    def aggregates(self) -> bool:
        return self._srs is not None

    def aggregate(self, proof: Proof, run: Callable[[DeviceTask], Any]) -> tuple[str, bytes] | None:
        """Aggregate under the keys of `aggregate_with`, where `run` has it done. Raises InvalidProof, InputError;
        InvalidKey for a file that has other keys by now."""
        if (keys := self._aggregation_keys()) is None:
            return None
        from distprove.groth16.aggregate.aggregator import aggregate_jobs
        from distprove.groth16.aggregate.jobs import AGGREGATE_FILE, published
        from distprove.host.machine import usable_threads

        return AGGREGATE_FILE, published(aggregate_jobs([proof], keys, run, threads=usable_threads()))

    def _aggregation_keys(self) -> Srs | None:
        """The keys of `aggregate_with`, if any. Raises InputError; InvalidKey for a file that has other keys by now."""
        if self._srs is None:
            return None
        from distprove.groth16.aggregate.srs import read_srs

        path, digest, _ = self._srs
        keys = read_srs(path)
        if keys.verifier.digest != digest:
            raise InvalidKey(f"{path}: other aggregation keys than when the job began")
        return keys

    def with_inputs(self, sources: Sequence[InputFile]) -> Groth16System:
        """This system, its key not read again, for other inputs of the same kind."""
        other = copy.copy(self)
        other.__dict__.pop("_places", None)
        other.sources = tuple(sources)
        other._check_count()
        return other

    def describe(self) -> dict[str, Any]:
        return dict(self._facts)

    def shared(self) -> SharedFiles:
        """Maps of the key's files and the witness program. Raises InputError for another file than was opened."""
        files = self._map()
        for name, content in files.items():
            if sample(content.data) != self._samples[name]:
                raise InputError(f"{self._paths[name]}: another file than when the job began")
        return files

    @property
    def _paths(self) -> dict[str, Path]:
        return self.key_files if self.wasm_path is None else {**self.key_files, "wasm": self.wasm_path}

    def _map(self) -> SharedFiles:
        return {name: map_file(path) for name, path in self._paths.items()}

    def check(self, shared: SharedFiles, backend: Backend) -> None:
        """Check that every point of the key is on the curve and in the subgroup, once per job, unless this user's cache
        remembers that these points were checked before. Raises InvalidKey."""
        key = read_key(
            shared,
            self.key_name,
            circuit=self.circuit,
            threads=backend.threads,
            commitment_hash=self.commitment_hash,
        )
        check_key_once(key, backend)

    def synthesis_bytes(self, partition: Partition) -> int:
        """Predicted host memory of a synthesis in bytes: the witness; with a witness program three times as much and
        `SANDBOX_BYTES`, with a circuit as much again, wherever it is made: provers may do so in host memory."""
        witness = 32 * int(self._facts["wires"])
        if self.circuit is not None:
            return 2 * witness
        return witness if self.wasm_path is None else 4 * witness + SANDBOX_BYTES

    def key_bytes(self) -> int:
        """Predicted host memory of the loaded key in bytes: the two matrices, and the points of a `.params` file, which
        are decoded. Those of a zkey are read in place; for a GPU a vector at a time is copied while they are loaded, at
        most a quarter of the memory that is free then (`distprove.groth16.vectors`)."""
        return self._key_bytes

    def plan(self) -> list[Partition]:
        return partitions_at(self.name, self.key_digest(), self.sources, self._places)

    @cached_property
    def _places(self) -> list[dict[str, Any]]:
        computes = self.wasm_path is not None or self.circuit is not None
        return places_of(self.sources, WHOLE_INPUT if computes else WHOLE_WITNESS)

    def synthesiser(self, shared: SharedFiles, threads: int) -> Groth16Synthesiser:
        return Groth16Synthesiser(shared, self.circuit, threads, symbols_beside(self.wasm_path))

    def import_ahead(self) -> None:
        if self.circuit is not None:
            from distprove.circuits.registry import witness_program

            witness_program(self.circuit)  # synthesisers that are forked share it
        if self.wasm_path is not None:
            import distprove.groth16.witness  # noqa: F401

    def prover(self, shared: SharedFiles, backend: Backend) -> Groth16Prover:
        symbols = symbols_beside(self.key_files.get("r1cs"))
        prover = Groth16Prover(shared, backend, self.circuit, symbols, self.commitment_hash)
        if self.aggregates():  # at the end of the job, by when what that takes is compiled
            backend.inner_products.prepare(self.key.curve)
        return prover

    def verification_key(self) -> dict[str, Any]:
        return self.key.to_dict()


class Groth16Synthesiser:
    """Turns an input file into a witness. Inputs are read on the machine where the synthesiser runs."""

    def __init__(
        self, shared: SharedFiles, circuit: str | None = None, threads: int = 1, symbols: Path | None = None
    ) -> None:
        """`symbols` is the `.sym` file of circom's circuit, for the names in errors."""
        self._key = read_key(shared, "key", circuit=circuit)
        self._program: WitnessProgram | CircuitWitnesses | None = None
        self._empty: Empty = np.empty
        if circuit is not None:
            self._program = CircuitWitnesses(circuit, threads)
            self._program.check_for(self._key)
        if "wasm" in shared:
            from distprove.groth16.witness import WitnessProgram  # takes wasmtime, a sixth of a prover's start

            self._program = WitnessProgram(shared["wasm"], name="witness program", symbols=symbols)
            self._program.check_for(self._key)

    def use_arena(self, arena: HostArena) -> None:
        self._empty = arena.empty

    def synthesise(self, partition: Partition) -> Witness:
        start = time.perf_counter()
        place = partition.source
        if self._program is None:
            file, name = content_at(place)
            loaded = read_wtns(file, name=name, empty=self._empty)
            loaded.check_for(self._key)
            witness = loaded.values
        else:
            given = self.given(partition)
            if isinstance(self._program, CircuitWitnesses) and self._program.made_where_proven:
                return Witness(partition.name, {"inputs": self._program.encode(given)}, time.perf_counter() - start)
            witness = self._program.generate(given, self._empty)
        return Witness(partition.name, {"witness": witness}, time.perf_counter() - start)

    def given(self, partition: Partition) -> Inputs:
        """The input of a partition, for a witness program or a circuit. Raises InputError."""
        content = partition.source.get("content")
        file, name = content_at(partition.source) if content is None else (content, partition.name)
        return read_input(file, name=name)


class CircuitWitnesses:
    """Computes the witnesses of a circuit in Python, as `WitnessProgram` does those of circom's."""

    def __init__(self, name: str, threads: int) -> None:
        """Raises UsageError for a circuit that is not there."""
        from distprove.circuits.registry import witness_program

        self._name = name
        self._circuit: CircuitProgram = witness_program(name)
        self._backend = CpuBackend(threads)

    def check_for(self, key: AnyProvingKey) -> None:
        """Raise CurveMismatch or WitnessMismatch unless the key can be one of this circuit."""
        circuit = self._circuit
        if circuit.curve is not key.curve:
            raise CurveMismatch(f"{self._name}: the circuit is over {circuit.curve.title}, the key {key.curve.title}")
        if (circuit.n_wires, circuit.n_public) != (key.n_vars, key.n_public):
            raise WitnessMismatch(
                f"{self._name}: the circuit has {count_of(circuit.n_wires, 'wire')}, {circuit.n_public} of them "
                f"public, the key "
                f"{key.n_vars} and {key.n_public}"
            )

    @property
    def made_where_proven(self) -> bool:
        """Whether the prover makes witnesses, from what `encode` gives."""
        return _made_where_proven(self._name, self._circuit.n_wires) is not None

    def encode(self, inputs: Inputs) -> Words:
        """The values of `inputs`, public ones first, canonical integers. Raises WitnessGenerationError."""
        return self._circuit.encode(inputs)

    def generate(self, inputs: Inputs, empty: Empty = np.empty) -> Words:
        """The witness for `inputs`, in what `empty` gives. Raises WitnessGenerationError, UnsatisfiedWitness."""
        return self._circuit.witness(inputs, self._backend, empty)


def _made_where_proven(name: str, n_wires: int) -> CircuitProgram | None:
    """The program of a circuit if provers make its witnesses: it is large, and has no outputs, which are no inputs, so
    that the public values would not be known before."""
    from distprove.circuits.registry import witness_program

    if n_wires < MADE_WHERE_PROVEN:
        return None
    program = witness_program(name)
    return None if program.outputs else program


class Groth16Prover:
    """Proves partitions with the key resident on one backend. Implements `distprove.system.Prover`."""

    def __init__(
        self,
        shared: SharedFiles,
        backend: Backend,
        circuit: str | None = None,
        symbols: Path | None = None,
        commitment_hash: str = DEFAULT,
    ) -> None:
        """`circuit` names the circuit in Python whose witnesses come as inputs, if they do. `symbols` is the `.sym`
        file of the circuit, for the names in errors. `commitment_hash` is as of `read_key`."""
        self._symbols = symbols
        self._zkey = read_key(shared, "key", circuit=circuit, threads=backend.threads, commitment_hash=commitment_hash)
        self._r1cs = open_r1cs(shared["r1cs"], name="the circuit") if "r1cs" in shared else None
        self._vk = self._zkey.verification_key
        self._program = None if circuit is None else _made_where_proven(circuit, self._zkey.n_vars)
        backend.prepare(self._zkey.curve)
        self._key: ResidentKey = load_key(self._zkey, backend)

    def commit(self, partition: Partition, witness: Witness) -> bytes | None:
        return None

    def prove_partition(
        self, partition: Partition, witness: Witness, challenge: bytes | None = None
    ) -> tuple[PartitionProof, StepTimes]:
        staged = self.stage(partition, witness)
        try:
            return staged.start(challenge).result()
        finally:
            staged.release()

    def stage(self, partition: Partition, witness: Witness) -> StagedGroth16:
        n_public = self._key.n_public
        if "inputs" in witness.arrays:
            encoded = witness.arrays["inputs"]
            staged = StagedWitness(self._key, self._maker(encoded))
            return StagedGroth16(partition, tuple(unpack(encoded[:n_public])), staged)
        return StagedGroth16.of_witness(partition, self._key, self._vk, witness.arrays["witness"])

    def _maker(self, encoded: Words) -> MadeOnDevice:
        """What makes a witness from its inputs on any backend."""
        program = self._program
        assert program is not None
        return lambda backend: program.witness_from(backend, encoded)

    def diagnose(self, partition: Partition, witness: Witness) -> None:
        """Raise InvalidKey or UnsatisfiedWitness if a proof of `witness` computed on the CPU does not verify either."""
        encoded = witness.arrays.get("inputs")
        with CpuBackend(threads=1) as cpu:
            values = witness.arrays["witness"] if encoded is None else cpu.to_host(self._maker(encoded)(cpu))
            staged = StagedGroth16.of_witness(partition, load_key(self._zkey, cpu), self._vk, values)
            proof, _ = staged.start().result()
            if Groth16Verifier(self._vk).verify(proof):
                return
            what = f"partition {partition.name}: its proof does not verify, on the CPU either"
            damage = find_damage(self._zkey, cpu)
            if damage is not None:
                raise InvalidKey(f"{what}: the key is damaged: {damage}")
            if self._r1cs is None:
                raise UnsatisfiedWitness(
                    f"{what}: the key is damaged or of another circuit, or the witness does not satisfy the circuit's "
                    "constraints; with the circuit's `r1cs` the job would say which"
                )
            circuit = self._r1cs.read()
            row = circuit.first_unsatisfied(values, cpu)
        if row is None:
            raise InvalidKey(f"{what}: the key is damaged or of another circuit; the witness satisfies the r1cs")
        from distprove.groth16.constraint_text import constraint_rows

        rows = constraint_rows(circuit, row, self._symbols)
        raise UnsatisfiedWitness(f"{what}: the witness does not satisfy constraint {row} of the circuit: {rows}")

    def close(self) -> None:
        """Let go of the key, whose memory the backend then uses for other things. Nothing may be in flight."""
        del self._key


class StagedGroth16:
    """Implements `distprove.system.StagedPartition`."""

    def __init__(
        self,
        partition: Partition,
        public: tuple[int, ...],
        witness: StagedWitness,
        commit: Callable[[StagedWitness], Beside] | None = None,
    ) -> None:
        """`commit` makes the commitments of the witness, for a circuit with commitments."""
        self._partition = partition
        self._public = public
        self._witness = witness
        self._commit = commit

    @classmethod
    def of_witness(
        cls, partition: Partition, key: ResidentKey, verifies: AnyVerificationKey, values: Words
    ) -> StagedGroth16:
        """Begin to copy a witness, (n_vars, 4) canonical integers, as `StagedWitness` does."""
        public = tuple(unpack(values[1 : key.n_public + 1]))
        staged = StagedWitness(key, values)
        if not isinstance(verifies, CommittedKey):
            return cls(partition, public, staged)
        under = verifies

        def commitments(witness: StagedWitness) -> Beside:
            return partial(commit(key, under, values, witness).beside, under)

        return cls(partition, public, staged, commitments)

    def start(self, challenge: bytes | None = None) -> PendingGroth16Partition:
        beside = None if self._commit is None else self._commit(self._witness)
        return PendingGroth16Partition(self._partition, self._public, self._witness.start(), beside)

    def release(self) -> None:
        self._witness.release()


class PendingGroth16Partition:
    """Implements `distprove.system.PendingProof`."""

    def __init__(
        self, partition: Partition, public: tuple[int, ...], proof: PendingGroth16, beside: Beside | None
    ) -> None:
        self._partition = partition
        self._public = public
        self._proof = proof
        self._beside = beside

    def wait(self) -> None:
        self._proof.wait()

    def result(self) -> tuple[PartitionProof, StepTimes]:
        proof, times = self._proof.result()
        data = proof.to_dict() if self._beside is None else self._beside(proof).to_dict()
        return PartitionProof(self._partition.name, self._partition.digest, self._public, data), times


def _key_bytes(key: AnyProvingKey) -> int:
    """As of `Groth16System.key_bytes`; the entries of a circuit that is not read are bounded by its file's size."""
    if isinstance(key, ZKey):
        return matrix_bytes(key)
    most = key.circuit.most_entries if isinstance(key.circuit, R1csFile) else None
    return matrix_bytes(key, most) + key.data.nbytes


def _key_facts(key: AnyProvingKey) -> dict[str, Any]:
    weakness, made = key.verification_key.weakness, len(key.commitment_bases)
    return {
        "curve": key.curve.title,
        "wires": key.n_vars,
        "public": key.n_public,
        "domain": key.domain_size,
        "key": key.name,
        "contributions": len(key.contributions),
        "insecure_setup": key.insecure or weakness is not None,
        "weakness": weakness,
        **({"commitments": made} if made else {}),
    }
