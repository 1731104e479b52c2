"""The mark of a result that no devices made, or whose noise can be repeated.

A map carries it, and every way out says it. Decided where randomness is chosen, worded here. Knows words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import InvalidInput

__all__ = ["NAME", "Mark", "seeded_by"]

NAME = "simulation"  # under which files and frames carry the words


@dataclass(frozen=True)
class Mark:
    """One program played all participants or both servers, or the noise came from a seeded generator."""

    seeded: bool  # whether the noise came from a generator that somebody can seed again
    seed: int | None = None  # of that generator, where it is known: a generator does not tell its own

    def __post_init__(self) -> None:
        if self.seed is not None and not self.seeded:
            raise InvalidInput(f"noise with seed {self.seed} is seeded; say so, or leave the seed out")

    @property
    def words(self) -> str:
        """For people: above a map, in a picture, in a file."""
        if self.seed is not None:
            return f"SIMULATION: the noise has seed {self.seed} and protects nobody"
        if self.seeded:
            return "SIMULATION: the noise comes from a seeded generator and protects nobody"
        return "SIMULATION: one program held all positions, and the person who ran it is a curator"


def seeded_by(rng: Any, mark: Mark | None = None) -> Mark | None:
    """The mark after more noise, from a given generator or, if it is None, from the operating system."""
    return mark if rng is None or (mark is not None and mark.seeded) else Mark(seeded=True)
