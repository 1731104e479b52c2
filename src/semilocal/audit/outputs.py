"""Two worlds, one transcript: everything a command writes must be the same.

What is published must be a function of the public transcript. So two worlds are played with the same randomness in
which one participant lives at two different places, and in one of them a TRIM moves it. Where the transcripts of the
two plays happen to be equal, every byte that a command writes has to be equal too: words, JSON, files. If not, it
publishes something else, such as how many participants were moved.

Knows how to run a command as a person does, in a process of its own, whatever it prints.
"""

from __future__ import annotations

import json
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

__all__ = ["COMMANDS", "FILE", "OPTIONS", "SHARED", "CommandRun", "Worlds", "differing", "equal_worlds", "outputs_of"]

FILE = "people.csv"
UNIT = Box((0.0, 0.0), (1.0, 1.0), names=("x", "y"))
EPSILON, DELTA, K, TAU = 2.0, 0.05, 40, 0.3
_TRIES = 20_000  # seeds
OPTIONS = (
    "--trust", "nobody", "--bounds", "0,0,1,1", "--epsilon", f"{EPSILON}", "--delta", f"{DELTA}", "--k", f"{K}",
    "--quiet",
)  # fmt: skip
# command, its own options, and the options of the task; each writes all that it can
SHARED = (FILE, *OPTIONS, "--tau", f"{TAU}")
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("partition", *SHARED, "--out", "regions.geojson"),
    ("partition", *SHARED, "--out", "regions.csv", "--json"),
    ("partition", *SHARED, "--html", "map.html", "--explain"),
    ("counts", *SHARED, "--grid", "4x4", "--json"),
    ("counts", *SHARED, "--grid", "4x4", "--out", "counts.csv"),
    ("points", *SHARED, "--out", "points.csv"),
    # y is the same in both worlds and so few get no partition: the values are the transcript, and they are equal
    ("mean", FILE, *OPTIONS, "--function", "coordinate:y", "--json"),
)


# Every command runs in a process of its own, forked from one that has loaded what they need.
_FORKS = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
import scipy.special, semilocal.cli.parser, semilocal.cli.jobs, semilocal.io.queries, semilocal.io.regions
from semilocal.cli.main import main
for folder, *words in json.load(sys.stdin):
    child = os.fork()
    if not child:
        os.chdir(folder)
        for number, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT, 0o600), number)
        sys.argv = ["semilocal", *words]
        sys.exit(main())
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        with open(os.path.join(folder, "stderr")) as said:
            sys.exit(f"{' '.join(words)} failed: {said.read()[-400:]}")
"""


class Worlds(NamedTuple):
    """The same people in two worlds, one of whom is moved in the second, and a seed that gives equal transcripts."""

    stayed: Floats
    moved: Floats
    seed: int


def equal_worlds(rng: np.random.Generator) -> Worlds:
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
    for seed in rng.integers(0, 2**31, _TRIES).tolist():
        one, other = (simulate(world, task, rng=np.random.default_rng(seed)) for world in (stayed, moved))
        if one.moves.any() or not other.moves.any() or len(one.rounds) != len(other.rounds):
            continue
        pairs = zip(one.rounds, other.rounds, strict=True)
        if all(np.array_equal(a.cells, b.cells) and np.array_equal(a.tally, b.tally)
               and np.array_equal(a.responders, b.responders) for a, b in pairs):  # fmt: skip
            return Worlds(stayed, moved, seed)
    raise InvalidInput(f"no equal transcripts in {_TRIES} tries")


class CommandRun(NamedTuple):
    """A command, the people in its file, and its seed."""

    command: Sequence[str]
    people: Floats
    seed: int


def outputs_of(jobs: Sequence[CommandRun]) -> list[dict[str, bytes]]:
    """Everything that each command writes in a folder of its own: by file name, stdout and stderr included."""
    with tempfile.TemporaryDirectory() as name:
        folders = [Path(name) / str(number) for number in range(len(jobs))]
        for job, folder in zip(jobs, folders, strict=True):
            folder.mkdir()
            rows = [f"{x!r},{y!r}" for x, y in job.people.tolist()]
            (folder / FILE).write_text("\n".join(["x,y", *rows, ""]))
        calls = [
            [str(folder), *job.command, "--seed", str(job.seed)] for job, folder in zip(jobs, folders, strict=True)
        ]
        source = str(Path(__file__).resolve().parents[2])
        done = subprocess.run(
            [sys.executable, "-c", _FORKS, source], input=json.dumps(calls).encode(), capture_output=True, check=False
        )
        if done.returncode:
            raise InvalidInput(done.stderr.decode()[-500:])
        return [{path.name: path.read_bytes() for path in folder.iterdir() if path.name != FILE} for folder in folders]


def differing(commands: Sequence[Sequence[str]], worlds: Worlds) -> list[list[str]]:
    """What each command writes differently in two worlds with the same transcript; nothing if it keeps the rule."""
    pairs = [CommandRun(command, world, worlds.seed) for command in commands for world in (worlds.stayed, worlds.moved)]
    found = outputs_of(pairs)
    return [
        sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
        for one, other in zip(found[::2], found[1::2], strict=True)
    ]
