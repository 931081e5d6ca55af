"""OpenVM 2's proof system in OpenVM 2's own bytes: keys, proofs, transcript and verifier of stark-backend 2.0."""
