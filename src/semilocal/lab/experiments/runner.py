"""Runs a grid of independent trials on all cores, and remembers every result.

A trial's randomness comes from its identity (figure, method, parameters, seed, run) and from nothing else: not from the
order, the number of workers or what was cached. A seed gives the same rows to the last digit, and an interrupted run
goes on where it stopped. Knows trials and a cache folder (joblib). Knows no method.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import optional
from ...io.progress import Progress

Scalar = str | int | float | bool | None
Row = Mapping[str, Scalar]

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Trial:
    """One independent piece of work: what it belongs to, its parameters sorted by name, the seed of all, and which
    repeat.
    """

    figure: str
    method: str
    parameters: tuple[tuple[str, Scalar], ...]
    seed: int
    run: int

    @classmethod
    def of(cls, figure: str, method: str, *, seed: int, run: int, **parameters: Scalar) -> Trial:
        """Make a trial from named parameters.

        Examples
        --------
        >>> trial = Trial.of("fig:mse", "ldp", seed=1, run=0, n=2000, epsilon=0.5)
        >>> trial["epsilon"], trial.label
        (0.5, 'fig:mse ldp epsilon=0.5 n=2000 seed=1 run=0')
        """
        return cls(figure, method, tuple(sorted(parameters.items())), seed, run)

    def __getitem__(self, name: str) -> Any:
        return dict(self.parameters)[name]

    def get(self, name: str, default: Scalar = None) -> Any:
        """A parameter, or the default where the trial has none of that name."""
        return dict(self.parameters).get(name, default)

    @property
    def label(self) -> str:
        """The trial in one line, for people."""
        named = " ".join(f"{name}={value}" for name, value in self.parameters)
        return f"{self.figure} {self.method} {named} seed={self.seed} run={self.run}"

    def rng(self) -> np.random.Generator:
        """The generator of this trial: the same wherever and whenever it is computed."""
        return stream(self.figure, self.method, self.parameters, self.seed, self.run)

    def shared_rng(self, *names: str) -> np.random.Generator:
        """A generator that depends on the figure, the seed, the run and the named parameters only.

        Methods that draw their population from ``trial.shared_rng("n")`` all see the same people.
        """
        chosen = tuple((name, self[name]) for name in sorted(names))
        return stream("shared", self.figure, chosen, self.seed, self.run)

    def key(self, version: str, work: str = "") -> str:
        """The name of this trial's result in the cache: 64 hexadecimal digits."""
        return _digest([version, work, self.figure, self.method, self.parameters, self.seed, self.run]).hex()


Work = Callable[[Trial], Sequence[Mapping[str, Any]]]


def run(
    trials: Sequence[Trial],
    work: Work,
    *,
    folder: str | Path,
    workers: int | None = None,
    version: str | None = None,
    label: str = "",
    show: bool = True,
) -> list[tuple[Row, ...]]:
    """Compute all trials that are not in the cache, and return the rows of all in the order of `trials`, all different.

    ``work`` is a function of a module (processes import it by name). Each result is kept in ``folder`` as soon as it is
    known, under the digest of the trial, the work's name and the version of the code, ``source_version(work)`` if left
    out. ``workers`` are processes: all cores if left out; 0 computes in this process, with the same generators. A trial
    that fails is named in a RuntimeError; what was finished stays in the cache.
    """
    joblib = optional("joblib", "experiments")
    version = source_version(work) if version is None else version
    remembered = joblib.Memory(folder, verbose=0).cache(_computed, ignore=["work", "trial"])
    calls = [(trial.key(version, _function(work).__qualname__), work, trial) for trial in trials]
    missing = [call for call in calls if not remembered.check_call_in_cache(*call)]
    with Progress(len(calls), label or "trials", done=len(calls) - len(missing), show=show) as bar:
        if workers == 0:
            for call in missing:
                remembered(*call)
                bar.advance()
        elif missing:
            # One thread each: cores are not fought over, and sums have one order. The parent alone answers Ctrl-C.
            several = {"inner_max_num_threads": 1, "initializer": _leave_interrupts}
            with joblib.parallel_config("loky", n_jobs=-1 if workers is None else workers, **several):
                results = joblib.Parallel(return_as="generator_unordered")
                for _ in results(joblib.delayed(remembered)(*call) for call in missing):
                    bar.advance()
    return [remembered(*call) for call in calls]


def _computed(key: str, work: Work, trial: Trial) -> tuple[Row, ...]:
    """Rows of a trial as plain scalars, remembered by the key; a column cannot have the name of a parameter."""
    try:
        rows = work(trial)
        if taken := dict(trial.parameters).keys() & {name for row in rows for name in row}:
            raise ValueError(f"a parameter is called {min(taken)!r}, too")
    except Exception as error:
        raise RuntimeError(f"{trial.label} failed: {type(error).__name__}: {error}") from error
    return tuple(
        {name: getattr(value, "item", lambda value=value: value)() for name, value in row.items()} for row in rows
    )


def _leave_interrupts() -> None:
    """Let the parent alone answer Ctrl-C: it stops the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _function(work: Callable[..., Any]) -> Any:
    return inspect.unwrap(work.func if isinstance(work, functools.partial) else work)


# -- identity: of the code, and of a trial ---------------------------------------------------------------------------


@functools.cache
def source_version(work: Callable[..., Any] | None = None) -> str:
    """The version of the package with a digest of its sources, and of the file of ``work`` if that is elsewhere.

    A result in the cache is used again only if no source changed. The digest is in every CSV row.
    """
    files = sorted(ROOT.rglob("*.py"))
    if work is not None and (file := inspect.getsourcefile(_function(work))) is not None:
        files += [] if ROOT in (path := Path(file).resolve()).parents else [path]
    hashed = hashlib.sha256(b"".join(hashlib.sha256(path.read_bytes()).digest() for path in files))
    return f"{metadata.version('semilocal')}+{hashed.hexdigest()[:12]}"


def stream(*identity: Any) -> np.random.Generator:
    """A generator that depends on the identity (strings, numbers, tuples of them) and on nothing else.

    Examples
    --------
    >>> stream("a", 1).random() == stream("a", 1).random()
    True
    >>> stream("a", 1).random() == stream("a", 2).random()
    False
    """
    words = np.frombuffer(_digest(list(identity)), dtype="<u4")
    return np.random.default_rng(np.random.SeedSequence([int(word) for word in words]))


def _digest(identity: Any) -> bytes:
    """The SHA-256 of the identity's canonical JSON; a float and the equal integer are the same."""
    return hashlib.sha256(json.dumps(_canonical(identity), sort_keys=True, allow_nan=False).encode()).digest()


def _canonical(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_canonical(part) for part in value]
    if isinstance(value, np.generic):
        value = value.item()
    # epsilon=1 and epsilon=1.0 must not be two experiments
    return int(value) if isinstance(value, float) and value.is_integer() else value
