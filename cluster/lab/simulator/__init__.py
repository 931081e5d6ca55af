"""A model of a proving node, to test policies on machines that are not at hand. It is a model: see docs/scheduling.md.

`hardware` says how fast work goes when so much of it runs at once, `engine` runs a load through a node's own governor
and policy; `machines` makes random machines with loads, on which `study` compares the policies; `published` has a
machine that is known from its notes, and `measured` what was measured on it beside what the model gives.
"""
