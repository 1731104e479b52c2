"""Trials for tests of the runner. Every worker process loads this file, so it loads little."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from semilocal.lab.experiments.runner import Trial


def draw(trial: Trial) -> list[dict[str, Any]]:
    """Work that uses its generator, and gives numpy scalars of all kinds."""
    value = trial.rng().normal(size=trial["n"])
    people = trial.shared_rng("n").random()
    return [{"mean": value.mean(), "people": people, "n2": np.int64(trial["n"] ** 2), "ok": np.bool_(True), "no": None}]


def slow_draw(trial: Trial) -> list[dict[str, Any]]:
    """Writes the call down; later trials wait while there is a file beside that list."""
    path = Path(os.environ.get("SEMILOCAL_TEST_CALLS", os.devnull))
    with path.open("a") as calls:
        calls.write(f"{trial.run}\n")
    while trial.run >= 12 and path.with_suffix(".wait").exists():
        time.sleep(0.02)
    return draw(trial)


def explode(trial: Trial) -> list[dict[str, Any]]:
    if trial.run == 3:
        raise ZeroDivisionError("three")
    return draw(trial)
