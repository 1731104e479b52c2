"""What several tests share."""

HANG = 600.0  # seconds after which a test gives up; no machine takes that long by being busy
