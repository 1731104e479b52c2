"""The same seed takes the same row of everybody, and gives the same means of a column, in every engine of files."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import semilocal as sl
from semilocal.engines import Engine, open_source
from semilocal.engines.run import run_source
from semilocal.engines.source import Source
from semilocal.errors import InvalidInput
from semilocal.pooled.task import PooledTask
from semilocal.release.counts import pooled_counts, run_pooled
from semilocal.release.means import pooled_mean
from semilocal.simulation.people import draw_key
from tests.helpers.engine_runs import box_of, people

pyarrow = pytest.importorskip("pyarrow")
csv, parquet = pytest.importorskip("pyarrow.csv"), pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")  # Spark's own, about versions of pandas

BOX = box_of(2)
ROWS = 3000
POINTS = people(ROWS, 2, kind="rounded")  # many rows of a person are the same
USERS = np.array([f"u{number}" for number in np.random.default_rng(2).integers(0, 900, ROWS)])
FARES = np.round(np.random.default_rng(3).gamma(4.0, 5.0, ROWS).clip(0.0, 100.0), 2)


def write(folder: Path, form: str) -> Path:
    """Files whose names are not in the order of their sizes, so that an engine that begins with large ones is seen."""
    columns = {"x": POINTS[:, 0], "y": POINTS[:, 1], "user": USERS, "fare": FARES}
    table = pyarrow.table(columns)
    for name, part in {"a": table[:200], "b b": table[200:2500], "c": table[2500:]}.items():
        if form == "csv":
            csv.write_csv(part, folder / f"{name}.csv")
        else:
            parquet.write_table(part, folder / f"{name}.parquet", row_group_size=300)
    return folder


@pytest.fixture(name="opens", params=["arrow", "duckdb"])
def _opens(request: pytest.FixtureRequest) -> Any:
    """Opens files."""
    engine: Engine = request.param
    if engine == "duckdb":
        pytest.importorskip("duckdb")
    return partial(open_source, columns=["x", "y"], box=BOX, engine=engine)


@pytest.fixture(name="opens_also", params=["arrow", "duckdb", "spark"])
def _opens_also(request: pytest.FixtureRequest) -> Any:
    """Opens files; in Spark a frame of their rows."""
    if request.param != "spark":
        return partial(open_source, columns=["x", "y"], box=BOX, engine=request.param)
    spark = request.getfixturevalue("spark")

    def opens(rows: Path, **named: Any) -> Source:
        files = sorted(rows.iterdir()) if rows.is_dir() else [rows]
        frame = spark.createDataFrame(pyarrow.concat_tables(list(map(parquet.read_table, files))))
        return open_source(frame, ["x", "y"], BOX, **named)

    return opens


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_files_give_the_rows_and_the_means_of_memory(opens: Any, tmp_path: Path, form: str) -> None:
    folder = write(tmp_path, form)
    named: dict[str, Any] = {"epsilon": 2.0, "trust": "curator", "rows_per_user": 2}
    rng = np.random.default_rng(6)
    source = opens(folder, person="user", rows_per_person=2, key=draw_key(rng), values=["fare"])
    there: Any = sl.mean(source, BOX, value="fare", range=(0, 100), rng=rng, **named)
    here: Any = sl.mean(
        POINTS, BOX, value=FARES, range=(0, 100), users=USERS, rng=np.random.default_rng(6), **named
    )  # fmt: skip
    assert (here.value, here.stderr, here.participants) == (there.value, there.stderr, there.participants)
    assert (there.guarantee.rows, there.guarantee.own) == (2, "fare from 0 to 100")
    assert here.participants == np.minimum(np.unique(USERS, return_counts=True)[1], 2).sum()


def test_noise_goes_to_the_same_rows_as_in_memory(opens: Any, tmp_path: Path) -> None:
    """Trust nobody: every row draws its own noise, in the order of the rows."""
    source = opens(write(tmp_path, "parquet"), values=["fare"], rows_are_people=True)
    named: dict[str, Any] = {"epsilon": 2.0, "delta": 0.05, "k": 20, "range": (0, 100)}
    there, here = (
        sl.values(rows, BOX, value=value, rng=np.random.default_rng(4), **named)
        for rows, value in ((source, "fare"), (POINTS, FARES))
    )
    assert np.array_equal(here.value, there.value)


def test_rows_with_a_column_of_people_need_a_word_about_them(opens_also: Any, tmp_path: Path) -> None:
    folder = write(tmp_path, "parquet")
    with pytest.raises(InvalidInput, match=r"'user' looks like a person.*person='user'.*rows_are_people=True"):
        opens_also(folder)
    with pytest.raises(InvalidInput, match="person or rows_are_people, not both"):
        opens_also(folder, person="user", rows_are_people=True)
    assert opens_also(folder, rows_are_people=True).count() == ROWS
    assert opens_also(folder, person="user").count() == len(np.unique(USERS))


def test_results_say_of_how_many_rows_one_each_was_drawn(opens_also: Any, tmp_path: Path) -> None:
    found = sl.counts(opens_also(write(tmp_path, "parquet"), person="user"), BOX, epsilon=1.0, trust="curator")
    assert f"{len(np.unique(USERS)):,} people, one row each of {ROWS:,}" in repr(found)


@pytest.mark.parametrize(("named", "words"), [
    ({"value": "fare", "range": (0, 10)}, "fare: .* of 3,000 values are outside the public range 0 to 10"),
    ({"value": "tip", "range": (0, 10)}, "no column 'tip'"),
    ({"value": "user", "range": (0, 10)}, "'user' holds .*not numbers"),
    ({"value": "fare"}, "fare needs its public range"),
])  # fmt: skip
def test_columns_that_are_no_values_are_refused(
    opens_also: Any, tmp_path: Path, named: dict[str, Any], words: str
) -> None:
    source = opens_also(write(tmp_path, "parquet"), rows_are_people=True)
    with pytest.raises(InvalidInput, match=words):
        sl.mean(source, BOX, epsilon=1.0, trust="curator", **named)


def test_values_of_rows_that_are_not_chosen_are_checked_too(opens_also: Any, tmp_path: Path) -> None:
    """Whether a job is refused must not hang on which row was chosen."""
    fares = np.where(np.arange(ROWS) == 5, 900.0, FARES)
    table = pyarrow.table({"x": POINTS[:, 0], "y": POINTS[:, 1], "user": np.zeros(ROWS, np.int64), "fare": fares})
    parquet.write_table(table, tmp_path / "a.parquet")
    source = opens_also(tmp_path / "a.parquet", person="user", values=["fare"])
    with pytest.raises(InvalidInput, match="fare: 1 of 3,000 values are outside"):
        sl.mean(source, BOX, value="fare", range=(0, 100), epsilon=1.0, trust="curator")


def test_a_source_with_several_rows_of_a_person_promises_to_people(tmp_path: Path) -> None:
    """A source knows how many rows people have; releases that are put together by hand say so, too."""
    pytest.importorskip("pyarrow")
    box, x = box_of(2), sl.functions.coordinate(0)
    source = open_source(
        write(tmp_path, "parquet"), ["x", "y"], box, engine="arrow", person="user", rows_per_person=3, key=5
    )
    rng = np.random.default_rng(1)
    run = run_source(source, sl.Task.build(box, epsilon=2.0, delta=1e-3, k=20), rng=rng)
    for found, loss in (
        (sl.release.counts(run), 6.0), (sl.release.mean(run, source, x, epsilon=1.0, rng=rng), 9.0),
        (sl.release.values(run, source, x, epsilon=1.0, rng=rng), 9.0),
    ):  # fmt: skip
        assert found.guarantee.rows == 3
        assert found.guarantee.epsilon == float(found.spent.epsilon) == loss
        assert "20 rows in it, of at least 7 people, except with probability 0.003" in found.guarantee.sentence()
    one, three = (PooledTask.build(box, epsilon=1.0, trust="curator", max_reports=rows) for rows in (1, 3))
    for refused in (
        lambda: run_pooled(one, source, rng=rng), lambda: pooled_mean(one, source, x, rng=rng),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=r"up to 3 rows of every person.*max_reports=3"):
            refused()
    assert pooled_counts(run_pooled(three, source, rng=rng)).guarantee.rows == 3
