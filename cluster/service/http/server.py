"""The HTTP server: an event loop on its own thread, which checks each request before the service sees it.

Order of the checks: the number of connections, the host, the route, the token, the rate, the parameters, the body. A
request with a token counts for the rate of that token, any other for the rate of its peer: without a token, nobody can
use up the rate of others.

aiohttp bounds no connections, and answers a malformed head and an `Expect` itself, in text that quotes the request.
Hence `_Bounded`, `_Connection` and `_refusing` (`tests/cluster/service/test_http.py` holds what they add).
"""

from __future__ import annotations

import asyncio
import errno
import math
import socket
import ssl
import threading
import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from aiohttp import web

from actors import patience
from cluster.service.http.access import Rates, Tokens, is_local_name, is_loopback, peer_of, require_protected
from cluster.service.http.api import TABLE, require_id
from cluster.service.http.calls import BEGUN, SAFE, Call, Refused, Shared, problem
from cluster.service.http.events import Notifier
from cluster.service.http.routes import JSON, Route
from distprove.errors import AccessDenied, ResourceError, UsageError, forget_frames
from distprove.formats import jsontext
from distprove.formats.plain_data import read
from distprove.host.log import logger

if TYPE_CHECKING:
    from cluster.service.service import Service

log = logger("distprove.service.http")
_unheard = logger("distprove.service.http.aiohttp")
_unheard.disabled = True  # it quotes heads that it cannot read, and a token may stand there

CONNECTIONS = 512
BACKLOG = 256
LINE, HEADERS = 8190, 64
"""Most bytes in a line of a request's head, and most lines."""
SMALL, LARGE_AT_ONCE = 1 << 16, 4
"""Bytes from which a body is large, and number of large ones read at a time for each token: they take memory."""
BODY_DEPTH = 32
POLLER = "the watch"
"""Reserved client name of the internal poller."""
FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nConnection: close\r\nContent-Type: application/json\r\n"
    b'Content-Length: 80\r\n\r\n{"error": "too many connections at a time", "kind": "QueueFull", "exit_code": 3}'
)


@dataclass(frozen=True)
class Options:
    """How a service is reached."""

    tokens: Path
    """The file of tokens."""
    host: str = "127.0.0.1"
    port: int = 0
    """0 for one that is free."""
    any_port: bool = False
    """Whether any free port will do where this one is taken."""
    tls_cert: Path | None = None
    tls_key: Path | None = None
    plain_http: bool = False
    """Whether the server may listen on a network without TLS."""
    rate: float = 200.0
    """Requests a second for each token, on average; four times as many at once."""
    peer_rate: float = 20.0
    """Requests a second of each peer that lack a token which they need."""
    max_body: int = 1 << 24
    """Most bytes in the body of a request."""


