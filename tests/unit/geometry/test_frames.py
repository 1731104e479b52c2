"""Frames of every library give the same positions; what does not fit is refused by column and row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import semilocal as sl
from semilocal.engines import open_source
from semilocal.errors import InvalidInput
from semilocal.geometry.frames import degree_names, frame_points

pytest.importorskip("narwhals")
BOX = sl.Box((-10, 40), (10, 60), names=("lon", "lat"))
POINTS = np.random.default_rng(1).uniform((-10, 40), (10, 60), (400, 2))
PERSON = [f"p{row // 2}" for row in range(400)]
COLUMNS: dict[str, Any] = {"person": PERSON, "lat": POINTS[:, 1], "lon": POINTS[:, 0], "fare": np.arange(400) % 50}


def pandas_frame(columns: dict[str, Any]) -> Any:
    return pytest.importorskip("pandas").DataFrame(columns)


def polars_frame(columns: dict[str, Any]) -> Any:
    return pytest.importorskip("polars").DataFrame(columns)


def arrow_table(columns: dict[str, Any]) -> Any:
    return pytest.importorskip("pyarrow").table(columns)


def duckdb_relation(columns: dict[str, Any]) -> Any:
    return pytest.importorskip("duckdb").from_arrow(arrow_table(columns))


def geo_frame(columns: dict[str, Any]) -> Any:
    geopandas = pytest.importorskip("geopandas")
    others = {name: column for name, column in columns.items() if name not in ("lon", "lat")}
    places = geopandas.points_from_xy(columns["lon"], columns["lat"])
    return geopandas.GeoDataFrame(others, geometry=places, crs=4326)


FRAMES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": pandas_frame,
    "polars": polars_frame,
    "polars lazy": lambda columns: polars_frame(columns).lazy(),
    "arrow": arrow_table,
    "duckdb": duckdb_relation,
    "geopandas": geo_frame,
}
every = pytest.mark.parametrize("kind", FRAMES)
tables = pytest.mark.parametrize("kind", [kind for kind in FRAMES if kind != "geopandas"])


@every
def test_every_frame_gives_the_positions_in_the_order_of_the_axes(kind: str) -> None:
    frame = FRAMES[kind](COLUMNS)
    assert np.array_equal(BOX.check(frame), POINTS)
    turned = sl.Box((40, -10), (60, 10), names=("latitude", "longitude"))
    assert np.array_equal(turned.check(FRAMES[kind](COLUMNS)), POINTS[:, ::-1])


@every
def test_a_job_on_a_frame_is_the_job_on_its_arrays(kind: str) -> None:
    def seeded() -> Any:
        return {"epsilon": 2.0, "trust": "curator", "rng": np.random.default_rng(3)}

    frame = FRAMES[kind](COLUMNS)
    plain = sl.counts(POINTS, BOX, users=PERSON, **seeded())
    assert np.array_equal(sl.counts(frame, BOX, users="person", **seeded()).crowds, plain.crowds)
    assert plain.total == 200
    fares = sl.mean(frame, BOX, value="fare", range=(0, 50), users="person", **seeded())
    by_hand = sl.mean(POINTS, BOX, value=COLUMNS["fare"], range=(0, 50), users=PERSON, **seeded())
    assert fares.value == by_hand.value
    assert "fare" in str(fares.spent)


HEIGHT = sl.functions.coordinate(1)
JOBS: dict[str, Callable[..., Any]] = {
    "counts": lambda frame, **named: sl.counts(frame, BOX, trust="curator", **named),
    "partition": lambda frame, **named: sl.partition(frame, BOX, trust="nobody", **named),
    "points": lambda frame, **named: sl.points(frame, BOX, trust="curator", **named),
    "mean": lambda frame, **named: sl.mean(frame, HEIGHT, BOX, trust="curator", **named),
    "mean of a column": lambda frame, **named: sl.mean(
        frame, BOX, value="fare", range=(0, 50), trust="curator", **named
    ),
    "cell_means": lambda frame, **named: sl.cell_means(frame, HEIGHT, BOX, trust="curator", **named),
    "values": lambda frame, **named: sl.values(frame, HEIGHT, BOX, delta=0.05, k=20, **named),
}


@every
@pytest.mark.parametrize("job", JOBS)
def test_rows_that_repeat_a_person_are_refused_by_every_job(kind: str, job: str) -> None:
    def run(columns: dict[str, Any], **named: Any) -> Any:
        return JOBS[job](FRAMES[kind](columns), epsilon=2.0, rng=np.random.default_rng(3), **named)

    with pytest.raises(InvalidInput, match=r"'person' looks like a person, .* users='person' .* rows_are_people=True"):
        run(COLUMNS)
    run(COLUMNS, users="person")
    run(COLUMNS, users=PERSON)
    run(COLUMNS, rows_are_people=True)
    run(COLUMNS | {"person": np.arange(400)})
    with pytest.raises(InvalidInput, match="users or rows_are_people, not both"):
        run(COLUMNS, users="person", rows_are_people=True)


@tables
def test_the_value_that_is_asked_for_is_no_person(kind: str) -> None:
    frame = FRAMES[kind]({name: COLUMNS[name] for name in ("lat", "lon")} | {"vehicles": np.arange(400.0) % 4})
    named: dict[str, Any] = {"epsilon": 2.0, "trust": "curator", "rng": np.random.default_rng(3)}
    assert 1 < sl.mean(frame, BOX, value="vehicles", range=(0, 4), **named).value < 2
    with pytest.raises(InvalidInput, match="'vehicles' looks like a person"):
        sl.counts(frame, BOX, **named)


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("levels", [["person"], ["person", "row"]])
@pytest.mark.parametrize("kind", ["pandas", "geopandas"])
def test_an_index_that_repeats_a_person_is_refused_too(kind: str, levels: list[str], job: str) -> None:
    frame = FRAMES[kind](COLUMNS)
    indexed = frame.assign(row=np.arange(400)).set_index(levels)
    named = {"epsilon": 2.0, "rng": np.random.default_rng(3)}
    with pytest.raises(InvalidInput, match="'person' looks like a person"):
        JOBS[job](indexed, **named)
    JOBS[job](indexed, users="person", **named)
    JOBS[job](indexed, rows_are_people=True, **named)
    JOBS[job](frame.assign(person=np.arange(400)).set_index("person"), **named)


@tables
def test_a_population_is_people_too(kind: str) -> None:
    task = sl.Task.build(BOX, epsilon=2.0, delta=0.05, k=20)
    rng = np.random.default_rng(3)
    with pytest.raises(InvalidInput, match=r"'person' looks like a person, .*draw_rows\(frame\['person'\], rng=rng\)"):
        sl.simulate(FRAMES[kind](COLUMNS), task, rng=rng)
    alone = {name: COLUMNS[name] for name in ("lat", "lon")}
    assert sl.simulate(FRAMES[kind](alone), task, rng=rng).participants == 400


@tables
def test_rows_of_nobody_repeat_nobody(kind: str) -> None:
    blank = COLUMNS | {"person": ["ann", " ", "", "bob", *[None] * 396]}
    assert sl.counts(FRAMES[kind](blank), BOX, epsilon=1.0, trust="curator").total == 400
    twice = FRAMES[kind](COLUMNS | {"person": ["ann", " ann", *[None] * 398]})
    with pytest.raises(InvalidInput, match="looks like a person"):
        sl.counts(twice, BOX, epsilon=1.0, trust="curator")


def test_geoseries_and_single_columns_are_positions() -> None:
    assert np.array_equal(BOX.check(geo_frame(COLUMNS).geometry), POINTS)
    assert degree_names(geo_frame(COLUMNS)) == ("longitude", "latitude"), "bounds may be four numbers"
    line = sl.Box((0,), (50,), names=("fare",))
    expected = COLUMNS["fare"].astype(float)[:, None]
    for kind in FRAMES:
        if kind != "geopandas":
            assert np.array_equal(line.check(FRAMES[kind](COLUMNS)), expected)
    assert np.array_equal(line.check(pandas_frame(COLUMNS)["fare"]), expected)
    assert np.array_equal(line.check(polars_frame(COLUMNS)["fare"]), expected)


@tables
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"lon": None}, "no column for the axis 'lon'; it has .*'lat'.*names="),
        ({"lon": ["a"] * 400}, "column 'lon' holds String, not numbers"),
        ({"lon": [*POINTS[:7, 0], None, *POINTS[8:, 0]]}, "column 'lon' is empty in 1 of 400 rows, the first is row 7"),
        ({"Lon": POINTS[:, 0], "lng": POINTS[:, 0], "lon": None}, "could all be the axis 'lon'"),
    ],
)
def test_frames_that_do_not_fit_are_refused_by_name(kind: str, change: dict[str, Any], words: str) -> None:
    columns = {name: column for name, column in (COLUMNS | change).items() if column is not None}
    if kind == "pandas" and "empty" in words:
        columns["lon"] = pytest.importorskip("pandas").array(columns["lon"], dtype="Float64")
    with pytest.raises(InvalidInput, match=words):
        BOX.check(FRAMES[kind](columns))


def test_columns_of_objects_are_refused() -> None:
    pandas = pytest.importorskip("pandas")
    mixed = pandas.DataFrame({"lon": pandas.Series([1.0, "2"], dtype=object), "lat": [50.0, 50.0]})
    with pytest.raises(InvalidInput, match=r"column 'lon' holds .*, not numbers"):
        BOX.check(mixed)
    with pytest.raises(InvalidInput, match="all strings or all whole numbers"):
        sl.draw_rows(np.array(["ann", None, 3], dtype=object), rng=np.random.default_rng(1))
    with pytest.raises(InvalidInput, match="1 of 2 points are NaN or infinite, the first at index 1"):
        BOX.check(pandas.DataFrame({"lon": [1.0, np.inf], "lat": [50.0, 50.0]}))


def test_the_reference_system_of_points_is_checked_and_named() -> None:
    frame = geo_frame(COLUMNS)
    with pytest.raises(InvalidInput, match=r"the points have no CRS.*set_crs\(4326\)"):
        BOX.check(frame.set_crs(None, allow_override=True))
    with pytest.raises(InvalidInput, match=r"EPSG:3857 .*to_crs\(4326\)"):
        BOX.check(frame.to_crs(3857))
    frame.loc[5, "geometry"] = None
    with pytest.raises(InvalidInput, match="row 5 is missing, not a Point"):
        BOX.check(frame)
    with pytest.raises(InvalidInput, match="row 0 is Polygon, not a Point"):
        BOX.check(geo_frame(COLUMNS).to_crs(3857).buffer(1.0).to_crs(4326))


def test_names_of_columns_need_a_frame_that_has_them() -> None:
    with pytest.raises(InvalidInput, match="users='person' names a column; give the points as a data frame"):
        sl.counts(POINTS, BOX, epsilon=1.0, trust="curator", users="person")
    with pytest.raises(InvalidInput, match="no column 'nobody'; it has 'person'"):
        sl.counts(polars_frame(COLUMNS), BOX, epsilon=1.0, trust="curator", users="nobody")
    with pytest.raises(InvalidInput, match="one column is one dimension"):
        frame_points(pandas_frame(COLUMNS)["fare"], BOX)


def test_two_columns_of_one_name_are_refused() -> None:
    frame = pandas_frame(COLUMNS).rename(columns={"fare": "lat"})
    with pytest.raises(InvalidInput, match="two columns of the frame have the same name"):
        sl.counts(frame, BOX, epsilon=1.0, trust="curator", users="person")


@pytest.mark.parametrize("job", ["counts", "mean"])
@pytest.mark.parametrize("kind", ["pandas", "geopandas"])
def test_users_beside_a_frame_must_have_its_index(kind: str, job: str) -> None:
    frame = FRAMES[kind](COLUMNS)
    users = frame.pop("person")
    named: Any = {"epsilon": 2.0, "rng": np.random.default_rng(3)}
    for other in (users[::-1], users.set_axis(users.index + 1), users.sort_values(kind="stable")):
        with pytest.raises(InvalidInput, match=r"users has another index than the points, .*users\.to_numpy\(\)"):
            JOBS[job](frame, users=other, **named)
        JOBS[job](frame, users=other.to_numpy(), **named)
        JOBS[job](frame, users=other.tolist(), **named)
        sl.counts(POINTS, BOX, trust="curator", users=other, **named)  # an array has no index
    JOBS[job](frame, users=users, **named)
    with pytest.raises(InvalidInput, match="users must be 400, one per row"):
        JOBS[job](frame, users=users[1:], **named)


def test_values_beside_a_frame_must_have_its_index() -> None:
    frame = pandas_frame(COLUMNS)
    named: Any = {"range": (0, 50), "users": "person", "epsilon": 2.0, "trust": "curator"}
    sl.mean(frame, BOX, value=frame["fare"], **named)
    with pytest.raises(InvalidInput, match="value has another index than the points"):
        sl.mean(frame, BOX, value=frame["fare"][::-1], **named)


@every
def test_positions_and_values_are_nobody(kind: str) -> None:
    frame, named = FRAMES[kind](COLUMNS), {"epsilon": 2.0, "rng": np.random.default_rng(3)}
    with pytest.raises(InvalidInput, match="users='lat': this column holds positions or values"):
        JOBS["counts"](frame, users="lat", **named)
    with pytest.raises(InvalidInput, match="users='fare': this column holds positions or values"):
        JOBS["mean of a column"](frame, users="fare", **named)


def test_positions_of_a_source_are_nobody() -> None:
    with pytest.raises(InvalidInput, match="person='lat': this column holds positions or values"):
        open_source(arrow_table(COLUMNS), ["lon", "lat"], BOX, person="lat")
