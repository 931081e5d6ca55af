"""`distprove bench {msm,ntt,groth16,stark,versus,filecoin,openvm-profile,scaling,service}`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from distprove.cli import programs
from distprove.cli.backends import Measure
from distprove.cli.console import format_seconds, reports_errors, tell
from distprove.cli.filecoin import filecoin
from distprove.cli.measured import document, show
from distprove.cli.openvm_profile import openvm_profile
from distprove.cli.option_groups import AsJson, takes_groups
from distprove.cli.plain_help import App
from distprove.cli.scaling import scaling
from distprove.cli.service_rate import service
from distprove.errors import UsageError
from kernels.host.units import count_of
from kernels.maths.curves import CURVES, Curve, Group, curve_by_name

app = App(
    no_args_is_help=True,
    help="Measure this machine: medians, beside the ceiling of the hardware.",
)

Sizes = Annotated[str, typer.Option(metavar="LOGS", help="log2 of the sizes: 16,18,20 or 10-22.")]
CurveName = Annotated[str, typer.Option("--curve", help="bn254, bls12-381 or all.")]


@app.callback()
def options() -> None:
    """Measure this machine: medians, beside the ceiling of the hardware."""


@app.command("msm")
@reports_errors
@takes_groups
def msm(
    sizes: Sizes = "16,18,20",
    curve: CurveName = "all",
    group: Annotated[str, typer.Option(help="g1, g2 or all.")] = "all",
    scalars: Annotated[str, typer.Option(help="uniform, witness, 'uniform, from host', or all.")] = "all",
    *,
    measure: Measure,
    as_json: AsJson = False,
) -> None:
    """Multi-scalar multiplication over fixed points. 'witness' scalars are 0 or 1 for nine in ten, as in circuits."""
    from distprove.measure import msm as msm_bench

    variants = [v for v in msm_bench.VARIANTS if scalars in (v, "all")]
    groups = [g for g in Group if group in (g.value, "all")]
    if not variants or not groups:
        raise UsageError(f"--scalars is one of {', '.join(msm_bench.VARIANTS)}, all; --group of g1, g2, all")
    with measure.opened(device=measure.device) as chosen:
        if chosen.info().kind == "cpu" and scalars == "all":
            variants.remove(msm_bench.FROM_HOST)  # the same thing twice
        rows = msm_bench.bench_msm(chosen, _curves(curve), groups, parse_sizes(sizes), measure.repeats, tell, variants)
        result = document("msm", msm_bench, chosen.info(), rows)
    show(result, as_json)


@app.command("ntt")
@reports_errors
@takes_groups
def ntt(
    sizes: Sizes = "16,18,20",
    curve: CurveName = "all",
    *,
    measure: Measure,
    as_json: AsJson = False,
) -> None:
    """Number-theoretic transforms over the scalar fields, in place."""
    from distprove.measure import ntt as ntt_bench

    with measure.opened(device=measure.device) as chosen:
        rows = ntt_bench.bench_ntt(chosen, _curves(curve), parse_sizes(sizes), measure.repeats, tell)
        result = document("ntt", ntt_bench, chosen.info(), rows)
    show(result, as_json)


@app.command("groth16")
@reports_errors
@takes_groups
def groth16(
    sizes: Sizes = "16,18",
    zkey: Annotated[
        Path | None, typer.Option(help="A real circuit's key, with --wtns, in place of synthetic ones.")
    ] = None,
    wtns: Annotated[Path | None, typer.Option(help="A witness for --zkey.")] = None,
    curve: CurveName = "bn254",
    ones: Annotated[float, typer.Option(min=0, max=1, help="Share of 0/1 wires in synthetic circuits.")] = 0.5,
    stream: Annotated[
        int, typer.Option(min=0, max=1000, help="Also time a stream of this many proofs, with 1 and with 2 in flight.")
    ] = 0,
    *,
    measure: Measure,
    as_json: AsJson = False,
) -> None:
    """Whole proofs: witness on the host to proof on the host, key loaded; a synthetic circuit, or yours."""
    from distprove.measure import groth16 as groth16_bench

    if (zkey is None) != (wtns is None):
        raise UsageError("--zkey and --wtns go together")
    with measure.opened(device=measure.device) as chosen:
        if zkey is not None and wtns is not None:
            rows = groth16_bench.bench_files(chosen, zkey, wtns, measure.repeats, tell, stream)
        else:
            chosen_sizes = parse_sizes(sizes)
            rows = groth16_bench.bench_synthetic(
                chosen, _curves(curve), chosen_sizes, ones, measure.repeats, tell, stream
            )
        result = document("groth16", groth16_bench, chosen.info(), rows)
    steps = (", ".join(f"{name} {format_seconds(s)}" for name, s in row.steps.items()) for row in rows)
    show(result, as_json, *(f"2^{row.log_n} {row.variant}: {text}" for row, text in zip(rows, steps, strict=True)))


@takes_groups
def stark(
    program: str,
    arguments: Mapping[str, int | str],
    *,
    soundness: programs.Soundness,
    measure: Measure,
    as_json: AsJson = False,
) -> None:
    """Whole proofs of a program's single partition, stage by stage."""
    from distprove.measure import stark as stark_bench
    from distprove.stark.example import counted
    from distprove.stark.programs import load_program

    loaded = load_program(program, arguments, soundness.prefer)
    params = soundness.choose(loaded, *counted(loaded, 1)[:2])
    with measure.opened(device=measure.device) as chosen:
        rows = stark_bench.bench_program(chosen, loaded, params, measure.repeats, tell)
        result = document("stark", stark_bench, chosen.info(), rows)
    show(result, as_json)


