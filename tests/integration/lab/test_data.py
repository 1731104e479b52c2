"""Datasets: found, checked, sampled as documented; nothing dropped without a note."""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from semilocal.datasets import california_housing
from semilocal.errors import InvalidInput, OutsideDomain
from semilocal.geometry.places import named_box
from semilocal.lab.experiments import data
from semilocal.lab.experiments.data import CATALOGUE, dataset

SHARED = Path(os.environ.get("SEMILOCAL_DATA") or Path(__file__).parents[4] / "shared" / "data")
REAL = [name for name, entry in CATALOGUE.items() if name != "geolife" and (SHARED / entry.variants[0].file).exists()]


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(data.VARIABLE, raising=False)


def put(folder: Path, file: str, *rows: tuple[float, float]) -> Path:
    """A small file in a data folder; rows are latitude, longitude."""
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "user,latitude,longitude\n" + "".join(f"1,{lat},{lon}\n" for lat, lon in rows)
    path.write_bytes(gzip.compress(text.encode()))
    return path


def test_the_shipped_sample_is_the_real_file() -> None:
    points, values = california_housing()
    assert points.shape == (20_640, 2)
    # known figures of the original (Pace and Barry 1997)
    assert round(float(values.mean()), 3) == 206_855.817
    named_box("california").check(points)
    positions = data.load("california_housing")
    assert np.array_equal(positions.points, points)
    assert not any("differs" in note for note in positions.notes)


@pytest.mark.parametrize("name", REAL)
def test_real_files_have_the_documented_rows_and_lie_in_their_box(name: str) -> None:
    positions = data.load(name, SHARED)
    variant = dataset(name).variants[0]
    assert len(positions.points) == variant.rows
    assert positions.box == variant.box
    assert not any("differs" in note for note in positions.notes)
    # strictly inside: scaled positions are below 1, so half-open boxes miss nobody at the border
    assert (positions.points > variant.box.lower).all()
    assert (positions.points < variant.box.upper).all()


def test_every_entry_says_what_a_user_must_know() -> None:
    for name, entry in CATALOGUE.items():
        assert entry.home.startswith("https://")
        assert entry.terms
        assert entry.citation
        assert any(variant.url for variant in entry.variants) or entry.by_hand or name == data.SHIPPED
        assert {"latitude", "longitude"} <= set(entry.columns)


def test_the_folder_comes_from_the_caller_or_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "gowalla.csv.gz", (30.25, -97.75))
    with pytest.raises(InvalidInput, match=data.VARIABLE):
        data.load("gowalla")
    assert data.load("gowalla", tmp_path).points.tolist() == [[-97.75, 30.25]]
    monkeypatch.setenv(data.VARIABLE, str(tmp_path))
    assert data.load("gowalla").path == tmp_path / "gowalla.csv.gz"
    monkeypatch.setenv(data.VARIABLE, str(tmp_path / "gowalla.csv.gz"))
    with pytest.raises(InvalidInput, match="is a file"):
        data.load("gowalla")


def test_a_missing_dataset_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"get it from https://snap\.stanford\.edu.*terms: research use"):
        data.load("gowalla", tmp_path)
    with pytest.raises(InvalidInput, match=r"get it from https://.*another folder"):
        data.load("geolife", tmp_path)
    with pytest.raises(InvalidInput, match="there are california_housing, gowalla"):
        data.load("atlantis", tmp_path)


def test_an_unknown_file_is_read_with_a_note(tmp_path: Path) -> None:
    put(tmp_path, "gowalla.csv.gz", (30.25, -97.75))
    assert any("checksum differs" in note for note in data.load("gowalla", tmp_path).notes)


def test_the_whole_of_snap_is_used_where_the_subset_is_not_there(tmp_path: Path) -> None:
    rows = b"7\tt\t-80.0\t179.0\tp\n7\tt\t0.0\t0.0\tp\n"
    (tmp_path / "loc-gowalla_totalCheckins.txt.gz").write_bytes(gzip.compress(rows))
    positions = data.load("gowalla", tmp_path)
    assert positions.box == named_box("world")
    assert positions.points.tolist() == [[179.0, -80.0]]
    assert "all of SNAP's check-ins" in positions.notes[0]
    assert positions.notes[2] == "position at exactly (0, 0): 1 left out"
    put(tmp_path, "gowalla.csv.gz", (30.25, -97.75))
    assert data.load("gowalla", tmp_path).path.name == "gowalla.csv.gz"


