"""`distprove bench versus`: Groth16 proofs side by side with another prover's command, from the same files."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from distprove.errors import InputError, InvalidProof, JobFailed, UsageError
from distprove.groth16.proof import Groth16Proof
from distprove.groth16.prover import prove
from distprove.groth16.resident import load_key
from distprove.groth16.snarkjs import read_proof, read_public
from distprove.groth16.verifier import verify
from distprove.groth16.wtns import read_wtns
from distprove.groth16.zkey import read_zkey
from kernels.interface.backend import Backend
from kernels.maths.encoding import unpack

OURS = "distprove"
TIMED = (
    "witness to proof: ours in this process with the key loaded; the other prover as a whole command, its start and "
    "its reading of key and witness included; the two in turn; CPU time is that of all threads"
)
CHECKED = "every proof of both, by the pairing"

_PLACES = ("zkey", "wtns", "proof", "public")
_PLACE = re.compile(rf"\{{({'|'.join(_PLACES)})\}}")
_TIMEOUT = 3600.0


class Taken(NamedTuple):
    """Seconds that one proof took: by the clock, and of all cores together."""

    wall: float
    cpu: float


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

    def run(self, files: dict[str, Path], limit: float = _TIMEOUT) -> Taken:
        """Run it once. What it prints is dropped, because it may hold the witness.

        Raises UsageError when it cannot be run, JobFailed when it fails or has not ended after `limit` seconds.
        """
        words = [_PLACE.sub(lambda place: str(files[place[1]]), word) for word in self.arguments]
        quiet = subprocess.DEVNULL
        begin = time.perf_counter()
        try:
            process = subprocess.Popen(words, stdout=quiet, stderr=quiet, start_new_session=True)
        except OSError as error:
            raise UsageError(f"{self.name}: cannot run {words[0]}: {error.strerror}") from None
        late = threading.Event()

        def give_up() -> None:
            late.set()
            _kill(process.pid)

        timer = threading.Timer(limit, give_up)
        timer.daemon = True
        timer.start()
        try:
            # A wait with a timeout polls, and finds the end up to 50 ms late. What has ended stays a zombie until the
            # timer is gone, so that no other process can have its number.
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            wall = time.perf_counter() - begin
        finally:
            timer.cancel()
            timer.join()
            _kill(process.pid)  # and what it left behind, or all of it after Ctrl-C
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if late.is_set():
            raise JobFailed(f"{self.name} took more than {limit:g} s")
        if process.returncode != 0:
            raise JobFailed(f"{self.name} ended with exit code {process.returncode}")
        return Taken(wall, used.ru_utime + used.ru_stime)


def _kill(leader: int) -> None:
    """Kill the processes of a session. macOS refuses to signal a group of which only a zombie is left."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


@dataclass(frozen=True)
class Comparison:
    """One circuit: what each proof took, by prover."""

    what: str
    samples: dict[str, tuple[Taken, ...]]

    def to_dict(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "seconds": {name: statistics.median(t.wall for t in taken) for name, taken in self.samples.items()},
            "cpu_seconds": {name: statistics.median(t.cpu for t in taken) for name, taken in self.samples.items()},
            "samples": {name: [t.wall for t in taken] for name, taken in self.samples.items()},
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
    resident, vk = load_key(key, backend), key.verification_key
    public = unpack(witness.values[1 : key.n_public + 1])
    ours: list[Taken] = []
    theirs: list[Taken] = []

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
            begin, used = time.perf_counter(), time.process_time()
            proof, _ = prove(resident, witness.values)
            ours.append(Taken(time.perf_counter() - begin, time.process_time() - used))
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
