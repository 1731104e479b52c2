"""Many devices from one process."""
