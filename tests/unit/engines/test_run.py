"""The driver on counts gives what the simulation in memory gives; failures of Spark say what to do."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import semilocal as sl
from semilocal.arrays import Floats
from semilocal.engines import run as run_module
from semilocal.engines import source as source_module
from semilocal.engines.source import CHANGED
from semilocal.engines.spark import reporting_failures
from semilocal.errors import EngineFailed
from tests.helpers.engine_runs import PointsSource, box_of, people


@pytest.mark.parametrize("depth", [0, 1, 3, 7, 40])
def test_the_depth_of_the_histogram_changes_nothing(depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    points, box = people(6000, 2), box_of(2)
    monkeypatch.setattr(run_module, "choose_depth", lambda *_, **__: depth)
    scans = []

    class Counted(PointsSource):
        def refine(self, *args: Any) -> Any:
            scans.append(args[1:])
            return super().refine(*args)

    here, there = (
        sl.counts(rows, box, epsilon=1.0, trust="curator", rng=np.random.default_rng(3)).published
        for rows in (points, Counted(points, box))
    )
    assert here is not None
    assert there is not None
    assert here.to_bytes() == there.to_bytes()
    assert len(scans) == (depth < 40)


def test_a_row_that_is_lost_between_two_scans_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    points, box = people(6000, 2), box_of(2)
    monkeypatch.setattr(run_module, "choose_depth", lambda *_, **__: 1)

    class Losing(PointsSource):
        def refine(self, *args: Any) -> Any:
            self.points = self.points[:-3]
            return super().refine(*args)

    with pytest.raises(ValueError, match=f"^{CHANGED}$"):
        sl.counts(Losing(points, box), box, epsilon=1.0, trust="curator", rng=np.random.default_rng(1))


def test_a_sample_keeps_no_batch_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "SAMPLE", 50)
    points, alive, most = people(5000, 2), list[Any](), list[int]()

    class Watched(PointsSource):
        def batches(self, *others: str) -> Iterator[Floats]:
            for start in range(0, len(points), 10):
                batch = points[start : start + 10].copy()
                alive.append(weakref.ref(batch))
                yield batch
                del batch
                most.append(sum(one() is not None for one in alive))

    sample = Watched(points, box_of(2)).sample(50)
    assert 25 <= len(sample) <= 50
    assert max(most) <= 1  # the one that is looked at


class FromSpark(Exception):
    """As if pyspark had raised it."""


FromSpark.__module__ = "pyspark.errors"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("java.io.IOException: No space left on device", "ran out of disk space"),
        ("bigger than spark.driver.maxResultSize", "larger than spark.driver.maxResultSize"),
        ("ModuleNotFoundError: No module named 'pyarrow'", "set PYSPARK_PYTHON to a Python that has it"),
        (
            "thrown from the worker:\n[PYTHON_VERSION_MISMATCH] 3.11",
            "another version than this one; set PYSPARK_PYTHON",
        ),
        ("Job 3 cancelled", "the job was cancelled"),
        ("something else\nwith a trace", "Spark failed: something else. Nothing was released"),
    ],
)
def test_a_failure_says_what_to_do(text: str, words: str) -> None:
    with pytest.raises(EngineFailed, match=words), reporting_failures():
        raise FromSpark(text)


def test_other_errors_pass() -> None:
    with pytest.raises(ValueError, match="not Spark's"), reporting_failures():
        raise ValueError("not Spark's")
