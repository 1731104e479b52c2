"""The live demo: a server process and real devices over HTTP."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from semilocal.cli.commands import demo as live_demo
from semilocal.cli.main import main


@pytest.mark.slow
def test_the_live_demo_collects_from_every_device_and_publishes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(live_demo, "DEVICES", 80)
    assert main(["demo", "--live", "--seed", "1", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "80 devices: 80 finished" in said
    assert "80 participants in" in said
    assert "Largest loss, releases included: epsilon = 3 (delta = 0) between any two places of one's region" in said
    features = json.loads((tmp_path / "live-regions.geojson").read_text("utf-8"))["features"]
    assert sum(feature["properties"].get("crowd", 0) for feature in features) == 80
