"""The command line."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of `distprove`. Exit codes: 0 done and verified, 1 a job failed, 2 bad usage or input, 130 Ctrl-C."""
    from distprove.cli.app import app
    from distprove.cli.console import DEBUG_FLAG

    # --debug is global, but one adds it at the end of the command that just failed.
    app(args=[arg for arg in sys.argv[1:] if arg != DEBUG_FLAG], prog_name="distprove")
