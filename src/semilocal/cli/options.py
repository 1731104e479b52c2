"""The kinds of options that several commands share: how a text becomes a value, and groups of options.

Knows cyclopts and the readers of :mod:`semilocal.cli.arguments`. A group is a frozen dataclass: its fields are options,
its docstring is their help. A command takes groups as parameters of its function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter

from .arguments import existing_file, number, path, server_url, share, whole

__all__ = [
    "FILE",
    "FOLDER",
    "Address",
    "CellRule",
    "ExistingFile",
    "Positive",
    "Rule",
    "Seed",
    "Share",
    "group",
    "option",
    "task_options",
]


def option(read: Callable[[str], Any] | None = None, metavar: str | None = None, help: str | None = None) -> Parameter:
    """What to put beside a type in ``Annotated``: the reader of the text, and words for the help."""
    settings: dict[str, Any] = {"metavar": metavar, "help": help}
    if read is not None:
        settings["converter"] = lambda _, tokens: read(tokens[0].value)
    return Parameter(**{name: value for name, value in settings.items() if value is not None})


_TITLES = ("Queries", "Positions", "Promise", "Two servers", "Server", "Output", "Files")  # in this order in the help


def group(title: str = "", *, more: str = "") -> Parameter:
    """A decorator: the fields of a dataclass are options, under this title if there is one."""
    return Parameter(name="*", group=_titled(title, more)) if title else Parameter(name="*")


@cache
def _titled(title: str, more: str) -> Group:
    return Group(title + more, sort_key=_TITLES.index(title))


FILE = option(path, "FILE")
FOLDER = option(path, "FOLDER")
ExistingFile = Annotated[Path, option(existing_file, "FILE")]
Address = Annotated[str, option(server_url, "URL")]
Positive = Annotated[float, option(number(0, above=True), "NUMBER")]
Share = Annotated[float, option(share, "SHARE")]
Seed = Annotated[int, option(whole(0), "S")]
Rule = Literal["cut", "all"]


@group("Promise")
@dataclass(frozen=True, kw_only=True)
class CellRule:
    """How regions are made where nobody is trusted.

    Attributes
    ----------
    rule
        trust nobody: cut asks few people at a time and cuts anywhere; all is the paper's, which asks everybody and
        splits a cell if all its parts have k (cut)
    resolution
        the shortest side of a region, in kilometres on maps, else in units of the axes
    """

    rule: Rule | None = None
    resolution: Annotated[float | None, option(number(0, above=True), "LENGTH")] = None


_TASK = ("epsilon", "delta", "k", "rule", "resolution", "label")


def task_options(*groups: Any) -> dict[str, Any]:
    """What was given of the options in these groups that ``Task.build`` takes."""
    values = {field.name: getattr(group, field.name) for group in groups for field in fields(group)}
    return {name: values[name] for name in _TASK if values.get(name) is not None}
