"""cuzk's gRPC interface in front of a service: what a curio node talks to."""