class Server:
    """Serves a service until it is closed."""

    def __init__(self, service: Service, options: Options, shut_down: Callable[[bool], None]) -> None:
        """`shut_down` is called, on any thread, when a client ends the service; its argument says whether jobs finish
        first. Raises UsageError and InputError."""
        if (options.tls_cert is None) != (options.tls_key is None):
            raise UsageError("--tls-cert and --tls-key go together")
        require_protected(options.host, tls=options.tls_cert is not None, plain_allowed=options.plain_http)
        self._service, self._options, self._shut_down = service, options, shut_down
        self._tokens = Tokens(options.tokens)
        self._rates = Rates(options.rate, 4 * options.rate)
        self._peers = Rates(options.peer_rate, 4 * options.peer_rate)
        self._ssl = _tls(options)
        # Nothing can be sent before a TLS handshake.
        self._socket = _Bounded(_listen(options.host, options.port, options.any_port), b"" if self._ssl else FULL)
        self._thread = threading.Thread(target=self._run, name="distprove-http", daemon=True)
        self._ready = threading.Event()
        self._failed: BaseException | None = None

    @property
    def url(self) -> str:
        """The URL of the server."""
        host, port = self._socket.getsockname()[:2]
        shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
        return f"{'https' if self._ssl else 'http'}://{f'[{shown}]' if ':' in shown else shown}:{port}"

    def start(self) -> None:
        """Start to serve."""
        self._thread.start()
        self._ready.wait()
        if self._failed is not None:
            raise self._failed

    def close(self) -> None:
        """Stop to serve, and close the socket."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._over.set)
            self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._failed = error
            log.error("the server ended: %s", type(error).__name__)
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        self._large: dict[str, asyncio.Semaphore] = {}
        notifier = Notifier(self._service, lambda look: shared.ask(POLLER, look))
        shared = Shared(self._service, notifier, self._shut_down, self._service.metrics)
        # The middleware answers unknown paths too, after the same checks.
        app = web.Application(client_max_size=self._options.max_body, middlewares=[self._answers])
        for route in TABLE.routes:
            for method in (route.method, *(("HEAD",) if route.method == "GET" else ())):
                app.router.add_route(method, route.path, partial(self._handle, shared, route))
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=patience.HTTP_SHUTDOWN)
        await runner.setup()
        manager = runner.server
        assert manager is not None
        manager.request_handler = partial(_refusing, manager.request_handler)

        def connection() -> asyncio.Protocol:
            return _Connection(
                manager,
                loop=self._loop,
                access_log=_unheard,
                keepalive_timeout=patience.HTTP_IDLE,
                lingering_time=patience.HTTP_LINGERS,
                auto_decompress=False,
                max_line_size=LINE,
                max_field_size=LINE,
                max_headers=HEADERS,
                logger=_unheard,
            )

        limit = patience.HTTP_HANDSHAKE if self._ssl else None
        listening = await self._loop.create_server(
            connection, sock=self._socket, ssl=self._ssl, ssl_handshake_timeout=limit, backlog=BACKLOG
        )
        self._service.listeners.append(notifier.changed)
        self._ready.set()
        try:
            await self._over.wait()
        finally:
            self._service.listeners.remove(notifier.changed)
            listening.close()
            await runner.cleanup()
            shared.close()

    @web.middleware
    async def _answers(self, request: web.Request, handler: Any) -> web.StreamResponse:
        """Send every answer, errors included, with the common headers."""
        try:
            self._check_host(request)
            response: web.StreamResponse = await handler(request)
        except web.HTTPException as error:  # of aiohttp: no such path, no such method, a body that is too large
            response = _refusal(error)
            forget_frames(error)
        except (ConnectionError, asyncio.CancelledError) as error:
            forget_frames(error)  # the request's body keeps the error, and its frames hold what was read of the body
            raise
        except Exception as error:
            if BEGUN in request:  # a client would take anything more for the rest of the answer
                forget_frames(error)
                raise ConnectionResetError("the answer was cut off") from error
            told: Exception = error
            if isinstance(error, asyncio.TimeoutError):
                told = Refused(408, "the request came, or its answer was taken in, too slowly", Connection="close")
            response = problem(told)
            if response.status == 500:
                self._log_fault(request, told)
            forget_frames(error)  # futures and the request are in reference cycles with it
        if response.prepared:
            return response
        response.headers.update({k: v for k, v in SAFE.items() if k not in response.headers})
        await asyncio.wait_for(_send(request, response), patience.HTTP_IDLE * 2)
        return response

    def _check_host(self, request: web.Request) -> None:
        if is_loopback(self._options.host) and not is_local_name(request.headers.get("Host")):
            raise Refused(421, "this service is asked for by the names of this machine alone: localhost, 127.0.0.1")

    async def _handle(self, shared: Shared, route: Route, request: web.Request) -> web.StreamResponse:
        authorization = request.headers.get("Authorization")
        who = ""
        if not route.open:
            try:
                who = self._tokens.name_of(authorization)
            except AccessDenied:
                self._peers.take(peer_of(request.remote))
                raise
            self._rates.take(who)
        if route.streams:
            return await self._call(shared, route, request, who)
        return await asyncio.wait_for(self._call(shared, route, request, who), route.seconds)

    async def _call(self, shared: Shared, route: Route, request: web.Request, who: str) -> web.StreamResponse:
        if "id" in request.match_info:
            require_id(request.match_info["id"])
        query = route.parameters(dict(request.query))
        body = None if route.body is None else await self._body(shared, route.body, request, who)
        access = partial(self._tokens.name_of, request.headers.get("Authorization"))
        return await route.handler(Call(shared, request, query, body, who, access, partial(self._rates.charge, who)))

    async def _body(self, shared: Shared, kind: type, request: web.Request, who: str) -> Any:
        # JSON alone: a form of another page may send other types unasked. No encoding: it would grow.
        if request.content_type != JSON or request.headers.get("Content-Encoding", "identity") != "identity":
            raise Refused(
                415, "send the body as JSON, with the header Content-Type: application/json and no Content-Encoding"
            )
        if request.content_length is not None and request.content_length <= SMALL:
            return await shared.ask(who, _parse, kind, await request.read())
        # One limit for each token: a slow sender holds up nobody else.
        async with self._large.setdefault(who, asyncio.Semaphore(LARGE_AT_ONCE)):
            return await shared.ask(who, _parse, kind, await request.read())

    @staticmethod
    def _log_fault(request: web.Request, error: Exception) -> None:
        """Log the place of a fault, and not its message, which may quote an input."""
        frames = traceback.extract_tb(error.__traceback__)[-3:]
        where = ", ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames)
        log.error("fault in %s %s: %s at %s", request.method, route_of(request), type(error).__name__, where)


async def _refusing(
    handle: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]], request: web.BaseRequest
) -> web.StreamResponse:
    """Handle a request. aiohttp refuses an unknown `Expect` before the middleware sees it, in text that quotes it and
    names its own version."""
    try:
        return await handle(request)
    except web.HTTPException as error:
        response = _refusal(error)
        response.headers.update(SAFE)
        return response


def _refusal(error: web.HTTPException) -> web.Response:
    """The answer to a request that aiohttp refuses."""
    said = {404: "no such path", 405: "no such method here", 413: "the body is too large"}
    allowed = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
    return problem(Refused(error.status, said.get(error.status, error.reason), **allowed))


def route_of(request: web.Request) -> str:
    """The path of a request as its route has it, without the parts that the client chose."""
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else "unknown"


async def _send(request: web.Request, response: web.StreamResponse) -> None:
    await response.prepare(request)
    await response.write_eof()


def _parse(kind: type, data: bytes) -> Any:
    try:
        value = jsontext.loads(data, "the body", BODY_DEPTH, parse_float=_number, parse_constant=_number)
    except (ValueError, RecursionError):
        raise UsageError("the body is not JSON, or has a number that is none or would be rounded") from None
    return read(kind, value, "the body")


def _number(text: str) -> int | float:
    value = jsontext.number(text)
    if not math.isfinite(value):
        raise ValueError("not a number")
    return value


class _Bounded(socket.socket):
    """A listening socket that accepts `CONNECTIONS` at a time. Those in their TLS handshake count too, as anybody can
    open them."""

    def __init__(self, listening: socket.socket, refusal: bytes) -> None:
        super().__init__(listening.family, listening.type, listening.proto, listening.detach())
        self._accepted = WeakSet[socket.socket]()
        self._refusal = refusal

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection. Raises ConnectionAbortedError, as the system does for one that is gone, beyond the
        limit."""
        taken, peer = super().accept()
        if sum(each.fileno() >= 0 for each in self._accepted) >= CONNECTIONS:
            with taken, suppress(OSError):
                taken.setblocking(False)
                taken.send(self._refusal)
            raise ConnectionAbortedError
        self._accepted.add(taken)
        return taken, peer


