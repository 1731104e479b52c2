"""Docstrings of jobs that take the same parameters: written once, complete in every ``help``.

Knows the sections of numpydoc.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["documented_like", "sections"]

Job = TypeVar("Job", bound=Callable[..., Any])
_ORDER = ("Parameters", "Returns", "Raises", "Notes", "Examples")
_HEADING = re.compile(r"^(\w+)\n-+\n", flags=re.MULTILINE)


def sections(text: str) -> dict[str, str]:
    """The sections of a docstring by their headings; what comes before the first one is under "".

    Examples
    --------
    >>> sections("One line.\\n\\nReturns\\n-------\\nint\\n")
    {'': 'One line.', 'Returns': 'int'}
    """
    first, *rest = _HEADING.split(text)
    return {"": first.strip(), **{name: body.strip("\n") for name, body in zip(rest[::2], rest[1::2], strict=True)}}


def documented_like(other: Callable[..., Any], *, without: tuple[str, ...] = ()) -> Callable[[Job], Job]:
    """Give a job those sections of another one's docstring that it lacks, and the parameters of both.

    Parameters
    ----------
    other : callable
        The job whose docstring has all sections.
    without : tuple of str
        Parameters that the decorated job does not take.

    Returns
    -------
    callable
        A decorator that changes the docstring alone.
    """
    shared = {"Parameters": "", **sections(inspect.getdoc(other) or "")}
    entries = re.split(r"\n(?=\S)", shared["Parameters"])
    shared["Parameters"] = "\n".join(entry for entry in entries if entry.split(" :")[0] not in without)

    def document(job: Job) -> Job:
        if job.__doc__ is None:  # python -OO
            return job
        own = {**shared, **sections(inspect.getdoc(job) or "")}
        if own["Parameters"] != shared["Parameters"]:
            own["Parameters"] = shared["Parameters"] + "\n" + own["Parameters"]
        parts = (f"{name}\n{'-' * len(name)}\n{own[name]}" for name in _ORDER if name in own)
        job.__doc__ = "\n\n".join([own[""], *parts]) + "\n"
        return job

    return document
