"""`distprove keys load` and `keys evict`: which key the options name."""

from __future__ import annotations

from pathlib import Path

import pytest

from distprove.cli.keys import Named
from distprove.errors import UsageError

KEY = Path("/k/c.zkey")


def test_a_key_in_a_file_needs_no_more_words() -> None:
    """--zkey alone was answered by the demand for --zkey."""
    named = Named(zkey=KEY).request()
    assert (named.system, dict(named.files), named.circuit) == ("groth16", {"zkey": str(KEY)}, None)


@pytest.mark.parametrize(
    ("circuit", "system", "expected"),
    [
        ("filecoin/porep-32GiB", None, "filecoin"),
        ("merkle", None, "groth16"),
        (None, "filecoin", "filecoin"),
        ("filecoin/porep-32GiB", "groth16", "groth16"),
    ],
)
def test_the_system_is_the_circuits_unless_it_is_named(circuit: str | None, system: str | None, expected: str) -> None:
    assert Named(params=KEY, circuit=circuit, system=system).request().system == expected


@pytest.mark.parametrize("named", [Named(), Named(r1cs=KEY), Named(circuit="filecoin/porep-32GiB"), Named(wasm=KEY)])
def test_options_without_a_key_are_refused(named: Named) -> None:
    with pytest.raises(UsageError, match="with --zkey, or with --params"):
        named.request()
