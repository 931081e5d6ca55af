"""The files of a run: what is written, and what is read from them."""
