"""A key that is closed while it is being opened: nothing of it stays."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from cluster.scheduler.events import Event
from cluster.scheduler.resident import Resident
from distprove.errors import ClusterError

STEPS = ["keep", "share", "verifiers"]


class Fleet:
    """Counts what keys hold of it. At the step `at` it waits until `go_on`, or fails there."""

    verifying_threads = 1

    def __init__(self, at: str = "", error: BaseException | None = None) -> None:
        self.at, self.error = at, error
        self.there, self.go_on = threading.Event(), threading.Event()
        self.held: Counter[str] = Counter()

    def _step(self, name: str) -> None:
        if name == self.at:
            if self.error is not None:
                raise self.error
            self.there.set()
            assert self.go_on.wait(60)

    def keep(self, system: object) -> Callable[[], None]:
        self._step("keep")
        self.held["lease"] += 1

        def give_back() -> None:
            self.held["lease"] -= 1

        return give_back

    def share(self, system: object) -> None:
        self._step("share")

    def verifiers(self, system: object) -> Any:
        self._step("verifiers")
        self.held["verifiers"] += 1
        return Verifiers(self)


class Verifiers:
    count = 1

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def close(self) -> None:
        self._fleet.held["verifiers"] -= 1


def resident(fleet: Fleet) -> Resident:
    posted: list[Event] = []
    return Resident("key", object(), fleet, posted.append, 0.1)  # type: ignore[arg-type]


def opened(key: Resident) -> BaseException | None:
    """What opening raises."""
    try:
        key.open()
    except BaseException as error:
        return error
    return None


def test_a_key_holds_its_lease_and_its_verifiers_until_it_is_closed() -> None:
    fleet = Fleet()
    key = resident(fleet)
    key.open()
    assert fleet.held == {"lease": 1, "verifiers": 1}
    key.close(0.0)
    assert not fleet.held.total()


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("ends", ["close", "stop"])
def test_a_key_that_is_closed_while_it_is_being_opened_holds_nothing(step: str, ends: str) -> None:
    fleet = Fleet(step)
    key = resident(fleet)
    errors: list[BaseException | None] = []
    opening = threading.Thread(target=lambda: errors.append(opened(key)), daemon=True)
    opening.start()
    assert fleet.there.wait(60)
    if ends == "close":
        key.close(0.0)
    else:
        key.stop(wait=True)
    fleet.go_on.set()
    opening.join(60)
    assert not opening.is_alive()
    assert [type(error) for error in errors] == [ClusterError]
    key.release()
    assert not +fleet.held
    assert fleet.held.total() == 0, "it is given back once"


def test_a_key_that_was_closed_before_it_is_opened_takes_nothing() -> None:
    fleet = Fleet()
    key = resident(fleet)
    key.close(0.0)
    assert isinstance(opened(key), ClusterError)
    assert not fleet.held.total()


@pytest.mark.parametrize("step", STEPS)
def test_a_key_that_cannot_be_opened_gives_its_lease_back_once(step: str) -> None:
    error = ClusterError("no room")
    fleet = Fleet(step, error)
    key = resident(fleet)
    assert opened(key) is error
    key.stop(wait=False)
    key.release()
    assert fleet.held.total() == 0
