"""One proof of several STARK jobs, each of which ends in one proof. docs/recursion.md says what it states and why."""

BEGINS = b"\x85\xa7binding"
"""The first bytes of every file of such a proof: a map of five entries, the first of which is the binding."""
