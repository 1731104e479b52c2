"""With rule "each" nobody answers for a part that is left behind: how many people are in it is not public."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import semilocal as sl
from semilocal import release
from semilocal.errors import InvalidInput
from semilocal.hierarchy.tables import from_labels
from semilocal.io.map_rows import partition_rows
from semilocal.protocol.promise import Trust
from semilocal.sklearn import SemiLocalTransformer
from semilocal.testing import unit_box
from tests.helpers.release_runs import run_of

LABELS = from_labels("code", [["a"], ["b"], ["c"], ["d"]])
CODES = np.repeat(np.arange(4.0), [900, 700, 3, 1])[:, None]
SQUARE = np.random.default_rng(1).random((2000, 2))
REFUSED = "nobody answers for a part that is left behind.*'trim' or 'all'.*public_data=True"
DOMAINS: dict[str, tuple[Any, dict[str, Any]]] = {
    "labels": (CODES, {"hierarchy": LABELS}),
    "halves": (SQUARE, {"box": unit_box(2)}),
    "quarters": (SQUARE, {"box": unit_box(2), "tree": "quad"}),
}


def options_of(domain: str, **more: Any) -> dict[str, Any]:
    own = DOMAINS[domain][1]
    return {"epsilon": 4.0, "trust": "nobody", "rule": "each", "rng": np.random.default_rng(2), **own, **more}


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("job", [sl.counts, sl.partition, sl.points])
def test_exact_crowds_are_refused_unless_the_data_is_public(job: Callable[..., Any], domain: str) -> None:
    """Also where cells have two parts: if both are left behind, only their sum is in the transcript."""
    points = DOMAINS[domain][0]
    with pytest.raises(InvalidInput, match=REFUSED):
        job(points, **options_of(domain))
    found = job(points, **options_of(domain, public_data=True))
    assert found.total == len(points)
    assert found.to_table()["crowd"].sum() == len(points)


def test_public_data_changes_nothing_with_other_rules_and_other_trust() -> None:
    trusts: tuple[Trust, ...] = ("curator", "nobody")
    for trust in trusts:
        kept = [
            sl.counts(
                SQUARE, unit_box(2), epsilon=1.0, trust=trust, rng=np.random.default_rng(3), public_data=public
            ).crowds
            for public in (False, True)
        ]
        assert np.array_equal(kept[0], kept[1])


def test_a_partition_is_exported_without_crowds() -> None:
    """Its regions are public: the verdicts are."""
    _, run = run_of(2, seed=50, rule="each")
    assert not run.partition.crowds_are_public
    assert "crowd" not in run.partition.to_table()
    for feature in run.partition.to_geojson()["features"]:
        assert not {"crowd", "density"} & set(feature["properties"])
    with pytest.raises(InvalidInput, match=REFUSED):
        release.counts(run)
    with pytest.raises(InvalidInput, match=REFUSED):
        partition_rows(run.partition)
    found = release.counts(run, public_data=True).partition
    assert found.crowds_are_public
    assert found.to_geojson()["features"][0]["properties"]["crowd"] == found.crowds[0]


def test_points_are_refused_too() -> None:
    points, run = run_of(2, seed=50, rule="each")
    rng = np.random.default_rng(4)
    with pytest.raises(InvalidInput, match=REFUSED):
        release.quantize(run, points)
    with pytest.raises(InvalidInput, match=REFUSED):
        release.resample(run, points, epsilon=1.0, rng=rng)
    assert len(release.quantize(run, points, public_data=True).points) == len(points)
    with pytest.raises(InvalidInput, match=REFUSED):
        SemiLocalTransformer(box=(0, 1), rule="each", random_state=1).fit(points)
    fitted = SemiLocalTransformer(box=(0, 1), rule="each", random_state=1, public_data=True).fit(points)
    assert fitted.partition_.crowds_are_public


def test_a_round_of_values_tells_the_crowds() -> None:
    """There everybody names their region."""
    points, run = run_of(2, seed=50, rule="each")
    rng, f = np.random.default_rng(4), sl.functions.coordinate(0)
    for found in (
        release.mean(run, points, f, epsilon=1.0, rng=rng),
        release.values(run, points, f, epsilon=1.0, rng=rng),
    ):
        assert np.array_equal(found.crowds, np.bincount(run.regions, minlength=len(run.partition)))
        assert found.partition.crowds_are_public


def test_a_notebook_shows_what_the_rounds_tell() -> None:
    _, run = run_of(2, seed=50, rule="each")
    assert "participants: <b>3,000</b>" in run._repr_html_()
