"""Two worlds, one transcript: everything a command writes must be the same.

What is published must be a function of the public transcript. So two worlds are played with the same randomness in
which one participant lives at two different places. Where the transcripts of the two plays are equal, every byte that a
command writes has to be equal too: words, JSON, files. If not, it publishes something else, such as positions.

Knows how to run a command as a person does, in a process of its own, whatever it prints.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import semilocal
from semilocal.arrays import Floats
from semilocal.errors import InvalidInput
from semilocal.geometry.box import Box
from semilocal.protocol.task import Task
from semilocal.simulation.simulate import simulate

FILE = "people.csv"
UNIT = Box((0.0, 0.0), (1.0, 1.0), names=("x", "y"))
EPSILON, DELTA, K = 2.0, 0.05, 20
_TRIES = 200  # seeds
_PEOPLE = 400
OPTIONS = (
    "--trust", "nobody", "--bounds", "0,0,1,1", "--epsilon", f"{EPSILON}", "--delta", f"{DELTA}", "--k", f"{K}",
    "--quiet",
)  # fmt: skip
# command, its own options, and the options of the task; each writes all that it can
SHARED = (FILE, *OPTIONS)
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("partition", *SHARED, "--out", "regions.geojson"),
    ("partition", *SHARED, "--out", "regions.csv", "--json"),
    ("partition", *SHARED, "--html", "map.html", "--explain"),
    ("partition", *SHARED, "--plot", "map.png"),
    ("counts", *SHARED, "--grid", "4x4", "--json"),
    ("counts", *SHARED, "--grid", "4x4", "--out", "counts.csv"),
    ("points", *SHARED, "--out", "points.csv"),
    # y is the same in both worlds, so the values are equal
    ("mean", *SHARED, "--function", "coordinate:y", "--json"),
)


# Every command runs in a process of its own, forked from one that has loaded what they need.
_FORKS = """
import json, os, sys
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
    """The same people in two worlds, one of whom lives elsewhere in the second, and a seed with equal transcripts."""

    here: Floats
    there: Floats
    seed: int


def equal_worlds(rng: np.random.Generator) -> Worlds:
    """Two worlds whose transcripts are equal under the same seed, although one participant lives at another place.

    Raises
    ------
    InvalidInput
        If no seed was found: the worlds are too different.
    """
    people = rng.random((_PEOPLE, 2))
    cell = (people >= 13 / 32).all(axis=1) & (people < 14 / 32).all(axis=1)  # nobody else is there: the order is kept
    here, there = (np.concatenate([people[~cell], [[x, 0.42]]]) for x in (0.41, 0.43))
    for seed in rng.integers(0, 2**31, _TRIES).tolist():
        if all(_equal(here, there, EPSILON * share, seed) for share in (1.0, 0.5)):  # a mean spends half on the map
            return Worlds(here, there, seed)
    raise InvalidInput(f"no equal transcripts in {_TRIES} tries")


def _equal(here: Floats, there: Floats, epsilon: float, seed: int) -> bool:
    task = Task.build(UNIT, epsilon=epsilon, delta=DELTA, k=K)
    one, other = (simulate(world, task, rng=np.random.default_rng(seed)).partition for world in (here, there))
    pairs = [(one.lower, other.lower), (one.crowds, other.crowds), *zip(one.walls, other.walls, strict=True)]
    return all(np.array_equal(first, second) for first, second in pairs)


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
        source = str(Path(semilocal.__file__).resolve().parents[1])
        done = subprocess.run(
            [sys.executable, "-c", _FORKS], input=json.dumps(calls).encode(), capture_output=True, check=False,
            env=os.environ | {"PYTHONPATH": source},
        )  # fmt: skip
        if done.returncode:
            raise InvalidInput(done.stderr.decode()[-500:])
        return [{path.name: path.read_bytes() for path in folder.iterdir() if path.name != FILE} for folder in folders]


def differing(commands: Sequence[Sequence[str]], worlds: Worlds) -> list[list[str]]:
    """What each command writes differently in two worlds with the same transcript; nothing if it keeps the rule."""
    pairs = [CommandRun(command, world, worlds.seed) for command in commands for world in (worlds.here, worlds.there)]
    found = outputs_of(pairs)
    return [
        sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
        for one, other in zip(found[::2], found[1::2], strict=True)
    ]
