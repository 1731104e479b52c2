"""One of something has no s, wherever a number is printed with its noun."""

from __future__ import annotations

from semilocal.words import number_of


def test_one_is_told_from_many() -> None:
    assert [number_of(n, "region") for n in (0, 1, 2, 3000)] == ["0 regions", "1 region", "2 regions", "3,000 regions"]
    assert [number_of(n, "query", "queries") for n in (1, 2)] == ["1 query", "2 queries"]
