"""The scheduler: one state machine for all jobs, keys and workers of a process, and the loop that feeds it.

    fleet --events--> machine --effects--> fleet, verifiers, and the sink of each job

`machine` takes events and returns effects; it has no clock, thread or file. `rules` is the table of what follows for a
partition. `jobs`, `workers` and `keys` are the state; `assign` decides every order; `faults` applies the rules for
failures; `loop` is the only thread.
"""
