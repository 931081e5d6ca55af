"""distprove: a Ray-distributed multi-GPU partition prover.

`distprove.prove`, `distprove.verify` and the other public names live in `distprove.api` and `distprove.job`. They are
imported on first use, so that the layers below the API (and the command line's --help) do not load it.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` imports more, in which an interrupt would be told
import os
import sys

if os.path.basename("".join(sys.argv[:1])) in ("distprove", "-m"):
    # The command line: what is imported before its `main` can only end, and without a traceback.
    for _number in (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP):
        if _signal.getsignal(_number) != _signal.SIG_IGN:
            _signal.signal(_number, lambda *_: os._exit(130))

from importlib import import_module
from typing import TYPE_CHECKING, Any

import kernels  # notes when this process began to load the code

if TYPE_CHECKING:
    from cluster.service.client import Client as Client
    from cluster.service.client import connect as connect
    from distprove import aio as aio
    from distprove.api import ProveResult as ProveResult
    from distprove.api import Verified as Verified
    from distprove.api import aggregate as aggregate
    from distprove.api import prove as prove
    from distprove.api import resume as resume
    from distprove.api import verify as verify
    from distprove.api import verify_aggregate as verify_aggregate
    from distprove.api import verify_contract as verify_contract
    from distprove.job import Job as Job
    from distprove.settings import ExecutorSettings as ExecutorSettings

    __version__: str

if not hasattr(kernels, "BEGAN"):
    _text = (
        f"`import kernels` finds {getattr(kernels, '__file__', None)!a}, which is not distprove's: "
        "rename it, or keep its folder off Python's search path"
    )
    if os.path.basename("".join(sys.argv[:1])) in ("distprove", "-m"):
        os.write(2, f"error: {_text}\n".encode())
        raise SystemExit(3)
    raise ImportError(_text, name="kernels")

_HOMES = {
    **dict.fromkeys(("Client", "connect"), "cluster.service.client"),
    **dict.fromkeys(
        (
            *("ProveResult", "Verified", "aggregate", "prove", "resume"),
            *("verify", "verify_aggregate", "verify_contract"),
        ),
        "distprove.api",
    ),
    "ExecutorSettings": "distprove.settings",
    "Job": "distprove.job",
}

__all__ = [
    "Client",
    "ExecutorSettings",
    "Job",
    "ProveResult",
    "Verified",
    "aggregate",
    "aio",
    "connect",
    "prove",
    "resume",
    "verify",
    "verify_aggregate",
    "verify_contract",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from distprove.host.provenance import version

        return version()
    if name == "aio":
        return import_module("distprove.aio")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
