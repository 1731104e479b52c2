"""Slow tests come first in every worker's share."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.helpers.order import slow_first


def item(name: str, *, slow: bool = False, fixtures: tuple[str, ...] = ()) -> Any:
    return SimpleNamespace(
        path=Path(name[0]), name=name, fixturenames=fixtures, get_closest_marker=lambda _: True if slow else None
    )


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
def test_every_test_is_there_once_and_every_share_begins_with_the_slow_ones(workers: int) -> None:
    slow = [item(f"{module}{number}", slow=True) for module in "abcd" for number in range(2)]
    items = [*(item(f"f{number}") for number in range(60)), *slow, item("s", fixtures=("spark",)), item("g")]
    ordered = slow_first(items, workers)
    assert sorted(one.name for one in ordered) == sorted(one.name for one in items)
    begins = [len(ordered) * share // workers for share in range(workers)]
    heads = {ordered[place].name[0] for place in begins}
    assert heads <= set("abcds") if workers <= 5 else len(heads & set("abcds")) == 5
    assert [one.name for one in ordered if one.name[0] == "f"] == [f"f{number}" for number in range(60)]


def test_slow_tests_of_a_module_and_all_of_spark_stay_together() -> None:
    items = [item(f"{name}1", slow=name == "a", fixtures=("spark",) * (name == "b")) for name in "abcabcabc"]
    items.append(item("d[in_spark]"))
    names = "".join(one.name[0] for one in slow_first(items, 2))
    assert "aaa" in names
    assert "bbbd" in names
