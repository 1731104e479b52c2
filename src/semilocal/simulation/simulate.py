"""The protocol played for a whole population: one loop over rounds, whatever counts them.

Knows the order of the steps. The rule is the curator's, positions are the population's. Knows no rule.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ..arrays import check_generator
from ..errors import InvalidInput, NoCrowdWarning
from ..protocol.curator import Curator
from ..protocol.keys import SECRET_BYTES
from ..protocol.mark import Mark
from ..protocol.partition import Partition
from ..protocol.task import Task
from ..words import number_of
from .coded import CodedPopulation
from .entropy import DeviceSecrets, Entropy
from .person_columns import POPULATION, check_frame
from .population import Answering, Asked, Population
from .run import LOST, Round, Run
from .sorted import Detail, SortedPopulation

__all__ = ["check_task", "play", "play_rounds", "simulate", "warn_if_small"]

_SEEDED = Mark(seeded=True)


def simulate(
    points: npt.ArrayLike,
    task: Task,
    *,
    rng: np.random.Generator | None = None,
    detail: Detail = "tallies",
    dropout: float = 0.0,
    secrets: Sequence[bytes] | Entropy | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Run:
    """Play the protocol for a whole population.

    Parameters
    ----------
    points : array_like, shape (n, d)
        One position per participant, inside the task's box. A data frame in which somebody has several rows is refused.
    task : Task
    rng : numpy.random.Generator
        Source of randomness; not needed if ``secrets`` are given and nobody drops out.
    detail : {"tallies", "reports"}
        ``"tallies"`` draws each cell's sum at once, with the distribution that single reports would give;
        ``"reports"`` draws one report per participant and round. Without ``secrets`` the pseudonyms in the transcript
        are the numbers of the rows: anyone who has it knows which row is in which region. Publish no such transcript.
    dropout : float
        Chance, per participant and round, of being lost for good. Independent of the position, as the promise needs.
    secrets : sequence of bytes, or Entropy, optional
        One secret per participant: reports are derived from them exactly as devices do (``detail="reports"`` only). Or
        another way to derive them, such as :class:`semilocal.engines.row_key.RowKey`.
    progress : callable, optional
        Called after every round with the round and the number of cells in the next one.

    Returns
    -------
    Run

    Raises
    ------
    InvalidInput
        For positions outside the box or not finite, and arguments that do not fit together.

    Notes
    -----
    Guarantee: ``task.statement()`` says what participants would be promised, with epsilon and delta. This program holds
    all positions, so the result is a simulation and says so.

    Warns
    -----
    NoCrowdWarning
        If there are fewer than k participants in all: the only region is the whole domain, without a crowd.

    Examples
    --------
    >>> from semilocal import Box, Task
    >>> rng = np.random.default_rng(7)
    >>> task = Task.build(Box((0, 0), (1, 1)), epsilon=1.0, delta=0.01, k=50)
    >>> run = simulate(rng.random((20_000, 2)), task, rng=rng)
    >>> bool(run.partition.crowds.sum() == 20_000), run.partition.crowds.min() >= 50
    (True, np.True_)
    """
    _check_arguments(task, rng, detail, dropout, secrets)
    check_frame(points, POPULATION)
    entropy = DeviceSecrets(secrets, task.id) if isinstance(secrets, Sequence) else secrets
    population: CodedPopulation | SortedPopulation
    if detail == "tallies" and not dropout:
        assert rng is not None
        population = CodedPopulation(task, points, rng=rng)
    else:
        population = SortedPopulation(task, points, rng=rng, detail=detail, dropout=dropout, entropy=entropy)
    size = len(population)
    if isinstance(secrets, Sequence) and len(secrets) != size:
        raise InvalidInput(f"secrets must be one per participant: {size}; got {len(secrets)}")
    warn_if_small(size, task, stacklevel=2)
    run = play(Curator(task), population, progress=progress, mark=Mark(seeded=entropy is None))
    return run if entropy is None else replace(run, pseudonyms=entropy.pseudonyms)


def play(
    curator: Curator,
    population: Population,
    *,
    progress: Callable[[int, int], None] | None = None,
    mark: Mark = _SEEDED,
) -> Run:
    """Play all rounds that are left, and say where everybody ended.

    Parameters
    ----------
    curator : Curator
        At the beginning of a task. It is finished afterwards.
    population : Population
    progress : callable, optional
        Called after every round with the round and the number of cells in the next one.
    mark : Mark
        Whether the noise was seeded.
    """
    task = curator.task
    rounds = play_rounds(curator, population, progress=progress)
    partition = replace(Partition.from_rounds(task, rounds), mark=mark)
    regions = population.regions(partition.cells)
    if not partition.crowds_are_public:  # who holds the data can count what was left behind
        partition = replace(partition, crowds=np.bincount(regions[regions != LOST], minlength=len(partition)))
    return Run(task, partition, regions, population.moves, rounds, population.moved)


def play_rounds(
    curator: Curator, population: Answering, *, progress: Callable[[int, int], None] | None = None
) -> tuple[Round, ...]:
    """Ask, count, decide, go on, until the partition is finished.

    The loop knows neither the rule nor the data: the curator decides, the population counts and follows. Parameters are
    those of :func:`play`.
    """
    rounds = []
    while not curator.partitioned:
        number, frontier = curator.round, curator.frontier
        counted = population.tally(Asked(number, frontier.cells, curator.roll_call))
        ruling = curator.step(counted.responders, counted.tally)
        population.follow(ruling)
        rounds.append(Round(number, frontier, counted.responders, counted.tally, ruling, counted.reports))
        if progress is not None:
            progress(number, len(ruling.frontier.cells))
    return tuple(rounds)


def check_task(task: Task) -> None:
    """Refuse anything but a task."""
    if not isinstance(task, Task):
        raise InvalidInput(f"task must be a semilocal.Task, such as Task.build(box, …); got {task!r}")


def warn_if_small(participants: int, task: Task, *, stacklevel: int) -> None:
    """Warn if there are fewer than k participants in all."""
    if participants < task.k:
        what = (
            "no region has a crowd" if task.rule == "each" else "the only region is the whole domain, without a crowd"
        )
        verb = "is" if participants == 1 else "are"
        words = f"{number_of(participants, 'participant')} {verb} fewer than k = {task.k}: {what}"
        warnings.warn(words, NoCrowdWarning, stacklevel=stacklevel + 1)


def _check_arguments(
    task: Task, rng: np.random.Generator | None, detail: str, dropout: float,
    secrets: Sequence[bytes] | Entropy | None,
) -> None:  # fmt: skip
    if detail not in ("tallies", "reports"):
        raise InvalidInput(f"detail must be 'tallies' or 'reports'; got {detail!r}")
    check_task(task)
    if not isinstance(dropout, int | float) or not 0.0 <= dropout < 1.0:
        raise InvalidInput(f"dropout must be a share from 0 to below 1; got {dropout!r}")
    if secrets is not None and detail != "reports":
        raise InvalidInput("secrets derive single reports: use detail='reports'")
    if isinstance(secrets, Sequence) and any(len(secret) != SECRET_BYTES for secret in secrets):
        raise InvalidInput(f"every secret must be {SECRET_BYTES} bytes")
    if rng is None and (secrets is None or dropout):
        raise InvalidInput("rng is needed: pass numpy.random.default_rng(seed)")
    check_generator(rng)
