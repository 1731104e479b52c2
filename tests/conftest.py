"""Shared by all tests: a skip for something missing on the machine is a failure where everything must be there."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Generator
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, settings

from tests.helpers.service import database, postgres, store
from tests.helpers.spark import spark

__all__ = ["database", "postgres", "spark", "store"]

# No test depends on how fast the machine is.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

REQUIRE_ALL = os.environ.get("SEMILOCAL_REQUIRE_ALL") == "1"

# Real datasets lie beside a checkout, where they are at all.
DATA = Path(__file__).parents[2] / "shared" / "data"
if DATA.is_dir():
    os.environ.setdefault("SEMILOCAL_DATA", str(DATA))

# Before 4.1 Spark leaves sockets to the garbage collector.
SPARKS_SOCKETS = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"
)

# No test speaks to other machines, so no authority has to be trusted: to load 140 of them takes 40 ms per client.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = os.devnull

# Every request to an application in process would look for this package anew, along the whole path.
if importlib.util.find_spec("sniffio") is None:
    sys.modules["sniffio"] = cast(ModuleType, None)


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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Turn skips into failures when SEMILOCAL_REQUIRE_ALL=1."""
    report = yield
    if REQUIRE_ALL and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, but SEMILOCAL_REQUIRE_ALL=1: {report.longrepr}"
    return report


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark every test by its folder below tests/; doctests of the sources are unit tests."""
    here = Path(__file__).parent
    folders = {
        path: path.relative_to(here).parts[0] if path.is_relative_to(here) else "unit"
        for path in {item.path for item in items}
    }
    for item in items:
        item.add_marker(folders[item.path])
        if needs_spark(item):
            item.add_marker(SPARKS_SOCKETS)
    items[:] = slow_first(items, getattr(config, "workerinput", {"workercount": 1})["workercount"])
