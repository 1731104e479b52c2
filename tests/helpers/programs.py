"""Random programs of operations: one that fails is made as short as it goes, printed as source, and kept.

A program is a list of steps; a step is the name of an operation, which device it is about, and a number. What a step
does is for the test that plays it. A kept program is a line of ``tests/stateful/kept.py``; the suite plays it again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

Step = tuple[str, int, int]
Program = tuple[Step, ...]
KEPT = Path(__file__).resolve().parents[1] / "stateful" / "kept.py"
LONGEST = 40


def programs(operations: Sequence[str], *, devices: int, count: int, seed: int) -> Iterator[Program]:
    """That many programs; each follows from the seed and its number alone."""
    for number in range(count):
        chance = random.Random(f"{seed}/{number}")
        yield tuple(
            (chance.choice(operations), chance.randrange(devices), chance.randrange(256))
            for _ in range(chance.randint(5, LONGEST))
        )


def shrink(program: Program, fails: Callable[[Program], bool]) -> Program:
    """A program that still fails, and does not if any step is left out."""
    size = len(program) // 2
    while size:
        place = 0
        while place < len(program):
            shorter = program[:place] + program[place + size :]
            if fails(shorter):
                program = shorter
            else:
                place += size
        size //= 2
    return program


def search(what: str, play: Callable[[Program], object], found: Iterator[Program], *, kept: Path = KEPT) -> int:
    """Play all programs; how many. The first that fails is shrunk, printed as source and kept, and fails the test."""
    number = 0
    for number, program in enumerate(found, 1):
        try:
            play(program)
        except Exception as error:
            least = shrink(program, partial(_raises, play, type(error)))
            source = f"KEPT.append(({what!r}, {least!r}))\n"
            with kept.open("a", encoding="utf-8") as file:
                file.write(source)
            raise AssertionError(f"program {number} fails, and so does\n{source}{error!r}") from error
    print(f"{number} programs over {what}")
    return number


def _raises(play: Callable[[Program], object], kind: type[Exception], program: Program) -> bool:
    try:
        play(program)
    except kind:
        return True
    except Exception:
        return False
    return False
