"""The RISC-V machine: tables that prove executions of RV32IM and RV64IM programs."""
