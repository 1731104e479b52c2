"""Seeded answers, public names, help texts and transcript roots are those of the golden file (``make.py``)."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import semilocal
from tests.golden import make

pytestmark = pytest.mark.slow

WHOLE: dict[str, Any] = json.loads(make.ANSWERS.read_text())


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    return make.answers()


def differences(stored: Any, computed: Any, path: str = "") -> list[str]:
    """Where two trees of numbers differ by more than 1e-9 of the stored number, or of a person."""
    if isinstance(stored, dict):
        if not isinstance(computed, dict) or stored.keys() != computed.keys():
            return [path]
        return [line for key in stored for line in differences(stored[key], computed[key], f"{path}/{key}")]
    old, new = np.asarray(stored, dtype=np.float64), np.asarray(computed, dtype=np.float64)
    if old.shape != new.shape:
        return [f"{path}: {old.shape} became {new.shape}"]
    off = ~np.isclose(new, old, rtol=1e-9, atol=1e-9)
    return [f"{path}: {np.count_nonzero(off)} of {off.size} numbers"] if off.any() else []


def test_answers_are_those_of_the_golden_file(answers: dict[str, Any]) -> None:
    assert differences(WHOLE["answers"], answers) == []


def test_a_changed_answer_is_noticed(answers: dict[str, Any]) -> None:
    changed = json.loads(json.dumps(answers))
    changed["towns, curator"]["boxes"][3][1] *= 1 + 1e-8
    assert differences(WHOLE["answers"], changed) == ["/towns, curator/boxes: 1 of 360 numbers"]
    del changed["ring, nobody"]["polygons"]
    assert "/ring, nobody" in differences(WHOLE["answers"], changed)


def test_public_names_stay_and_may_be_more() -> None:
    assert set(WHOLE["names"]) <= set(semilocal.__all__)


def test_transcript_roots_are_those_of_the_golden_file() -> None:
    assert make.roots() == WHOLE["roots"]


def test_help_texts_are_those_of_the_golden_file() -> None:
    assert make.help_texts() == make.HELP.read_text()
