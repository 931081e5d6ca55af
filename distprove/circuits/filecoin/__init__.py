"""Filecoin's proof circuits over BLS12-381, constraint for constraint as large as the published ones."""
