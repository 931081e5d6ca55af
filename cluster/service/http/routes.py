"""What a route says of itself. The application, the checks of requests and the OpenAPI document follow from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from inspect import getdoc
from typing import TYPE_CHECKING, Any, TypeVar

from actors import patience
from distprove.errors import UsageError

if TYPE_CHECKING:
    from aiohttp import web

    from cluster.service.http.calls import Call

Handler = Callable[["Call"], Awaitable["web.StreamResponse"]]
Handled = TypeVar("Handled", bound=Handler)
JSON = "application/json"


@dataclass(frozen=True)
class Query:
    """A parameter in the query of a URL."""

    name: str
    kind: type
    """int, float, or an enumeration of texts."""
    about: str
    default: Any = None
    bounds: tuple[float, float] | None = None

    def read(self, text: str) -> Any:
        """The value that the text stands for. Raises UsageError."""
        try:
            value = self.kind(text)
        except ValueError:
            raise UsageError(f"`{self.name}` ({self.about}) does not take this value; {self._takes}") from None
        if self.bounds and not self.bounds[0] <= value <= self.bounds[1]:  # and so NaN
            raise UsageError(f"`{self.name}` must be from {self.bounds[0]} to {self.bounds[1]}")
        return value

    @property
    def _takes(self) -> str:
        if issubclass(self.kind, Enum):
            return f"it takes one of {', '.join(str(member.value) for member in self.kind)}"
        return "it takes an integer" if self.kind is int else "it takes a number"


@dataclass(frozen=True)
class Route:
    """A method and path, and who answers."""

    method: str
    path: str
    handler: Handler
    codes: Mapping[int, str]
    """Status codes of answers that are no error, and what each means."""
    answer: Any = None
    """Type of the answer: a dataclass; None for what is not JSON, or for any JSON."""
    media: str = JSON
    body: type | None = None
    """Type of the request's body, a dataclass."""
    query: tuple[Query, ...] = ()
    errors: tuple[int, ...] = ()
    """Status codes of errors, beside those that every route has."""
    open: bool = False
    """Whether it is answered without a token. Such a route tells nothing of jobs."""
    seconds: float = patience.HTTP_REQUEST
    """Time for the whole request, answer included; what it waits for itself comes on top."""
    streams: bool = False
    """Whether the answer has no end that is known: each part of it then has a time of its own."""

    @property
    def name(self) -> str:
        """The handler's name, and for a file its own."""
        name: str = self.handler.__name__  # type: ignore[attr-defined]
        file, dot, kind = self.path.strip("/").partition(".")
        return f"{name}_{file}_{kind}" if dot else name

    @property
    def about(self) -> str:
        """The handler's docstring."""
        return getdoc(self.handler) or ""

    def parameters(self, given: Mapping[str, str]) -> dict[str, Any]:
        """The query of a request by names, with defaults. Raises UsageError, also for names that are not known."""
        known = {query.name: query for query in self.query}
        for name in given:
            if name not in known:
                raise UsageError(f"no parameter {name[:100]!r} here; known: {', '.join(known) or 'none'}")
        return {n: query.read(given[n]) if n in given else query.default for n, query in known.items()}


@dataclass
class Table:
    """Routes in the order in which they are declared."""

    routes: list[Route] = field(default_factory=list)

    def route(self, method: str, path: str, codes: Mapping[int, str], **said: Any) -> Callable[[Handled], Handled]:
        """Declare that the function below answers; `said` are fields of `Route`."""

        def declare(handler: Handled) -> Handled:
            self.routes.append(Route(method, path, handler, codes, **said))
            return handler

        return declare
