"""`distprove cuzk`: cuzk's gRPC interface in front of the service, for curio nodes."""

from __future__ import annotations

import signal
import threading
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from distprove.cli.console import err, escape, reports_errors
from distprove.errors import UsageError

LOCK = "cuzk.lock"
"""The file in the spool that whoever serves from it locks."""


@reports_errors
def cuzk(
    keys: Annotated[
        Path,
        typer.Option(help="The folder of proving keys: porep-32GiB.params, or .zkey, and so on by circuit and size."),
    ],
    listen: Annotated[
        str, typer.Option(metavar="ADDRESS", help="127.0.0.1:PORT or unix:PATH; others cannot reach it.")
    ] = "127.0.0.1:9820",
    spool: Annotated[
        Path | None,
        typer.Option(
            help="The folder for vanilla proofs of jobs under way, yours alone; by default beside the service's."
        ),
    ] = None,
    service: Annotated[
        str | None, typer.Option(help="URL or folder of the service; by default this user's own.")
    ] = None,
) -> None:
    """Answer curio nodes by gRPC as cuzk's daemon does, and have the service prove what they ask for.

    Runs until it is interrupted. The service is to be on this machine, and reads the spool.
    """
    try:
        from cluster.service.cuzk.server import CuzkServer
    except ImportError as error:
        if error.name not in ("grpc", "google"):
            raise
        raise UsageError("this needs grpcio and protobuf: pip install 'distprove[cuzk]'") from None
    from cluster.driver import handling
    from cluster.record.run import take_lock
    from cluster.service.client import connect
    from cluster.service.contact import default_folder, make_folder
    from cluster.service.cuzk.engine import Engine
    from distprove.formats.folder import Folder

    if not keys.is_dir():
        raise UsageError(f"{keys} is no folder of proving keys")
    folder = (spool or default_folder().with_name("cuzk")).absolute()
    make_folder(folder)
    with Folder.open_ours(folder) as opened, take_lock(opened, LOCK), connect(service) as client:
        client.overview()  # that it answers is told now
        engine = Engine(partial(connect, service), keys.absolute(), folder)
        server = CuzkServer(engine, listen)
        server.start()
        err().print(f"cuzk's interface at {escape(listen)}, keys of {escape(str(keys))}")
        over = threading.Event()
        with handling((signal.SIGINT, signal.SIGTERM), over.set):
            engine.sweep_until(over)
        server.stop()
