"""What a backend that computes on devices says of itself, before it is loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class BackendEntry:
    """A backend that gets a prover on each of its devices; over Ray on each GPU that Ray knows of."""

    title: str
    factory: str
    """The function that makes the backend, as "module:factory"."""
    devices: Callable[[], int]
    """Counts the devices that can be used here."""
    likely: Callable[[], int] = lambda: 0
    """Guesses the number of devices at once, where counting takes a while. It may be wrong."""
    early: str = ""
    """The function, as "module:function", that begins to open the device of that number. It imports next to nothing."""
    ahead: Callable[[int], None] = lambda device: None
    """Opens a device, so that a backend is there sooner: what takes long in a process and is the same for all keys."""
    identify: Callable[[int], str] = lambda device: ""
    """The name of the device of that number which no other has and which stays, its UUID; "" where it has none."""
    pinned: int = 0
    """Bytes of page-locked host memory that one prover takes."""
