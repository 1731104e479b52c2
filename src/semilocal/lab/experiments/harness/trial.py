"""One trial of an experiment: what it is, and the randomness that follows from that.

A trial's randomness comes from its identity (figure, method, parameters, seed, run) and from nothing else: not from the
order, the number of workers or what was cached. Knows no method and no process.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....errors import InvalidInput

__all__ = ["Row", "Scalar", "Trial", "stream"]

Scalar = str | int | float | bool | None
Row = Mapping[str, Scalar]


@dataclass(frozen=True)
class Trial:
    """One independent piece of work.

    Attributes
    ----------
    figure, method : str
        What it belongs to.
    parameters : tuple of (str, scalar)
        Sorted by name; see `Trial.of`.
    seed, run : int
        The seed of the whole experiment, and which repeat this is.
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
        taken = {"version", "figure", "method", "seed", "run"} & set(parameters)
        if taken:
            raise InvalidInput(f"a parameter cannot be called {sorted(taken)[0]!r}; the trial has that already")
        return cls(figure, method, tuple(sorted(parameters.items())), seed, run)

    def __getitem__(self, name: str) -> Any:
        return dict(self.parameters)[name]

    @property
    def label(self) -> str:
        """The trial in one line, for people."""
        named = " ".join(f"{name}={value}" for name, value in self.parameters)
        return f"{self.figure} {self.method} {named} seed={self.seed} run={self.run}"

    def rng(self) -> np.random.Generator:
        """Return the generator of this trial: the same wherever and whenever it is computed."""
        return stream(self.figure, self.method, self.parameters, self.seed, self.run)

    def shared_rng(self, *names: str) -> np.random.Generator:
        """Return a generator that depends on the figure, the seed, the run and the named parameters only.

        Methods that draw their population from ``trial.shared_rng("n")`` all see the same people.
        """
        chosen = tuple((name, self[name]) for name in sorted(names))
        return stream("shared", self.figure, chosen, self.seed, self.run)

    def key(self, version: str) -> str:
        """Return the name of this trial's result in the cache: 64 hexadecimal digits."""
        return _digest([version, self.figure, self.method, self.parameters, self.seed, self.run]).hex()


def stream(*identity: Any) -> np.random.Generator:
    """Return a generator that depends on the identity (strings, numbers, tuples of them) and on nothing else.

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
    """Return the SHA-256 of the identity's canonical JSON; a float and the equal integer are the same."""
    return hashlib.sha256(json.dumps(_canonical(identity), sort_keys=True, allow_nan=False).encode()).digest()


def _canonical(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_canonical(part) for part in value]
    if isinstance(value, np.generic):
        value = value.item()
    # epsilon=1 and epsilon=1.0 must not be two experiments
    return int(value) if isinstance(value, float) and value.is_integer() else value
