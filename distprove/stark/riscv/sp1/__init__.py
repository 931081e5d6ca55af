"""Guests of SP1, versions 1 to 5 (RV32IM), on this machine."""