def test_positions_outside_the_box_are_refused(tmp_path: Path) -> None:
    put(tmp_path, "porto.csv.gz", (41.1, -8.6), (41.1, 8.6))
    with pytest.raises(OutsideDomain, match="1 of 2"):
        data.load("porto", tmp_path)


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = put(tmp_path, "gowalla.csv.gz", (30.25, -97.75))
    first = data.load("gowalla", tmp_path)
    assert data.load("gowalla", tmp_path) is first
    put(tmp_path, "gowalla.csv.gz", (30.25, -97.5))
    os.utime(path, ns=(1, 1))
    second = data.load("gowalla", tmp_path)
    assert second.points.tolist() == [[-97.5, 30.25]]
    assert second.fingerprint != first.fingerprint


def test_geolife_counts_what_lies_outside_beijing(tmp_path: Path) -> None:
    folder = tmp_path / "geolife" / "Data" / "000" / "Trajectory"
    folder.mkdir(parents=True)
    rows = ["39.9,116.4", "40.0,116.3", "400.17,116.4", "47.6,-122.3"]
    body = "".join(f"{one},0,492,39744.12,2008-10-23,02:53:04\r\n" for one in rows)
    (folder / "1.plt").write_text("h\n" * 6 + body)
    for where in (tmp_path, tmp_path / "geolife"):
        positions = data.load("geolife", where)
        assert positions.points.tolist() == [[116.4, 39.9], [116.3, 40.0]]
        assert any("latitude" in note and "1 left out" in note for note in positions.notes)
        assert any(note.startswith("point outside") and ": 1 left out" in note for note in positions.notes)


def test_a_sample_is_a_set_of_rows_scaled_by_the_public_box(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rows = [(float(lat), float(lon)) for lat, lon in zip(rng.uniform(39, 42, 50), rng.uniform(-9, -8, 50), strict=True)]
    put(tmp_path, "porto.csv.gz", *rows)
    everyone = data.sample_users("porto", 50, np.random.default_rng(1), folder=tmp_path)
    box = data.load("porto", tmp_path).box
    back = everyone * (np.array(box.upper) - box.lower) + box.lower
    assert np.allclose(np.sort(back[:, 1]), np.sort([lat for lat, _ in rows]), rtol=0, atol=1e-12)
    one = data.sample_users("porto", 7, np.random.default_rng(2), folder=tmp_path)
    same = data.sample_users("porto", 7, np.random.default_rng(2), folder=tmp_path)
    other = data.sample_users("porto", 7, np.random.default_rng(3), folder=tmp_path)
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
    assert len({tuple(point) for point in one}) == 7  # without replacement
    for n in (0, 51):
        with pytest.raises(InvalidInput, match="between 1 and the 50"):
            data.sample_users("porto", n, rng, folder=tmp_path)


def test_every_row_is_drawn_equally_often(tmp_path: Path) -> None:
    """5 of 20 rows, 4,000 times: each row comes Bin(4000, 1/4) times.

    Bounds at 6.5 standard deviations: a normal tail of 8e-11 per row, below 1e-8 for all twenty.
    The planted bug draws the first rows only, as a loader that cuts the file off would.
    """
    put(tmp_path, "porto.csv.gz", *[(39 + place / 10, -8.5) for place in range(20)])
    rng = np.random.default_rng(8)
    source = data.load("porto", tmp_path)
    latitudes = (source.points[:, 1] - source.box.lower[1]) / (source.box.upper[1] - source.box.lower[1])

    def counts(draw_from: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        drawn = np.zeros(20, dtype=np.int64)
        for _ in range(4000):
            if draw_from == 20:
                points = data.sample_users("porto", 5, rng, folder=tmp_path)[:, 1]
            else:
                points = latitudes[rng.choice(draw_from, 5, replace=False)]
            drawn += np.isin(latitudes, points)
        return drawn

    far = 6.5 * np.sqrt(4000 * 3 / 16)
    assert (np.abs(counts(20) - 1000) < far).all()
    assert (np.abs(counts(15) - 1000) > far).any()


@pytest.mark.skipif(not SHARED.exists(), reason="needs the real files")
def test_a_damaged_real_file_is_seen(tmp_path: Path) -> None:
    (tmp_path / "extra").mkdir()
    copy = Path(shutil.copyfile(SHARED / "extra" / "gowalla_nyc.csv.gz", tmp_path / "extra" / "gowalla_nyc.csv.gz"))
    content = bytearray(copy.read_bytes())
    content[len(content) // 2] ^= 1
    copy.write_bytes(content)
    with pytest.raises(InvalidInput, match="gowalla_nyc"):
        data.load("gowalla_nyc", tmp_path)
