"""Writes the tables of docs/operations.md that the code has: `make tables`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from actors import patience
from cluster.scheduler import rules

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operations.md"


def limits() -> str:
    """Every limit of time."""
    rows = ((f"`{name}`", f"{row.value:g}", row.unit, row.reason) for name, row in patience.TABLE.items())
    return _table(("name", "limit", "unit", "why"), rows)


def partition_rules() -> str:
    """What follows for a partition, for each thing that can happen to it."""
    marks = {True: "yes", False: ""}
    rows = (
        (fact.value, rule.to.value, marks[rule.charge], marks[rule.strike], marks[rule.front], rule.event)
        for fact, rule in rules.RULES.items()
    )
    return _table(("a partition", "goes to", "charged", "strike", "first", "journal"), rows)


def worker_rules() -> str:
    """When a worker is given up, from the docstring of the rules, with the numbers in place of their names."""
    text = re.sub(r"\bMAX_[A-Z_]+", lambda name: str(getattr(rules, name.group())), rules.__doc__ or "")
    rows = re.findall(r"^    (\w.*?) {2,}(\w.*)$", text[text.index("A worker is given up") :], re.MULTILINE)
    return _table(("a worker is given up when", "counted"), rows)


TABLES = {"partitions": partition_rules, "workers": worker_rules, "limits": limits}
"""Tables by the name that the comment before each has on the page."""


def printed(page: str) -> str:
    """The page with its tables made anew."""
    for name, table in TABLES.items():
        head = f"<!-- {name}: `make tables` -->\n\n"
        before, after = page.split(head)
        page = before + head + table() + "\n" + re.sub(r"\A(\|.*\n)*\n*", "", after)
    return page.rstrip("\n") + "\n"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [tuple(head), *map(tuple, rows)]
    lines.insert(1, ("---",) * len(lines[0]))
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


if __name__ == "__main__":
    PAGE.write_text(printed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
