"""The Ray actors: one GPU each, or none. They hold resident keys and call `distprove`; they decide nothing."""
