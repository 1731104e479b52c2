"""Every figure module: writes its files from tiny grids, the same to the last digit whatever the workers, and says what
is missing."""

from __future__ import annotations

import csv
import dataclasses
import gzip
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from semilocal.errors import InvalidInput
from semilocal.io.points import read_points
from semilocal.lab.experiments import EXPERIMENTS, data, figures, methods
from semilocal.lab.experiments.report import COLUMNS, Output
from semilocal.lab.experiments.summary import FigureOptions, Study
from semilocal.lab.experiments.trials import FOREST, LOGISTIC

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

PURPOSES: tuple[methods.Purpose, ...] = ("values", "counts", "points")
REAL = ("california_housing",)
HERE = ("clusters", "california_housing")


def smaller(study: Study, sources: tuple[str, ...] | None = None, **axes: tuple[object, ...]) -> Study:
    """The study with fewer places on its axes."""
    return dataclasses.replace(
        study, axes={**study.axes, **axes}, sources=study.sources if sources is None else sources
    )


MEANS = smaller(figures.MEAN, n=(400,), epsilon=(1.0, 8.0))
CLUSTERS = smaller(figures.QUERIES_SYNTHETIC, n=(500,), epsilon=(1.0, 3.0))
LEARN = smaller(figures.CLASSIFIERS, epsilon=(1.0,), rows=(800,), classifiers=(f"{FOREST}, {LOGISTIC}",))
TINY: dict[str, Callable[[FigureOptions], Output]] = {
    "density": lambda options: figures.density(options, smaller(figures.DENSITY, n=(600,))),
    "mean": lambda options: figures.mean(options, MEANS),
    "classifiers": lambda options: figures.classifiers(options, LEARN),
    "sensitivity": lambda options: figures.sensitivity(options, smaller(figures.SENSITIVITY, k=(10, 20), rows=(800,))),
    "queries_real": lambda options: figures.queries_real(
        options, smaller(figures.QUERIES_REAL, (*REAL, "geolife"), n=(2_000,), epsilon=(1.0,))
    ),
    "queries_people": lambda options: figures.queries_people(
        with_people(options), smaller(figures.QUERIES_PEOPLE, n=(500,), epsilon=(1.0,))
    ),
    "queries_synthetic": lambda options: figures.queries_synthetic(options, CLUSTERS),
    "tradeoff": lambda options: figures.tradeoff(
        dataclasses.replace(options, runs=1), smaller(figures.TRADEOFF, HERE, n=(1_000,), k=(10, 20))
    ),
}


def with_people(options: FigureOptions) -> FigureOptions:
    """Options with two datasets in which people have many rows."""
    assert options.data is not None
    rng = np.random.default_rng(4)
    (options.data / "extra").mkdir()
    for name in ("brightkite_last_checkin", "gowalla_more_users"):
        users, places = rng.integers(0, 800, 4_000), rng.normal((40.0, 10.0), (8.0, 12.0), (4_000, 2))
        lines = [f"{user},{lat:.6f},{lon:.6f}" for user, (lat, lon) in zip(users, places, strict=True)]
        text = "\n".join(["user,latitude,longitude", *lines]) + "\n"
        (options.data / "extra" / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode()))
    return options


def options_in(folder: Path) -> FigureOptions:
    (folder / "data").mkdir()
    return FigureOptions(runs=2, seed=7, out=folder / "out", data=folder / "data", workers=0, show=False)


@pytest.fixture
def options(tmp_path: Path) -> FigureOptions:
    return options_in(tmp_path)


class Drawn(NamedTuple):
    options: FigureOptions
    made: Output


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Drawn]:
    """Figures by name, each drawn once for all tests."""

    @cache
    def draw(name: str) -> Drawn:
        options = options_in(tmp_path_factory.mktemp(name))
        return Drawn(options, TINY[name](options))

    return draw


def test_every_figure_of_the_registry_is_tried_here() -> None:
    drawn = {one.name for one in EXPERIMENTS if one.labels}
    assert drawn == set(TINY)


@pytest.mark.parametrize("name", TINY)
def test_a_figure_writes_picture_and_numbers(name: str, drawn: Callable[[str], Drawn]) -> None:
    options, made = drawn(name)
    assert made.figures
    for figure in made.figures:
        assert figure.picture is not None, figure.missing
        assert figure.study.participants
        assert figure.picture.stat().st_size > 5_000
        assert figure.picture.with_suffix(".svg").read_text(encoding="utf-8").lstrip().startswith("<?xml")
        with (options.out / f"{figure.study.name}.csv").open(encoding="utf-8") as stream:
            assert list(csv.DictReader(stream))
        lines = list(figure.lines())
        assert [len(line) for line in lines] == [len(COLUMNS)] * len(figure.study.methods)


