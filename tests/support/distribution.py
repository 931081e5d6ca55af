"""How tests are spread over processes: the tests of a file share fixtures and stay in one process, and so do all tests
that need the Ray of the session. Units that take longest begin first, so that no process ends long after the others."""

from __future__ import annotations

from functools import cache

from tests.support import ROOT

RAY = "ray"
"""The unit of the tests over the Ray of the session: a second Ray would start beside the first one."""

_FIXTURES = ("ray_cluster", "ray_settings", "own_ray")

LONGEST: tuple[str, ...] = (RAY,)
"""Units that take more than ten seconds of a core, or that wait as long, the longest first."""


def unit_of(nodeid: str) -> str:
    """The unit of a test: its file, or `RAY`."""
    file, _, test = nodeid.partition("::")
    return RAY if "[ray" in test or _takes_ray(file) else file


@cache
def _takes_ray(file: str) -> bool:
    text = (ROOT / file).read_text()
    return "/cluster/" in file and any(name in text for name in _FIXTURES)


def rank_of(nodeid: str) -> int:
    """The place of a test's unit among the longest; that of all others is behind them."""
    unit = unit_of(nodeid)
    return LONGEST.index(unit) if unit in LONGEST else len(LONGEST)
