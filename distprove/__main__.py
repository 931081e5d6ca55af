"""Runs the command line: `python -m distprove`."""

from distprove.cli import main

main()
