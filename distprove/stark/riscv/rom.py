"""The table `rom`: the decoded instructions of the program."""

from __future__ import annotations

from collections.abc import Mapping

from distprove.stark.air import Air, Bus, Table
from distprove.stark.riscv.buses import ROM, ROM_64


class RomAir(Air):
    """A row is an instruction, and how often it is executed."""

    name = "rom"
    bus: Bus = ROM
    preprocessed: Mapping[str, int] = dict.fromkeys(ROM.fields, 1)
    main: Mapping[str, int] = {"used": 1}

    def define(self, t: Table) -> None:
        t.receive(self.bus, {name: t.fixed[name][0] for name in self.bus.fields}, times=t.this.used)


class Rom64Air(RomAir):
    """The same for RV64IM."""

    bus = ROM_64
    preprocessed: Mapping[str, int] = dict.fromkeys(ROM_64.fields, 1)
