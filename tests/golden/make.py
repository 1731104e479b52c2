"""The golden file: seeded answers of every kind of trust, the public names, help texts and roots of transcripts.

``python -m tests.golden.make`` writes it anew. Do so only where a change is meant to move answers, and say why.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

import semilocal as sl
from semilocal.arrays import Floats
from semilocal.hierarchy.tables import from_labels
from semilocal.protocol.promise import Trust
from semilocal.testing import cluster, secrets_of
from semilocal.transcript.checkpoints import transcript_root

FOLDER = Path(__file__).parent
ANSWERS, HELP = FOLDER / "answers.json", FOLDER / "help.txt"
TRUSTS: tuple[Trust, ...] = ("nobody", "curator", "two-servers")
PEOPLE = 6_000
COMMANDS = (
    "", "audit", "backup", "campaign", "counts", "demo", "join", "mean", "partition", "plan", "points",
    "reproduce", "results", "serve", "swarm", "tokens", "transcript", "verify",
)  # fmt: skip
_UNIT = sl.Box((0, 0), (1, 1))


def populations() -> dict[str, tuple[Floats, dict[str, Any]]]:
    """People and the options that say where they may be."""
    rng = np.random.default_rng(20_261_118)
    centres = np.array([[0.2, 0.3], [0.25, 0.8], [0.6, 0.55], [0.85, 0.2], [0.9, 0.9]])
    angle = rng.uniform(0, 2 * np.pi, PEOPLE)
    ring = 0.5 + 0.35 * np.stack([np.cos(angle), np.sin(angle)], axis=1) + rng.normal(0, 0.02, (PEOPLE, 2))
    towns = centres[rng.integers(0, 5, PEOPLE)] + rng.normal(0, 0.03, (PEOPLE, 2))
    cities = np.array([[13.4, 52.5], [-74.0, 40.7], [139.7, 35.7], [179.5, -16.5]])
    around = cities[rng.integers(0, 4, PEOPLE)] + rng.normal(0, 2.0, (PEOPLE, 2))
    around[:, 0] = (around[:, 0] + 180) % 360 - 180
    labels = from_labels("place", [(a, f"{a}{b}", f"{a}{b}{c}") for a in "ABC" for b in "123" for c in "xyz"])
    inside = {"box": _UNIT}
    return {
        "uniform": (rng.random((PEOPLE, 2)), inside),
        "towns": (np.clip(towns, 0, 1), inside),
        "ring": (np.clip(ring, 0, 1), inside),
        "line": (rng.beta(2, 5, (PEOPLE, 1)), {"box": sl.Box((0,), (1,))}),
        "cube": (rng.beta(2, 3, (PEOPLE, 3)), {"box": sl.Box((0, 0, 0), (1, 1, 1))}),
        "earth": (around, {"hierarchy": sl.SphereTree(24)}),
        "table": (rng.binomial(26, 0.3, (PEOPLE, 1)).astype(np.float64) + 0.5, {"hierarchy": labels}),
    }


def boxes_of(name: str, options: dict[str, Any]) -> Floats:
    """Boxes to ask about, small and large: float64[q, 2, d]."""
    box = options["box"] if "box" in options else options["hierarchy"].box
    lower, upper = np.array(box.lower), np.array(box.upper)
    rng = np.random.default_rng(len(name))
    side = np.exp(rng.uniform(np.log(0.02), np.log(0.6), (90, len(lower))))
    corner = rng.random(side.shape) * (1 - side)
    return np.stack([lower + corner * (upper - lower), lower + (corner + side) * (upper - lower)], axis=1)


def polygons_of(options: dict[str, Any]) -> list[dict[str, Any]]:
    """Triangles, as GeoJSON."""
    box = options["box"] if "box" in options else options["hierarchy"].box
    lower, upper = np.array(box.lower), np.array(box.upper)
    corners = lower + np.random.default_rng(5).random((12, 3, 2)) * (upper - lower) * 0.9
    rows = [[*triangle.tolist(), triangle[0].tolist()] for triangle in corners]
    return [{"type": "Polygon", "coordinates": [row]} for row in rows]


def numbers(answers: Any) -> list[list[float]]:
    """Value, standard error and 95 % interval of each answer."""
    rows: list[list[float]] = np.column_stack([answers.value, answers.stderr, answers.interval()]).tolist()
    return rows


def answers() -> dict[str, Any]:
    """About 2,000 seeded answers, by population, trust and question."""
    out: dict[str, Any] = {}
    for name, (points, options) in populations().items():
        for trust in TRUSTS:
            counted = sl.counts(points, epsilon=2.0, trust=trust, rng=np.random.default_rng(7), **options)
            rows = out[f"{name}, {trust}"] = {
                "regions": len(counted.partition),
                "crowds": np.asarray(counted.crowds, dtype=np.float64)[:20].tolist(),
                "intervals": counted.interval()[:20].tolist(),
            }
            if name != "table":
                rows["boxes"] = numbers(counted.query(boxes_of(name, options)))
            if name in ("uniform", "towns", "ring", "earth"):
                rows["polygons"] = numbers(counted.query(polygons_of(options)))
            if name in ("towns", "line", "cube"):
                rng = np.random.default_rng(8)
                found = sl.mean(points, sl.functions.squared_norm(), epsilon=2.0, trust=trust, rng=rng, **options)
                rows["mean"] = [float(found.value), float(found.stderr), *np.asarray(found.interval()).tolist()]
                rng = np.random.default_rng(9)
                moved = sl.points(points, epsilon=2.0, trust=trust, rng=rng, **options).points
                rows["points"] = moved.mean(axis=0).tolist()
    return out


def roots() -> dict[str, str]:
    """Roots of transcripts that devices with known secrets make."""
    out = {}
    for rule, task in {
        "cut": sl.Task.build(_UNIT, epsilon=1.0, k=10, delta=0.01),
        "all": sl.Task.paper(_UNIT, epsilon=2.0, k=10, delta=0.05),
    }.items():
        run = sl.simulate(cluster(300), task, secrets=secrets_of(300))
        out[rule] = transcript_root(list(run.events)).hex()
    task = sl.Task.build(_UNIT, epsilon=1.0)
    out["task"] = hashlib.sha256(task.id).hexdigest()
    return out


def frozen() -> dict[str, Any]:
    """All that the golden file holds beside help texts."""
    return {"names": sorted(sl.__all__), "roots": roots(), "answers": answers()}


def help_texts() -> str:
    """What every command says about itself, 100 columns wide."""
    from semilocal.cli.main import main

    out = []
    os.environ["COLUMNS"] = "100"  # what the help is wrapped to
    for command in COMMANDS:
        stream = io.StringIO()
        with contextlib.redirect_stdout(stream), contextlib.suppress(SystemExit):
            main([*([command] if command else []), "--help"])
        out.append(f"$ semilocal {command} --help\n{stream.getvalue()}")
    return "\n".join(out)


if __name__ == "__main__":
    ANSWERS.write_text(json.dumps(frozen(), indent=1) + "\n")
    HELP.write_text(help_texts())
