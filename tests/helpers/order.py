"""The order of the tests where several processes share them."""

from __future__ import annotations

import pytest

__all__ = ["needs_spark", "slow_first"]


def needs_spark(item: pytest.Item) -> bool:
    """Whether a test asks for the session of Spark: for the fixture, or by a parameter that names it."""
    return "spark" in getattr(item, "fixturenames", ()) or "spark" in item.name.partition("[")[2]


def slow_first(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """Put the slow tests at the head of each worker's share, so that none of them runs alone at the end.

    Workers begin with equal parts of the list, one after the other, and later take tests from the end of each other's.
    Slow tests of one module stay together, and all tests that need Spark: each process would start its own.
    """
    slow: dict[object, list[pytest.Item]] = {}
    rest = []
    for item in items:
        if needs_spark(item):
            slow.setdefault("spark", []).append(item)
        elif item.get_closest_marker("slow") is not None:
            slow.setdefault(item.path, []).append(item)
        else:
            rest.append(item)
    groups, ordered = list(slow.values()), list[pytest.Item]()
    for worker in range(workers):
        share = [item for group in groups[worker::workers] for item in group]
        size = (len(items) - len(ordered)) // (workers - worker)
        fill = len(rest) if worker == workers - 1 else max(size - len(share), 0)
        ordered += share + rest[:fill]
        del rest[:fill]
    return ordered