class _Connection(web.RequestHandler):
    """A connection whose errors have the form of all others."""

    __slots__ = ()

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Answer a malformed request, without a quote of it."""
        if request.writer.output_size > 0:
            raise ConnectionError("an answer was begun")
        response = problem(Refused(status, "not a request of HTTP, or one with too large a head"))
        response.headers.update(SAFE)
        response.force_close()
        return response


def _listen(host: str, port: int, any_port: bool) -> socket.socket:
    """A socket that listens on the first address of the host that this machine has."""
    try:
        known = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise UsageError(f"{host}: {error.strerror}") from None
    for family, kind, protocol, _, address in known:
        listening: socket.socket | None = None
        try:
            listening = socket.socket(family, kind, protocol)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(BACKLOG)  # now: of two sockets bound to one port, the second one fails here
            return listening
        except OSError as error:
            if listening is not None:
                listening.close()
            if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                continue
            if any_port and error.errno == errno.EADDRINUSE:
                return _listen(host, 0, False)
            said = f"cannot listen on {host} port {port}: {error.strerror}; --port chooses another"
            raise ResourceError(said) from None
    raise UsageError(
        f"{host} is no address of this machine; --host names another, such as ::1 where there is only IPv6"
    )


def _tls(options: Options) -> ssl.SSLContext | None:
    if options.tls_cert is None or options.tls_key is None:
        return None
    try:
        if options.tls_key.stat().st_mode & 0o077:
            raise UsageError(f"{options.tls_key} can be read by others: chmod 600")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(options.tls_cert, options.tls_key, password=_no_password)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"{options.tls_cert}, {options.tls_key}: {error.strerror or 'no certificate and key'}"
        ) from None
    return context


def _no_password() -> str:
    raise UsageError("the key of --tls-key is encrypted; give one that is not")
