"""Guests of OpenVM: their calls, answered by this machine's. docs/riscv.md, "Guests of OpenVM"."""
