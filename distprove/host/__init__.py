"""What the machine is and what it has left."""
