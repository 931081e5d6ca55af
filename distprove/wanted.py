"""Work that is called off: what takes long asks now and then whether somebody still waits for it.

Whoever has something done says for a block, and for all that the block calls on its thread, how to find out whether it
is called off. Provers ask before each step of a proof (`distprove.system.TimedStep`), a guest before each segment, and
what interrupts a witness program asks beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from distprove.errors import CalledOff

_called_off: ContextVar[Callable[[], bool] | None] = ContextVar("called_off", default=None)


@contextmanager
def unless(called_off: Callable[[], bool]) -> Iterator[None]:
    """Inside the block `require_wanted` raises once `called_off` says so. It is called often, and from any thread."""
    token = _called_off.set(called_off)
    try:
        yield
    finally:
        _called_off.reset(token)


def called_off() -> Callable[[], bool]:
    """Tells, on whatever thread, whether what this thread does now is called off."""
    return _called_off.get() or (lambda: False)


def require_wanted() -> None:
    """Raise CalledOff where nobody waits any more for what this thread does."""
    if called_off()():
        raise CalledOff
