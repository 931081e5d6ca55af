"""Executors: workers on threads, in processes of this machine, or over Ray."""
