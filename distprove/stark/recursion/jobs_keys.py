"""Chooses the frame of a tree over jobs, and makes its verifying keys.

The tree has the frame and parameters of a job's own tree wherever its leaves fit in there. Then its root has the same
key as that job's, and so have its nodes: leaves alone have new keys.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

from distprove.stark.recursion.frame import KINDS, Frame
from distprove.stark.recursion.jobs_root import JobRoot, JobsVerifyingKeys, places_of
from distprove.stark.recursion.kept import kept_rows
from distprove.stark.recursion.node import MOST_CHILDREN
from distprove.stark.recursion.plan import Form
from distprove.stark.recursion.program import NodeProgram
from distprove.stark.recursion.tree import TreeParameters, node_child, root_frame
from distprove.stark.recursion.tree_keys import chosen_tree, made_key, tree_with_room

MOST_TREES = 16
"""Trees over jobs whose verifying keys a process keeps."""

_LOCK = threading.RLock()
_KEYS: OrderedDict[tuple[tuple[bytes, tuple[tuple[Form, ...], ...]], ...], JobsVerifyingKeys] = OrderedDict()


def jobs_tree(jobs: Sequence[JobRoot]) -> tuple[TreeParameters, Frame]:
    """The parameters and the frame of the tree over these jobs, which ask for the same bits. Raises UsageError."""
    different = {tuple(child.form for child in leaf): leaf for leaf in places_of(jobs)}
    each = [kept_rows(leaf) for leaf in different.values()]
    rows = {kind: max(own[kind] for own in each) for kind in KINDS}
    for job in jobs:
        tree = chosen_tree(job.key, job.leaves)
        if tree[1].has_room(rows):
            return tree
    return tree_with_room(jobs[0].key.params, rows)


def jobs_verifying_keys(jobs: Sequence[JobRoot], threads: int = 1) -> JobsVerifyingKeys:
    """The keys of the tree over these jobs, made on so many threads of the CPU and kept. Any thread may call. Raises
    UsageError."""
    place = tuple((job.key.digest, job.leaves) for job in jobs)
    with _LOCK:
        if place not in _KEYS:
            _KEYS[place] = _made(jobs, threads)
            while len(_KEYS) > MOST_TREES:
                _KEYS.popitem(last=False)
        _KEYS.move_to_end(place)
        return _KEYS[place]


def _made(jobs: Sequence[JobRoot], threads: int) -> JobsVerifyingKeys:
    params, frame = jobs_tree(jobs)
    below = node_child(frame, params.nodes)
    leaves = tuple(made_key(NodeProgram(leaf, frame), params.nodes, threads) for leaf in places_of(jobs))
    node = made_key(NodeProgram([below] * MOST_CHILDREN, frame), params.nodes, threads)
    root = made_key(NodeProgram([below], root_frame(frame, params.nodes)), params.root, threads)
    return JobsVerifyingKeys(leaves, node, root)
