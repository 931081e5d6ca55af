"""How values become bytes, text and files, and come back from those that nobody vouches for."""
