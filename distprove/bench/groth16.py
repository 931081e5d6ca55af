"""`distprove bench groth16`: whole proofs, from a witness on the host to a proof on the host, with the key loaded."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from distprove.bench.measure import measure
from distprove.bench.results import Row
from distprove.circuits.synthetic import synthetic_circuit
from distprove.errors import JobFailed
from distprove.groth16.keys import VerificationKey
from distprove.groth16.prover import prove
from distprove.groth16.resident import load_key
from distprove.groth16.setup import setup
from distprove.groth16.verifier import verify
from distprove.groth16.wtns import read_wtns
from distprove.groth16.zkey import read_zkey
from distprove.system import PhaseTimes
from kernels.backend import Backend, HostArray
from kernels.curves import Curve
from kernels.encoding import unpack

TIMED = "witness in host memory to proof in host memory, key and matrices resident; wall time"
CHECKED = "every timed proof is verified by the pairing, after the timing"

PUBLIC_INPUTS = 2
"""Of a synthetic circuit. Public wires and the constant take rows of the domain too, which is then exactly full."""


def bench_synthetic(
    backend: Backend,
    curves: Iterable[Curve],
    sizes: Iterable[int],
    ones: float,
    repeats: int,
    progress: Callable[[str], None],
) -> list[Row]:
    """Rows for synthetic circuits whose domain has 2^size rows, all of them used. `ones`: share of 0/1 wires."""
    sizes = list(sizes)
    rows = []
    with tempfile.TemporaryDirectory(prefix="distprove-bench-") as folder:
        for curve in curves:
            for log_n in sizes:
                progress(f"Groth16 {curve.title} 2^{log_n}: circuit and development key")
                constraints = (1 << log_n) - PUBLIC_INPUTS - 1
                circuit = synthetic_circuit(
                    curve, constraints, backend, boolean_share=ones, public_inputs=PUBLIC_INPUTS
                )
                path = Path(folder) / f"{curve.name}-{log_n}.zkey"
                begin = time.perf_counter()
                setup(circuit.r1cs, insecure_dev=True, backend=backend, out=path)
                made = time.perf_counter() - begin
                progress(f"Groth16 {curve.title} 2^{log_n}: proofs")
                row = _row(backend, path, circuit.witness, f"synthetic, {ones:.0%} 0/1 wires", repeats)
                row.facts.update(constraints=constraints, setup_seconds=made)
                rows.append(row)
                path.unlink()
    return rows


def bench_files(backend: Backend, zkey: Path, wtns: Path, repeats: int, progress: Callable[[str], None]) -> Row:
    """The row for a real circuit's key and one of its witnesses. Raises InputError subclasses for the files."""
    progress(f"Groth16 {zkey}")
    return _row(backend, zkey, read_wtns(wtns).values, zkey.parent.name or zkey.stem, repeats)


def _row(backend: Backend, path: Path, witness: HostArray, variant: str, repeats: int) -> Row:
    zkey = read_zkey(path)
    begin = time.perf_counter()
    key = load_key(zkey, backend)
    loaded = time.perf_counter() - begin
    vk = VerificationKey.from_zkey(zkey)
    public = unpack(witness[1 : zkey.n_public + 1])
    proofs = []
    times: list[PhaseTimes] = []

    def run(_: int) -> None:
        proof, spent = prove(key, witness)
        proofs.append(proof)
        times.append(spent)

    timing = measure(run, backend, repeats=repeats)
    if not all(verify(vk, public, proof) for proof in proofs):
        raise JobFailed(f"a proof of {variant} does not verify")
    last = times[-repeats:]
    return Row(
        what="groth16",
        curve=zkey.curve.title,
        log_n=zkey.domain_size.bit_length() - 1,
        variant=variant,
        timing=timing,
        bytes_moved=path.stat().st_size + witness.nbytes,
        to_device=last[-1].to_device,
        to_host=last[-1].to_host,
        phases={name: statistics.median(t.seconds[name] for t in last) for name in last[-1].seconds},
        facts={"wires": zkey.n_vars, "load_seconds": loaded},
    )
