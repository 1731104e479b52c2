"""What a confidence level is, and what is none."""

from __future__ import annotations

import pytest
from scipy.stats import norm

from semilocal.errors import InvalidInput
from semilocal.release.intervals import standard_errors


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.999])
def test_a_normal_number_lies_that_often_within_so_many_standard_errors(level: float) -> None:
    width = standard_errors(level)
    assert norm.cdf(width) - norm.cdf(-width) == pytest.approx(level)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 95.0])
def test_what_is_no_level_is_refused(level: float) -> None:
    with pytest.raises(InvalidInput, match="level"):
        standard_errors(level)
