"""What a backend computes, for those who call it and those who implement it."""
