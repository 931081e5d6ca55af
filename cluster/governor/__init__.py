"""The node's governor: leases of CPU threads, host memory, resident keys and the reclaim lock.

`state` is the ledger of leases with its promises. `local` is the governor as threads use it, with what it sees of the
node (`watch`); `actor` makes it the Ray actor of a node. `budget` says what a node has.
"""
