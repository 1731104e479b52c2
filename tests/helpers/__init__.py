"""What several tests share."""

HANG = 600.0  # seconds after which a test gives up; no machine takes that long by being busy
# A line from 0 to 1, cut by hand: another number of children in every cell.
AREAS: tuple[tuple[float, ...], ...] = (
    (0.0, 0.2, 0.5, 1.0),
    (0.0, 0.1, 0.2, 0.3, 0.35, 0.4, 0.5, 1.0),
    (0.0, 0.05, 0.1, 0.15, 0.18, 0.2, 0.3, 0.31, 0.35, 0.38, 0.4, 0.42, 0.44, 0.46, 0.48, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
)
