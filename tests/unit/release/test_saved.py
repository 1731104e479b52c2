"""Results can be pickled, copied and saved, and answer the same afterwards; other files are refused."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import semilocal as sl
from semilocal.errors import InvalidInput
from semilocal.release.pair import pair_counts
from tests.golden.make import populations
from tests.unit.release.test_pair import bucketed

RNG = np.random.default_rng(1)
POINTS = RNG.beta(2, 5, (3_000, 2))
BOX, F = sl.Box((0, 0), (1, 1), names=("x", "y")), sl.functions.coordinate(0)
BOXES = np.sort(RNG.random((40, 2, 2)), axis=1)
TRUSTS = ["nobody", "curator", "two-servers"]


def same(one: Any, other: Any) -> None:
    """Both answer everything alike."""
    assert type(one) is type(other)
    for name in ("value", "stderr", "points", "regions", "clipping"):
        if name in vars(one):
            mine, theirs = getattr(one, name), getattr(other, name)
            if isinstance(mine, np.ndarray | float):
                assert np.array_equal(mine, theirs, equal_nan=True)
    assert np.array_equal(np.asarray(one.interval()), np.asarray(other.interval()), equal_nan=True)
    assert one.guarantee == other.guarantee
    assert (one.spent, one.total, one.rounding) == (other.spent, other.total, other.rounding)
    assert one.partition.task == other.partition.task
    assert one.partition.mark == other.partition.mark
    dimensions = one.partition.task.box.dimensions
    asked = BOXES if dimensions == 2 and one.partition.task.hierarchy.cells_are_boxes else one.boxes[:50]
    mine, theirs = one.answer(asked), other.answer(asked)
    for name in ("value", "stderr", "plain", "most", "noise"):
        assert np.array_equal(getattr(mine, name), getattr(theirs, name))
    assert np.array_equal(mine.interval(0.9), theirs.interval(0.9))
    assert {name: column.tolist() for name, column in one.to_table().items()} == {
        name: column.tolist() for name, column in other.to_table().items()
    }


def results() -> dict[str, Any]:
    made: dict[str, Any] = {"values": sl.values(POINTS, F, BOX, epsilon=2.0, rng=RNG)}
    for trust in TRUSTS:
        given: dict[str, Any] = {"epsilon": 2.0, "trust": trust, "rng": RNG}
        made[f"counts, {trust}"] = sl.counts(POINTS, BOX, rounding=0.01, **given)
        made[f"points, {trust}"] = sl.points(POINTS, BOX, **given)
        made[f"mean, {trust}"] = sl.mean(POINTS, F, BOX, **given)
        made[f"means, {trust}"] = sl.cell_means(POINTS, F, BOX, **given)
        for name in ("earth", "table", "cube"):
            points, options = populations()[name]
            made[f"{name}, {trust}"] = sl.counts(points, **options, **given)
    made["own values"] = sl.mean(POINTS, BOX, value=POINTS[:, 0], range=(0, 1), epsilon=1.0, trust="curator")
    made["buckets"] = pair_counts(bucketed())
    return made


RESULTS = results()


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_the_same_after_it_was_pickled_copied_or_saved(name: str, tmp_path: Path) -> None:
    result = RESULTS[name]
    result.answer(result.boxes[:3])  # what it keeps for later answers may go
    for other in (pickle.loads(pickle.dumps(result)), copy.copy(result), copy.deepcopy(result)):
        same(result, other)
    result.save(tmp_path / "map.json")
    same(result, sl.load(tmp_path / "map.json"))
    json.loads((tmp_path / "map.json").read_text())


def test_a_file_that_is_there_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "map.json"
    file.write_text("mine")
    RESULTS["counts, curator"].save(file)
    assert sl.load(file).total == RESULTS["counts, curator"].total
    with pytest.raises(InvalidInput, match="there is no folder"):
        RESULTS["counts, curator"].save(tmp_path / "none" / "map.json")
    assert [path.name for path in tmp_path.iterdir()] == ["map.json"]


def test_foreign_future_and_damaged_files_are_refused_in_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "map.json"
    RESULTS["counts, nobody"].save(file)
    whole = json.loads(file.read_text())
    cut = file.read_bytes()[:-200]
    later, other = {**whole, "version": 3, "result": "anything"}, json.loads(json.dumps(whole))
    other["result"]["spent"]["entries"][0]["epsilon"]["text"] = "1/10"
    forged = {**whole, "result": {"is": "Popen"}}
    cases = {
        "is no result that semilocal saved": [b"", b"{}", b"not JSON", b'{"format": "map", "version": 1}'],
        r"a later version of semilocal \(format 3": [json.dumps(later).encode()],
        r"an earlier version of semilocal \(format 1": [json.dumps({**later, "version": 1}).encode()],
        "is damaged": [json.dumps(each).encode() for each in (other, forged, {**whole, "result": 7})] + [cut],
    }
    for words, contents in cases.items():
        for content in contents:
            file.write_bytes(content)
            with pytest.raises(InvalidInput, match=words) as refused:
                sl.load(file)
            assert "\n" not in str(refused.value)
    with pytest.raises(InvalidInput, match="No such file"):
        sl.load(tmp_path / "none.json")


@pytest.mark.parametrize("text", ["1/0", "1e999999999", "nan", "1/2/3", ""])
def test_a_forged_number_with_a_good_checksum_is_refused(text: str, tmp_path: Path) -> None:
    """Planted bug: ``Fraction(text)``, which divides by zero, or computes for minutes."""
    file = tmp_path / "map.json"
    RESULTS["counts, nobody"].save(file)
    whole = json.loads(file.read_text())
    whole["result"]["spent"]["entries"][0]["epsilon"]["text"] = text
    content = json.dumps(whole["result"])
    whole["sha256"] = hashlib.sha256(content.encode()).hexdigest()
    file.write_text(json.dumps(whole))
    with pytest.raises(InvalidInput, match="is damaged"):
        sl.load(file)


def changed(array: np.ndarray, place: int, value: Any) -> np.ndarray:
    out = array.copy()
    out[place] = value
    return out


FORGERIES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "fewer numbers": lambda regions: {"crowds": regions.crowds[1:]},
    "nobody less one": lambda regions: {"crowds": -regions.crowds - 1},
    "rows backwards": lambda regions: {"lower": regions.lower[::-1].copy(), "upper": regions.upper[::-1].copy()},
    "a row outside": lambda regions: {"upper": changed(regions.upper, -1, (1 << 64) - 1)},
    "a gap": lambda regions: {"upper": changed(regions.upper, 1, int(regions.upper[1]) - 1)},
    "fewer walls": lambda regions: {"walls": regions.walls._replace(asked=regions.walls.asked[1:])},
    "more yes than asked": lambda regions: {"walls": regions.walls._replace(yes=regions.walls.asked + 1)},
    "another promise": lambda regions: {"task": msgspec.structs.replace(regions.task, k=regions.task.k - 1)},
}
ESTIMATES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "fewer numbers": lambda found: {"counts": found.counts[1:]},
    "not a number": lambda found: {"variances": changed(found.variances, 3, np.nan)},
    "nobody less one": lambda found: {"counts": -found.counts - 1},
    "fewer shares": lambda found: {"shares": found.shares[1:]},
    "a cell less": lambda found: {"tree": replace(found.tree, cells=found.tree.cells[1:])},
    "cells backwards": lambda found: {"tree": replace(found.tree, cells=found.tree.cells[::-1].copy())},
}


@pytest.mark.parametrize(
    ("trust", "forgery"), [("nobody", name) for name in FORGERIES] + [("curator", name) for name in ESTIMATES]
)
def test_a_forged_map_with_a_good_checksum_is_refused(trust: str, forgery: str, tmp_path: Path) -> None:
    result = RESULTS[f"counts, {trust}"]
    regions = result.partition
    if trust == "nobody":
        forged = replace(regions, **FORGERIES[forgery](regions))
    else:
        forged = replace(regions, estimates=replace(regions.estimates, **ESTIMATES[forgery](regions.estimates)))
    other = replace(result, partition=forged)
    other.__dict__["guarantee"] = result.guarantee
    other.save(tmp_path / "map.json")
    with pytest.raises(InvalidInput, match="is damaged, so nothing of it is used") as refused:
        sl.load(tmp_path / "map.json")
    assert "\n" not in str(refused.value)


def test_lists_in_lists_without_end_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "map.json"
    for depth in (300, 100_000):
        content = '{"is": "Counts", "own": %s}' % ("[" * depth + "]" * depth)
        digest = hashlib.sha256(content.encode()).hexdigest()
        head = '{"format": "semilocal result", "version": 2, "promise": "", "sha256": "%s", "result": %s}'
        file.write_text(head % (digest, content))
        with pytest.raises(InvalidInput, match="is damaged"):
            sl.load(file)
