"""The compute kernels: one `Backend` interface, a CUDA and a CPU backend, and the C++ headers that both share."""

import time

BEGAN = time.time_ns()
"""When this process, or the one that it was forked from, began to load the code: see `kernels.host.loaded_code`."""
