"""What an owner allows has a meaning: limits that have none are refused when they are set, not when a task comes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from semilocal import Policy
from semilocal.errors import InvalidInput
from semilocal.protocol.task import MAX_K

NUMBER = "must be a number of at least 0"
WRONG: list[tuple[str, Any, str]] = [
    *(("max_epsilon", value, NUMBER) for value in (-1e-9, math.nan, -math.inf, 10**400, "3", True, None)),
    *(("max_exposure", value, NUMBER) for value in (-1.0, math.nan, math.inf, 10**400, "3", False)),
    *(("max_delta", value, "must be a chance from 0 to 1") for value in (1.5, -0.1, math.nan, math.inf, "1", True)),
    *(("min_k", value, f"must be an integer from 1 to {MAX_K}") for value in (0, -3, MAX_K + 1, 10**30, 2.5, True)),
    *(("allow_no_crowd", value, "must be True or False") for value in ("no", 0, None)),
    *(("allow_simulation", value, "must be True or False") for value in ("no", 1)),
    *(("min_side", value, "must be lengths of at least 0") for value in
      (0.5, "1", ("1",), (-1.0,), (math.nan,), (1.0, math.inf), (True,), (10**400,))),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "words"), WRONG, ids=lambda value: str(value)[:12])
def test_a_limit_without_a_meaning_is_refused(name: str, value: Any, words: str) -> None:
    limits = {"max_epsilon": 1.0, name: value}
    with pytest.raises(InvalidInput, match=f"^{name} {words}.*; got "):
        Policy(**limits)


def test_the_ends_of_every_limit_are_allowed() -> None:
    open_ = Policy(max_epsilon=math.inf, max_exposure=None, min_k=1, max_delta=1, min_side=(0, 1e6))
    closed = Policy(max_epsilon=0, max_exposure=0, min_k=MAX_K, max_delta=0)
    assert (open_.max_delta, closed.max_exposure) == (1.0, 0.0)


def test_zero_has_one_sign() -> None:
    none = Policy(max_epsilon=-0.0, max_exposure=-0.0, max_delta=-0.0, min_side=(-0.0,))
    assert "-0" not in repr(none)


def test_numbers_of_numpy_are_numbers() -> None:
    found = Policy(max_epsilon=np.float32(0.5), min_k=np.int64(30), max_delta=np.float64(0.25))  # type: ignore[arg-type]
    assert found == Policy(max_epsilon=0.5, min_k=30, max_delta=0.25)
    assert type(found.min_k) is int
