"""The table `rom`: the decoded instructions of the program."""

from __future__ import annotations

from collections.abc import Mapping

from distprove.stark.air import Air, Table
from distprove.stark.riscv.buses import ROM


class RomAir(Air):
    """A row is an instruction, and how often it is executed."""

    name = "rom"
    preprocessed: Mapping[str, int] = dict.fromkeys(ROM.fields, 1)
    main: Mapping[str, int] = {"used": 1}

    def define(self, t: Table) -> None:
        t.receive(ROM, {name: t.fixed[name][0] for name in ROM.fields}, times=t.this.used)
