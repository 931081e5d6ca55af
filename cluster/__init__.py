"""The deciding half: the driver, executors, the per-node governor, runs on disk, and the connection to Ray."""
