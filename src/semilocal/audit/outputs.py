"""Two worlds, one transcript: everything a command writes must be the same.

What is published must be a function of the public transcript. So two worlds are played with the same randomness in
which one participant lives at two different places, and in one of them a TRIM moves it. Where the transcripts of the
two plays happen to be equal, every byte that a command writes has to be equal too: words, JSON, files. If not, it
publishes something else, such as how many participants were moved.

Knows how to run a command as a person does, in a process of its own, whatever it prints.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..arrays import Floats
from ..errors import InvalidInput
from ..geometry.box import Box
from ..protocol.task import Task
from ..simulation.simulate import simulate

__all__ = ["COMMANDS", "OPTIONS", "Worlds", "differing", "equal_worlds", "outputs_of"]

FILE = "people.csv"
UNIT = Box((0.0, 0.0), (1.0, 1.0), names=("x", "y"))
EPSILON, DELTA, K, TAU = 2.0, 0.05, 40, 0.3
OPTIONS = (
    "--trust", "nobody", "--bounds", "0,0,1,1", "--epsilon", f"{EPSILON}", "--delta", f"{DELTA}", "--k", f"{K}",
    "--quiet",
)  # fmt: skip
# command, its own options, and the options of the task; each writes all that it can
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("partition", FILE, *OPTIONS, "--tau", f"{TAU}", "--out", "regions.geojson"),
    ("partition", FILE, *OPTIONS, "--tau", f"{TAU}", "--out", "regions.csv", "--json"),
    ("counts", FILE, *OPTIONS, "--tau", f"{TAU}", "--grid", "4x4", "--json"),
    ("counts", FILE, *OPTIONS, "--tau", f"{TAU}", "--grid", "4x4", "--out", "counts.csv"),
    # y is the same in both worlds and so few get no partition: the values are the transcript, and they are equal
    ("mean", FILE, *OPTIONS, "--function", "coordinate:y", "--json"),
)


class Worlds(NamedTuple):
    """The same people in two worlds, one of whom is moved in the second, and a seed that gives equal transcripts."""

    stayed: Floats
    moved: Floats
    seed: int


def equal_worlds(rng: np.random.Generator, *, tries: int = 20_000) -> Worlds:
    """Two worlds whose transcripts are equal under the same seed, although one participant is moved in the second.

    Raises
    ------
    InvalidInput
        If no seed was found: the worlds are too different.
    """
    task = Task.build(UNIT, epsilon=EPSILON, delta=DELTA, k=K, tau=TAU)
    # A TRIM cuts off the right half; then the halves are too small for a crowd, and the path ends.
    people = np.column_stack([np.full(60, 0.1), np.repeat([0.2, 0.8], 30)])
    stayed, moved = (np.concatenate([people, [[x, 0.2]]]) for x in (0.1, 0.9))
    for seed in rng.integers(0, 2**31, tries).tolist():
        one, other = (simulate(world, task, rng=np.random.default_rng(seed)) for world in (stayed, moved))
        if one.moves.any() or not other.moves.any() or len(one.rounds) != len(other.rounds):
            continue
        pairs = zip(one.rounds, other.rounds, strict=True)
        if all(np.array_equal(a.cells, b.cells) and np.array_equal(a.tally, b.tally)
               and np.array_equal(a.responders, b.responders) for a, b in pairs):  # fmt: skip
            return Worlds(stayed, moved, seed)
    raise InvalidInput(f"no equal transcripts in {tries} tries")


def outputs_of(command: Sequence[str], people: Floats, seed: int) -> dict[str, bytes]:
    """Everything a command writes in a folder that holds the people: by file name, stdout and stderr included."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [f"{x!r},{y!r}" for x, y in people.tolist()]
        (folder / FILE).write_text("\n".join(["x,y", *rows, ""]))
        source = str(Path(__file__).resolve().parents[2])
        program = f"import sys; sys.path.insert(0, {source!r}); from semilocal.cli.main import main; sys.exit(main())"
        done = subprocess.run(
            [sys.executable, "-c", program, *command, "--seed", str(seed)], cwd=folder, capture_output=True, check=False
        )
        if done.returncode:
            raise InvalidInput(f"{' '.join(command)} failed: {done.stderr.decode()[-500:]}")
        found = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != FILE}
    return {"stdout": done.stdout, "stderr": done.stderr, **found}


def differing(command: Sequence[str], worlds: Worlds) -> list[str]:
    """What a command writes differently in two worlds with the same transcript; nothing if it keeps the rule."""
    one, other = (outputs_of(command, world, worlds.seed) for world in (worlds.stayed, worlds.moved))
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