@pytest.mark.parametrize("name", ["mean", "queries_synthetic", "classifiers"])
def test_the_summary_names_version_parameters_interval_runs_and_seed(name: str, drawn: Callable[[str], Drawn]) -> None:
    with (drawn(name).options.out / f"{name}.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    value = {"mean": "squared_error", "queries_synthetic": "mre", "classifiers": "f1"}[name]
    for row in rows:
        assert row["version"].startswith("0.")
        assert row["seed"] == "7"
        assert row["runs"] == "2"
        assert float(row[f"{value}_low"]) <= float(row[f"{value}_mean"]) <= float(row[f"{value}_high"])
        assert row["epsilon"]


def test_the_same_seed_gives_the_same_numbers_whatever_the_workers(
    drawn: Callable[[str], Drawn], tmp_path: Path
) -> None:
    options = drawn("mean").options
    apart = dataclasses.replace(options, out=tmp_path / "apart", workers=2)
    other = dataclasses.replace(options, out=tmp_path / "other", seed=8)
    for one in (apart, other):
        MEANS.gather(one)
    for file in ("mean.csv", "mean_runs.csv"):
        assert (options.out / file).read_bytes() == (apart.out / file).read_bytes()
        assert (options.out / file).read_bytes() != (other.out / file).read_bytes()


def test_without_a_dataset_the_figure_says_what_is_missing_and_goes_on(
    options: FigureOptions, drawn: Callable[[str], Drawn]
) -> None:
    [figure] = drawn("queries_real").made.figures
    assert not figure.missing
    assert "geolife is not in" in figure.found.missing["geolife"]
    only = smaller(figures.QUERIES_REAL, ("geolife", "porto"), n=(2_000,), epsilon=(1.0,))
    [nothing] = figures.queries_real(options, only).figures
    assert "geolife is not in" in nothing.missing
    assert "porto is not in" in nothing.missing


def test_costs_follow_the_constants_that_the_code_runs_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """δ and the paper's share: change one and every legend follows."""

    def costs() -> list[str]:
        methods.promise_of.cache_clear()
        shown = [methods.promise_of(method, "values").cost("ε") for method in ("paper", "published", "ours")]
        return [*shown, methods.promise_of("ours", "counts").delta_words]

    before = costs()
    assert before[:3] == ["1.5 ε inside", "1.5 ε inside", "ε inside"]
    assert methods.promise_of("sldp-quantize", "points").cost("ε") == "2 ε inside"
    assert methods.promise_of("sldp-split", "points").cost("ε") == "ε inside"
    assert "0.05" in before[3]
    monkeypatch.setattr(methods, "PAPER_SHARE", 0.25)
    monkeypatch.setattr(methods, "DELTA", 0.01)
    after = costs()
    methods.promise_of.cache_clear()
    assert after[:3] == ["1.25 ε inside", "1.25 ε inside", "ε inside"]
    assert "0.01" in after[3]


def test_people_are_drawn_once_each_and_any_of_their_rows(options: FigureOptions) -> None:
    folder = with_people(options).data
    source = data.load("gowalla_more_users", folder)
    rows = read_points(source.path, labels=["user"]).labels["user"]
    people = len(np.unique(rows))
    lower, upper = np.array(source.box.lower), np.array(source.box.upper)
    where = {
        tuple(point): int(person) for point, person in zip((source.points - lower) / (upper - lower), rows, strict=True)
    }
    drawn = [
        data.sample_people("gowalla_more_users", people, np.random.default_rng(seed), folder=folder) for seed in (1, 2)
    ]
    for sample in drawn:
        assert sorted(where[tuple(point)] for point in sample) == sorted(set(rows.tolist()))
    assert not np.array_equal(np.sort(drawn[0], axis=0), np.sort(drawn[1], axis=0))
    with pytest.raises(InvalidInput, match=f"{people} people"):
        data.sample_people("gowalla_more_users", people + 1, np.random.default_rng(1), folder=folder)
    with pytest.raises(InvalidInput, match="does not tell"):
        data.sample_people("california_housing", 5, np.random.default_rng(1), folder=folder)
