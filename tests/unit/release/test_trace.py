"""How much of the package a question visits: what a contributor must read to change an answer."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import semilocal as sl

ROOT = str(Path(sl.__file__).parent)
POINTS = np.random.default_rng(1).beta(2, 5, (5_000, 2))
BOXES = np.sort(np.random.default_rng(2).random((50, 2, 2)), axis=1)


def visited(call: Callable[[], Any]) -> set[tuple[str, str]]:
    """Modules of the package and functions in them, without comprehensions, on all threads."""
    found = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(ROOT) and not code.co_name.startswith("<"):
            found.add((code.co_filename, f"{code.co_name}:{code.co_firstlineno}"))

    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    return found


@pytest.mark.parametrize("trust", ["nobody", "curator", "two-servers"])
def test_a_question_and_its_interval_visit_few_modules(trust: Any) -> None:
    """What answers a question on a finished run, from the tree on; and a whole call, with the protocol it plays."""

    def counted() -> sl.release.Counts:
        return sl.counts(POINTS, sl.Box((0, 0), (1, 1)), epsilon=1.0, trust=trust, rng=np.random.default_rng(1))

    result = counted()
    question = visited(lambda: result.query(BOXES).interval())
    whole = visited(lambda: counted().query(BOXES).interval())
    assert len({module for module, _ in question}) <= 17
    assert len(question) <= 120
    assert len({module for module, _ in whole}) <= (27 if trust == "nobody" else 21)
    assert len(whole) <= (240 if trust == "nobody" else 190)