app.add_typer(
    programs.program_app(stark, "Whole STARK proofs of a program, stage by stage; `PROGRAM --help` tells its options."),
    name="stark",
)


@app.command("versus")
@reports_errors
@takes_groups
def versus(
    command: Annotated[
        str, typer.Argument(metavar="COMMAND", help="Another prover's, with {zkey} {wtns} {proof} {public} in it.")
    ],
    zkey: Annotated[list[Path], typer.Option(help="A circuit's key; once for each circuit.")],
    wtns: Annotated[list[Path], typer.Option(help="A witness for the --zkey in the same place.")],
    name: Annotated[str, typer.Option(help="What the other prover is called in the results.")] = "peer",
    *,
    measure: Measure,
    as_json: AsJson = False,
) -> None:
    """Groth16 beside another prover: both prove the same witnesses in turn, and every proof is checked.

    Give both the same number of threads: --threads is ours, the other's is its own affair (taskset, for one).
    """
    from distprove.measure import versus as versus_bench

    if len(zkey) != len(wtns):
        raise UsageError(
            f"{count_of(len(zkey), 'key')} and {count_of(len(wtns), 'witness', 'witnesses')}: each --zkey goes "
            f"with one --wtns"
        )
    peer = versus_bench.PeerCommand.parse(name, command)
    with measure.opened(device=measure.device) as chosen:
        rows = versus_bench.bench_versus(chosen, peer, zip(zkey, wtns, strict=True), measure.repeats, tell)
        result = document("peers", versus_bench, chosen.info(), rows)
    result["contenders"] = [versus_bench.OURS, peer.name]
    show(result, as_json)


app.command("filecoin")(filecoin)
app.command("openvm-profile")(openvm_profile)
app.command("scaling")(scaling)
app.command("service")(service)


def parse_sizes(text: str) -> list[int]:
    """[16, 18] from "16,18"; [10, 11, 12] from "10-12". Raises UsageError."""
    sizes: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise UsageError(f"{text!r} is not a list of sizes; write log2 values such as 16,18,20 or 10-22")
        sizes += range(int(first), int(last if dash else first) + 1)
    if not sizes or max(sizes) > 28:
        raise UsageError("sizes are given as log2, 0 to 28")
    return sizes


def _curves(name: str) -> list[Curve]:
    if name == "all":
        return list(CURVES)
    try:
        return [curve_by_name(name)]
    except KeyError as error:
        raise UsageError(str(error.args[0])) from None
