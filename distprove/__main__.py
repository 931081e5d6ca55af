"""The command line as `python -m distprove`."""

from distprove.cli import main

main()
