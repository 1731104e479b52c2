"""The live demo: a server process and real devices over HTTP."""

from __future__ import annotations

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
    assert "with 80 participants (public by design)" in said
    assert "nobody: epsilon = 2 (delta = 0), local DP" in said
    assert len(said.splitlines()) <= 25
    assert [path.name for path in tmp_path.iterdir()] == ["live.html"]
