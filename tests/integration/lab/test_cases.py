"""The catalogue: our mechanisms hold, and what is wrong on purpose is caught.

Each bound has confidence 1 - 1e-6: a sound mechanism is called broken with at most that probability per finding.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from semilocal import Task
from semilocal.hierarchy.tables import from_labels
from semilocal.lab.audit import exact, finding_table
from semilocal.lab.audit.cases import CASES, Finding, crowds, default_task, pooled
from semilocal.pooled import noise
from semilocal.pooled.counter import RankedCounter
from semilocal.pooled.play import next_level
from semilocal.pooled.task import UNITS
from semilocal.protocol import thresholds
from tests.helpers.commands import refused, run


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_every_claim_of_ours_holds_and_every_planted_fault_is_caught(
    case: Callable[[int, np.random.Generator], list[Finding]],
) -> None:
    findings = case(20_000, np.random.default_rng(17))
    assert findings
    for finding in findings:
        assert finding.verdict in ("holds", "caught"), finding


def test_a_test_that_is_too_lax_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: every question may err with twice its level."""
    assert {finding.verdict for finding in crowds(4000, np.random.default_rng(3))} == {"holds", "caught"}
    right = thresholds.threshold

    def lax(askable: int, asked: int, k: int, epsilon: float, level: float) -> int:
        return right(askable, asked, k, epsilon, 2 * level)

    monkeypatch.setattr(exact, "threshold", lax)
    found = [finding.verdict for finding in crowds(4000, np.random.default_rng(3))]
    assert found[:2] == ["BROKEN", "BROKEN"]


def half_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    right = noise.draw
    monkeypatch.setattr(noise, "draw", lambda unit, units, words: right(2 * unit, units, words))


def half_the_noise_of_the_system_s_words(monkeypatch: pytest.MonkeyPatch) -> None:
    right = noise.Fresh.heads
    monkeypatch.setattr(noise.Fresh, "heads", lambda *given: np.maximum(right(*given), np.uint8(64)))


def one_noise_for_two_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    def noisy(counter: Any, exact: Any, units: Any) -> Any:
        return exact + noise.draw(counter._task.unit, units, counter._words)

    monkeypatch.setattr(RankedCounter, "_noisy", noisy)


def a_budget_that_is_not_subtracted(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(*given: Any) -> Any:
        below = next_level(*given)
        return replace(below, left=np.full_like(below.left, UNITS))

    monkeypatch.setattr(import_module("semilocal.pooled.play"), "next_level", forgetful)


FAULTS: dict[Callable[[pytest.MonkeyPatch], None], list[str]] = {
    half_the_noise: ["BROKEN", "BROKEN"],
    half_the_noise_of_the_system_s_words: ["BROKEN", "holds"],
    one_noise_for_two_servers: ["holds", "BROKEN"],
    a_budget_that_is_not_subtracted: ["BROKEN", "BROKEN"],
}


@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__)
def test_a_fault_in_the_real_pooled_tree_is_caught(
    monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None]
) -> None:
    plant(monkeypatch)
    found = [finding.verdict for finding in pooled(20_000, np.random.default_rng(3)) if not finding.broken]
    assert found == FAULTS[plant]  # curator, two servers


def test_findings_know_when_they_are_contradicted() -> None:
    assert Finding("x", "epsilon", 1.0, 0.9, "exact").verdict == "holds"
    assert Finding("x", "epsilon", 1.0, 1.1, "exact").verdict == "BROKEN"
    assert Finding("x", "epsilon", 1.0, 0.9, "exact", broken=True).verdict == "MISSED"
    assert Finding("x", "epsilon", 1.0, 1.1, "exact", broken=True).verdict == "caught"
    table = finding_table([Finding("x", "share", 0.05, 0.01, "99 %", upper=0.04)])
    assert ">= 0.01, at most 0.04" in table


def test_the_command_audits_a_task_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "task.json"
    path.write_bytes(msgspec.json.encode(default_task()))
    code, out, _ = run(capsys, "audit", "--task", path, "--runs", "5000")
    assert code == 0
    assert "holds" in out
    assert "delta 0" in out
    path.write_text("{}")
    assert "holds no task" in refused(capsys, "audit", "--task", path)


def test_a_table_is_attacked_too(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path, paths = tmp_path / "task.json", [["a", "x"], ["a", "y"], ["b", "z"], ["b", "w"], ["c"]]
    task = Task.build(hierarchy=from_labels("code", paths), epsilon=2.0, delta=1e-3, k=20)
    path.write_bytes(msgspec.json.encode(task))
    code, out, _ = run(capsys, "audit", "--task", path, "--runs", "4000")
    assert code == 0
    measured = [float(found) for found in re.findall(r"transcript, .*>= ([\d.]+) \| holds", out)]
    assert len(measured) == 2
    assert min(measured) > 0.5


def test_a_task_in_which_nothing_can_be_attacked_is_refused_with_the_reason(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """One round: everybody enrols, and nobody is asked anything."""
    path = tmp_path / "task.json"
    task = default_task(max_rounds=1)
    path.write_bytes(msgspec.json.encode(task))
    said = refused(capsys, "audit", "--task", path, "--runs", "4000")
    assert "hardly anybody is asked about places inside its region" in said
    assert "Audit a task whose regions have parts" in said
