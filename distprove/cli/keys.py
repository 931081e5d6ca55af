"""`distprove keys`: the keys of a standing service, loaded before a job needs them and put away after."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from distprove.cli.console import err, escape, format_seconds, out, print_json, reports_errors
from distprove.cli.jobs import Where, keys_table
from distprove.cli.option_groups import AsJson, OptionGroup, takes_groups
from distprove.cli.plain_help import App
from distprove.errors import ServiceGone, UsageError
from kernels.host.units import format_bytes

if TYPE_CHECKING:
    from cluster.service.views import KeyRequest

app = App(no_args_is_help=True, help="List the keys of the service, load one before a job needs it, or put one away.")


@dataclass(frozen=True)
class Named(OptionGroup):
    """Options that name a key, as a job of it does."""

    zkey: Annotated[Path | None, typer.Option(help="The proving key, on the service's machine.")] = None
    params: Annotated[Path | None, typer.Option(help="A proving key of bellperson's in place of a zkey.")] = None
    r1cs: Annotated[Path | None, typer.Option(help="The circuit that `--params` is for.")] = None
    wasm: Annotated[Path | None, typer.Option(help="The witness program of the key's jobs.")] = None
    circuit: Annotated[str | None, typer.Option(help="The circuit in Python that the key is of.")] = None
    system: Annotated[
        str | None,
        typer.Option(
            help="The proof system of its jobs; by default the first word of the circuit, or else that of circom."
        ),
    ] = None

    def request(self) -> KeyRequest:
        """The key that is named. Raises UsageError."""
        from cluster.service.views import KeyRequest
        from distprove.registry import DEFAULT, SYSTEMS

        named = {"zkey": self.zkey, "params": self.params, "r1cs": self.r1cs, "wasm": self.wasm}
        files = {name: str(path) for name, path in named.items() if path is not None}
        word = (self.circuit or "").partition("/")[0]
        system = self.system or (word if word in SYSTEMS else DEFAULT)
        if self.zkey is None and self.params is None:
            raise UsageError("name the key as a job of it does: with --zkey, or with --params and --circuit or --r1cs")
        return KeyRequest(system, files, self.circuit, os.path.abspath(Path.cwd()))


@app.callback()
def options() -> None:
    """List the keys of the service, load one before a job needs it, or put one away."""


@app.command("list")
@reports_errors
@takes_groups
def list_keys(*, where: Where, as_json: AsJson = False) -> None:
    """List the keys that workers have or load."""
    with where.client() as client:
        keys = client.keys()
    if as_json:
        print_json([asdict(key) for key in keys])
    elif keys:
        out().print(keys_table(keys))
    else:
        err().print("[dim]no key is loaded[/]")


@app.command("load")
@reports_errors
@takes_groups
def load(
    *,
    named: Named,
    timeout: Annotated[float | None, typer.Option(min=0.0, help="Seconds to wait, at most.")] = None,
    where: Where,
    as_json: AsJson = False,
) -> None:
    """Load a key before a job needs it, beside the proofs of others, and wait until it is loaded.

    It stays until its memory is needed for the key of a job. When the time is up the service goes on loading it, and
    the exit code is 3.
    """
    with where.client() as client:
        told = client.load_key(named.request(), timeout)
    if as_json:
        print_json(asdict(told))
    elif told.loaded:
        took = "it was loaded already" if told.already else f"loaded in {format_seconds(told.seconds)}"
        out().print(f"{escape(told.id[:16])}  {format_bytes(told.bytes)}, {took}")
    if not told.loaded:
        raise ServiceGone(f"the key is still being loaded after {timeout:g} s; the service goes on with it")


@app.command("evict")
@reports_errors
@takes_groups
def evict(*, named: Named, where: Where, as_json: AsJson = False) -> None:
    """Give back the memory of a key. One that a job uses, or that is being loaded, is refused."""
    with where.client() as client:
        told = client.evict_key(named.request())
    if as_json:
        print_json(asdict(told))
    else:
        out().print(
            f"{escape(told.id[:16])}  {f'{format_bytes(told.bytes)} freed' if told.was_loaded else 'not loaded'}"
        )
