"""The gRPC server of `ProvingEngine`, as curio dials it: without TLS, on a socket of this machine.

Clients need no token, as in cuzk. So the server listens on loopback or on a Unix socket alone.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from cluster.service.cuzk.engine import Engine
from cluster.service.cuzk.messages import MESSAGES, METHODS, SERVICE
from distprove.errors import (
    AccessDenied,
    DistproveError,
    IdTaken,
    InputError,
    InUse,
    InvalidProof,
    NoSuchJob,
    QueueFull,
    ResourceError,
    ServiceGone,
    UsageError,
)
from distprove.host.log import logger

log = logger("distprove.cuzk")
THREADS = 256
"""Calls at a time: each one that waits for a proof holds a thread."""
MAX_MESSAGE = 256 << 20
"""Bytes of a message, as curio's client has it."""
_CODES: tuple[tuple[type[DistproveError], grpc.StatusCode], ...] = (
    (NoSuchJob, grpc.StatusCode.NOT_FOUND),
    (IdTaken, grpc.StatusCode.ALREADY_EXISTS),
    (QueueFull, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (ServiceGone, grpc.StatusCode.UNAVAILABLE),
    (AccessDenied, grpc.StatusCode.PERMISSION_DENIED),
    (InvalidProof, grpc.StatusCode.FAILED_PRECONDITION),
    (InUse, grpc.StatusCode.FAILED_PRECONDITION),
    (ResourceError, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (InputError, grpc.StatusCode.INVALID_ARGUMENT),
    (UsageError, grpc.StatusCode.INVALID_ARGUMENT),
)
"""The status of each error; the first that fits counts."""


class CuzkServer:
    """Serves an engine at an address: HOST:PORT on loopback, or unix:PATH. `stop` ends it."""

    def __init__(self, engine: Engine, address: str) -> None:
        """Raises UsageError for an address that others could reach, or that is taken."""
        require_local(address)
        options = [("grpc.max_receive_message_length", MAX_MESSAGE), ("grpc.max_send_message_length", MAX_MESSAGE)]
        self._engine = engine
        self._server = grpc.server(
            ThreadPoolExecutor(THREADS, "distprove-cuzk"),
            options=[*options, ("grpc.so_reuseport", 0)],
            maximum_concurrent_rpcs=THREADS,  # the next ones are refused, and hold no memory
        )
        methods: dict[str, Callable[[Any, Any], Any]] = {
            "SubmitProof": lambda request, context: engine.submit(request),
            "AwaitProof": lambda request, context: engine.wait(request, context.is_active),
            "Prove": lambda request, context: engine.prove(request, context.is_active),
            "CancelProof": lambda request, context: engine.cancel(request),
            "GetStatus": lambda request, context: engine.status(request),
            "GetMetrics": lambda request, context: engine.metrics(request),
            "PreloadSRS": lambda request, context: engine.preload(request, context.is_active),
            "EvictSRS": lambda request, context: engine.evict(request),
        }
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(
                _answering(methods[name]),
                request_deserializer=MESSAGES[asked].FromString,
                response_serializer=MESSAGES[answered].SerializeToString,
            )
            for name, (asked, answered) in METHODS.items()
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        try:
            self.port = self._server.add_insecure_port(address)
        except RuntimeError:
            raise UsageError(f"cannot listen on {address}: it is taken, or no address") from None
        """The port; 1 for a Unix socket."""

    def start(self) -> None:
        """Begin to answer."""
        self._server.start()

    def stop(self) -> None:
        """Answer no more; calls that wait are ended."""
        self._engine.stopping.set()
        self._server.stop(grace=None).wait()


def require_local(address: str) -> None:
    """Raise UsageError unless an address is loopback's or a Unix socket's."""
    if address.startswith("unix:"):
        return
    host = address.rpartition(":")[0].strip("[]")
    try:
        local = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = False
    if not local:
        raise UsageError(
            f"{address}: cuzk's interface asks for no token, so it is for this machine: 127.0.0.1:PORT or unix:PATH"
        )


def _answering(method: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The method with its errors as gRPC's."""

    def answer(request: Any, context: Any) -> Any:
        try:
            return method(request, context)
        except DistproveError as error:
            code = next((code for kind, code in _CODES if isinstance(error, kind)), grpc.StatusCode.INTERNAL)
            context.abort(code, str(error))
        except Exception as error:
            log.exception("a call failed")
            context.abort(grpc.StatusCode.INTERNAL, type(error).__name__)

    return answer
