"""Names of the hashes of commitments, apart from what computes them: the command line lists them."""

from __future__ import annotations

DEFAULT = "rfc9380"
"""gnark's own hash."""
NAMES = (DEFAULT, "keccak256", "sha256")
