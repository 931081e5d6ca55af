"""Guests of SP1, versions 1 to 5 (RV32IM) and 6 (RV64IM), on this machine."""
