"""The protocol played for a whole population on one machine."""
