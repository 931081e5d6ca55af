"""The node's governor: leases of CPU threads by lease class, host memory, resident keys and the deallocation lane.

`state` is the state machine with its promises, and `keys` the resident keys in it. `local` is the governor as threads
use it, with `samples` of what it sees of the node; `actor` makes it the Ray actor of a node. `budget` says what a node
has.
"""

from cluster.governor.actor import NodeGovernor
from cluster.governor.budget import default_memory, limits_of, memory_for_keys, node_budget
from cluster.governor.local import LocalGovernor
from cluster.governor.state import NOBODY, Budget, Governor, Holder, Limits, Request

__all__ = [
    "NOBODY",
    "Budget",
    "Governor",
    "Holder",
    "Limits",
    "LocalGovernor",
    "NodeGovernor",
    "Request",
    "default_memory",
    "limits_of",
    "memory_for_keys",
    "node_budget",
]
