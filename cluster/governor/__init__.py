"""The node's governor: leases of CPU threads by phase, host and pinned memory, resident keys and the deallocation lane.

`state` is the state machine with its promises, `keys` the resident keys in it, `watch` what is seen of the node.
`steward` brings them and a policy (`cluster.policy`) together; `shells` makes governors of it, for one process and for
Ray.
"""

from cluster.governor.service import (
    LocalGovernor,
    NodeGovernor,
    default_memory,
    node_budget,
    predicted_bytes,
)
from cluster.governor.state import NOBODY, Budget, Governor, Holder, Request

__all__ = [
    "NOBODY",
    "Budget",
    "Governor",
    "Holder",
    "LocalGovernor",
    "NodeGovernor",
    "Request",
    "default_memory",
    "node_budget",
    "predicted_bytes",
]
