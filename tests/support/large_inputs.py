"""Circuit inputs of many small values, as anyone can write them: each takes many times its size as objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def _list(items: Iterable[str], before: str = '{"in":[', after: str = "]}") -> bytes:
    return (before + ",".join(items) + after).encode()


LARGE_INPUTS: dict[str, Callable[[int], bytes]] = {
    "digits": lambda size: _list(["1"] * (size // 2)),
    "numbers": lambda size: _list(map(str, range(100_000, 100_000 + size // 7))),
    "negative": lambda size: _list(["-9"] * (size // 3)),
    "quoted digits": lambda size: _list(['"7"'] * (size // 4)),
    "quoted numbers": lambda size: _list(f'"{i}"' for i in range(100_000, 100_000 + size // 9)),
    "field elements": lambda size: _list(f'"{(1 << 250) + i}"' for i in range(size // 79)),
    "pairs": lambda size: _list(["[1,2]"] * (size // 6)),
    "lists of one": lambda size: _list(["[1]"] * (size // 4)),
    "empty lists": lambda size: _list(["[]"] * (size // 3)),
    "deep lists": lambda size: _list(["[" * 20 + "1" + "]" * 20] * (size // 42)),
    "names": lambda size: _list((f'"{i:x}":1' for i in range(size // 9)), "{", "}"),
    "names of lists": lambda size: _list((f'"{i:x}":[1]' for i in range(size // 11)), "{", "}"),
    "buses": lambda size: _list(['{"x":1}'] * (size // 8)),
    "buses in buses": lambda size: _list(['{"x":1}'] * (size // 8), '{"p":' * 20 + "[", "]" + "}" * 20),
    "buses with a long name": lambda size: _list(['{"x":1}'] * (size // 8), '{"' + "n" * 900 + '":['),
}
"""Makes an input of about so many bytes, by its shape."""
