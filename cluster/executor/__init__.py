"""Where work runs: threads, processes of this machine, or Ray."""
