"""`distprove bench versus`: Groth16 proofs side by side with another prover's command, from the same files."""

from __future__ import annotations

import re
import shlex
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distprove.errors import InputError, InvalidProof, JobFailed, UsageError
from distprove.groth16.keys import VerificationKey
from distprove.groth16.proof import Groth16Proof
from distprove.groth16.prover import prove
from distprove.groth16.resident import load_key
from distprove.groth16.snarkjs import read_proof, read_public
from distprove.groth16.verifier import verify
from distprove.groth16.wtns import read_wtns
from distprove.groth16.zkey import read_zkey
from kernels.backend import Backend
from kernels.encoding import unpack

OURS = "distprove"
TIMED = (
    "witness to proof: ours in this process with the key loaded; the other prover as a whole command, its start and "
    "its reading of key and witness included; the two in turn"
)
CHECKED = "every proof of both, by the pairing"

_PLACES = ("zkey", "wtns", "proof", "public")
_PLACE = re.compile(rf"\{{({'|'.join(_PLACES)})\}}")
_TIMEOUT = 3600.0


@dataclass(frozen=True)
class PeerCommand:
    """Another prover's command line, with {zkey}, {wtns}, {proof} and {public} where its files go."""

    name: str
    arguments: tuple[str, ...]

    @classmethod
    def parse(cls, name: str, command: str) -> PeerCommand:
        """Raises UsageError for a command that does not name all four files, or is not quoted as a shell wants it."""
        if not name or name == OURS:
            raise UsageError(f"the other prover needs a name of its own, not {name!r}")
        try:
            arguments = tuple(shlex.split(command))
        except ValueError as error:
            raise UsageError(f"the command {command!r} cannot be split into words: {error}") from None
        missing = [place for place in _PLACES if not any(f"{{{place}}}" in word for word in arguments)]
        if missing:
            raise UsageError(f"the command lacks {', '.join(f'{{{place}}}' for place in missing)}")
        return cls(name, arguments)

    def run(self, files: dict[str, Path]) -> float:
        """Run it once; its wall time in seconds. What it prints is dropped, because it may hold the witness.

        Raises UsageError when it cannot be run, JobFailed when it fails.
        """
        words = [_PLACE.sub(lambda place: str(files[place[1]]), word) for word in self.arguments]
        begin = time.perf_counter()
        try:
            done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=_TIMEOUT)
        except OSError as error:
            raise UsageError(f"{self.name}: cannot run {words[0]}: {error.strerror}") from None
        except subprocess.TimeoutExpired:
            raise JobFailed(f"{self.name} took more than {_TIMEOUT:g} s") from None
        if done.returncode != 0:
            raise JobFailed(f"{self.name} ended with exit code {done.returncode}")
        return time.perf_counter() - begin


@dataclass(frozen=True)
class Comparison:
    """One circuit: the seconds of each proof, by prover."""

    what: str
    samples: dict[str, tuple[float, ...]]

    def to_dict(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "seconds": {name: statistics.median(times) for name, times in self.samples.items()},
            "samples": {name: list(times) for name, times in self.samples.items()},
        }


def bench_versus(
    backend: Backend,
    peer: PeerCommand,
    cases: Iterable[tuple[Path, Path]],
    repeats: int,
    progress: Callable[[str], None],
) -> list[Comparison]:
    """A row for each (zkey, wtns). Both provers run once before the timing.

    Raises InputError subclasses for the files, UsageError for a command that cannot be run, and JobFailed for a prover
    that fails or whose proof does not verify.
    """
    rows = []
    for zkey, wtns in cases:
        progress(f"{OURS} and {peer.name}: {zkey}")
        rows.append(_compare(backend, peer, zkey, wtns, repeats))
    return rows


def _compare(backend: Backend, peer: PeerCommand, zkey: Path, wtns: Path, repeats: int) -> Comparison:
    key, witness = read_zkey(zkey), read_wtns(wtns)
    witness.check_for(key)
    resident, vk = load_key(key, backend), VerificationKey.from_zkey(key)
    public = unpack(witness.values[1 : key.n_public + 1])
    ours: list[float] = []
    theirs: list[float] = []

    def check(name: str, proof: Groth16Proof) -> None:
        try:
            holds = verify(vk, public, proof)
        except InvalidProof:  # malformed
            holds = False
        if not holds:
            raise JobFailed(f"a proof of {name} for {zkey} does not verify")

    with tempfile.TemporaryDirectory(prefix="distprove-versus-") as folder:
        files = {"zkey": zkey, "wtns": wtns, "proof": Path(folder, "proof.json"), "public": Path(folder, "public.json")}
        for _ in range(1 + repeats):
            begin = time.perf_counter()
            proof, _ = prove(resident, witness.values)
            ours.append(time.perf_counter() - begin)
            check(OURS, proof)
            theirs.append(peer.run(files))
            try:
                stated, proof = read_public(files["public"], key.curve), read_proof(files["proof"], key.curve)
            except InputError as error:
                raise JobFailed(f"{peer.name}: {error}") from None
            if list(stated) != public:
                raise JobFailed(f"{peer.name} states other public values for {zkey}")
            check(peer.name, proof)
            for written in ("proof", "public"):
                files[written].unlink()
    title = zkey.parent.name or zkey.stem
    what = f"{title}, {key.n_vars} wires, domain 2^{key.domain_size.bit_length() - 1}"
    return Comparison(what, {OURS: tuple(ours[1:]), peer.name: tuple(theirs[1:])})
