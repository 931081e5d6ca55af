"""A model of a proving node, to test policies on machines that are not at hand. It is a model: see docs/scheduling.md.

`hardware` says how fast work goes when so much of it runs at once, `engine` runs a load through a node's own governor
and policy, `machines` has the parameters: a published machine, and random ones; `study` compares the policies.
"""
