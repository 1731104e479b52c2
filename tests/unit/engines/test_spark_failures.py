"""Failures of Spark are told in words that say what to do."""

from __future__ import annotations

import pytest

from semilocal.engines.spark import reporting_failures
from semilocal.errors import EngineFailed


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
