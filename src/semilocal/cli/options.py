"""What people type: how a text becomes a value, in one grammar for all commands, and where its help stands.

    box        the name of a place, or x0,y0,x1,y1: the lower corner, then the upper one
    function   coordinate:AXIS  squared-norm[:CENTER]  gaussian-bump:SIGMA[,CENTER]  linear:[INTERCEPT,]WEIGHTS
               indicator:CORNERS
    release    counts, points, mean:FUNCTION:EPSILON or values:FUNCTION:EPSILON
    position   37.77,-122.42 (latitude first if the axes are called so), or longitude=-122.42,latitude=37.77;
               J45 or ICD-10=J45 where the domain is a table of labels

Knows cyclopts and text; takes text and refuses in words. Options of one idea are the fields of a class with ``@flat``:
declared once, with their help, and passed on whole.
"""

from __future__ import annotations

import difflib
import getpass
import math
import os
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, dataclass_transform
from urllib.parse import urlsplit

import numpy as np
from cyclopts import Group, Parameter
from cyclopts.validators import Number
from cyclopts.validators import Path as ExistingPath

from ..arrays import exact
from ..errors import InvalidInput, OutsideDomain
from ..geometry.box import Box, mistake_words
from ..geometry.places import LATITUDE, LONGITUDE, PLACES, as_box, parse_numbers
from ..geometry.units import is_geographic
from ..hierarchy import AnyTree, SphereTree
from ..io.trees import read_tree
from ..protocol.plan import OWN
from ..service.campaign import ReleaseForm

LONGEST = 4096  # characters of a hidden value
MOST = 10**12  # of a whole number, or an amount
Limits = Number | ExistingPath
BOX_HELP = "the public domain: x0,y0,x1,y1 (the lower corner, then the upper one) or one of " + ", ".join(PLACES)
DOMAIN_HELP = f"{BOX_HELP}; 'sphere' for the whole Earth in cells of equal area, or a table in a .json file"
FUNCTION_HELP = (
    "coordinate:AXIS, squared-norm[:CENTER], gaussian-bump:SIGMA[,CENTER], linear:[INTERCEPT,]WEIGHTS or "
    "indicator:X0,Y0,X1,Y1"
)
OWN_HELP = "own:NAME:LOW,HIGH for a number of people's own with its public range"
RELEASE_HELP = (
    f"counts, points, mean:FUNCTION:EPSILON or values:FUNCTION:EPSILON; FUNCTION is {FUNCTION_HELP}, or {OWN_HELP}; "
    "may be repeated. Two servers: mean:FUNCTION, one mean and no map, or values:FUNCTION, a map and a mean in each of "
    "its cells; once, and they share --epsilon"
)
T = TypeVar("T")


@dataclass_transform(kw_only_default=True, frozen_default=True)
def flat(group: type[T]) -> type[T]:
    """A decorator: the fields of a class, a frozen dataclass now, are options of the command."""
    return Parameter(name="*")(dataclass(frozen=True, kw_only=True)(group))


def option(
    help: str | None = None, metavar: str | None = None, read: Callable[[str], Any] | Limits | None = None, *,
    dash: bool = False, group: Group | None = None,
) -> Parameter:  # fmt: skip
    """What to put beside a type in ``Annotated``: words for the help, and the reader of the text or its limits.

    With ``dash`` a value may begin with one, as in ``--bounds -1,-1,1,1``.
    """
    settings: dict[str, Any] = {"metavar": metavar, "help": help, "allow_leading_hyphen": dash or None, "group": group}
    if isinstance(read, Number | ExistingPath):
        settings["validator"] = read
    elif dash or read is not None:
        settings["converter"] = lambda _, tokens: (read or _no_option)(tokens[0].value)
    return Parameter(**{name: value for name, value in settings.items() if value is not None})


advanced = partial(option, group=Group("Advanced", sort_key=2))
two_servers = partial(option, group=Group("Two servers (experimental: not reviewed independently)", sort_key=3))


def _no_option(text: str) -> str:
    if text.startswith("--"):
        raise InvalidInput("a value is missing")
    return text


# -- single values -----------------------------------------------------------------------------------------------------


def whole(low: int, high: int = MOST) -> Number:
    """A whole number from low to high."""
    return Number(gte=low, lte=high)


positive, share = Number(gt=0, lt=math.inf), Number(gt=0, lt=1)
number = Number(gte=0, lt=math.inf)  # from 0


def amount(text: str) -> str:
    """A finite number, at least 0, as it was typed: 0.1 is one tenth."""
    if not exact(text) < MOST:
        raise InvalidInput(f"must be below {MOST:,}; got {text!r}")
    return text


def server_url(text: str) -> str:
    """An address of a server, http(s)://host[:port][/path]."""
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise InvalidInput(f"must be http(s)://server[:port]; got {text!r}")
    return text


def not_empty(text: str) -> str:
    """Any text but none: a variable of a script that is not set must not stand for this folder, or for everything."""
    if not text.strip():
        raise InvalidInput("is empty; give it, or leave it out")
    return text


def path(text: str) -> Path:
    """The name of a file or folder."""
    return Path(not_empty(text))


file = partial(option, metavar="FILE", read=path)
existing = partial(option, metavar="FILE", read=ExistingPath(exists=True, dir_okay=False))
folder = partial(option, metavar="FOLDER", read=path)

# -- values that a list of processes must not show ---------------------------------------------------------------------

HIDDEN_HELP = "@FILE reads it from a file, - asks for it"


def read_hidden(text: str | None, *, option: str, variable: str) -> str:
    """A value as the owner gives it: ``@FILE``, ``-`` for a prompt without echo, itself, or the environment; or ""."""
    if text is None:
        text = os.environ.get(variable, "").strip()
        if not text.startswith("@"):
            return text
    if text == "-":
        if sys.stdin.isatty():
            return _line(getpass.getpass(f"{option.lstrip('-')}: "), option, "the prompt")
        return _line(sys.stdin.readline(LONGEST), option, "standard input")
    if text.startswith("@"):
        return _line(_read(Path(text[1:]), option), option, text[1:])
    if not text.strip():
        raise InvalidInput(f"{option}: is empty; give it, or leave {option} out")
    return text


def _read(path: Path, option: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                print(f"warning: {path} can be read by others; run: chmod 600 {path}", file=sys.stderr)
            return file.read(LONGEST)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise InvalidInput(f"{option}: cannot read {path}: {reason}") from None


def _line(text: str, option: str, source: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) != 1:
        raise InvalidInput(f"{option}: {source} must hold one line; it holds {len(lines)}")
    return lines[0]


# -- places, functions, releases, positions ----------------------------------------------------------------------------


def named_domain(bounds: str, names: Sequence[str]) -> tuple[Box, AnyTree | None]:
    """The box, and the tree over it if bounds name one; refuses columns that are not its axes."""
    tree = read_tree(bounds)
    first, second = (name.lower() for name in (*names, "", "")[:2])
    swapped = first in LATITUDE and second in LONGITUDE
    if tree is None:
        if "," not in bounds and swapped:
            raise InvalidInput(
                f"the axes are swapped: --bounds {bounds} has longitude first, and the first column is {names[0]!r}; "
                f"write --columns {names[1]},{names[0]}"
            )
        return as_box(bounds, names=names), None
    if len(names) != tree.box.dimensions:
        raise InvalidInput(
            f"the tree has {tree.box.dimensions} axes, {', '.join(tree.box.names)}, and the positions {len(names)}; "
            "name the columns with --columns"
        )
    if isinstance(tree, SphereTree) and swapped:
        raise InvalidInput(f"the axes are swapped: a sphere has longitude first; {names[0]!r} comes first here")
    return tree.box, tree


def parse_function(text: str, names: Sequence[str]) -> tuple[str, tuple[float, ...]]:
    """The name and the parameters of the function that a text describes, for axes with these names.

    Examples
    --------
    >>> parse_function("coordinate:latitude", ("longitude", "latitude"))
    ('coordinate', (1.0,))
    """
    word, _, rest = text.strip().partition(":")
    name, axes = word.lower().replace("-", "_"), len(names)
    if name == "coordinate":
        if rest in names:
            return name, (float(list(names).index(rest)),)
        if rest.isdigit() and int(rest) < axes:
            return name, (float(rest),)
        what = f"there is no axis {rest!r}" if rest else f"of which axis? For instance coordinate:{next(iter(names))}"
        raise InvalidInput(f"function {text}: {what}; the axes are {', '.join(names)}")
    sizes = {
        "squared_norm": (0, axes), "gaussian_bump": (1, 1 + axes), "linear": (axes, axes + 1), "indicator": (2 * axes,),
    }  # fmt: skip
    numbers = parse_numbers(rest, f"the numbers of the function {text}") if rest and name in sizes else ()
    if len(numbers) not in sizes.get(name, ()):
        raise InvalidInput(f"function {text!r} must be {FUNCTION_HELP}, for the axes {', '.join(names)}")
    return name, (0.0, *numbers) if name == "linear" and len(numbers) == axes else numbers


def parse_release(text: str, names: Sequence[str], *, shared: bool = False) -> ReleaseForm:
    """A release, for axes with these names; ``shared`` ones have no epsilon of their own.

    Examples
    --------
    >>> parse_release("mean:coordinate:latitude:0.5", ("longitude", "latitude"))
    ReleaseForm(kind='mean', function='coordinate', parameters=(1.0,), epsilon=0.5)
    >>> parse_release("mean:own:fare:0,100:0.5", ("longitude", "latitude")).function
    'own:fare'
    """
    if text in ("counts", "points") and not shared:
        return ReleaseForm(text)  # type: ignore[arg-type]
    kind, _, function = text.partition(":")
    loss = None
    if not shared:
        function, _, epsilon = function.rpartition(":")
        try:
            loss = float(epsilon)
        except ValueError:
            function = ""
    if kind not in ("mean", "values") or not function:
        allowed = "mean:FUNCTION or values:FUNCTION" if shared else RELEASE_HELP.partition(";")[0]
        raise InvalidInput(
            f"--release must be {allowed}, such as mean:coordinate:0{'' if shared else ':1.0'}; got {text!r}"
        )
    if not function.startswith(OWN):
        return ReleaseForm(kind, *parse_function(function, names), loss)  # type: ignore[arg-type]
    name, _, limits = function.rpartition(":")
    if not name.startswith(OWN):
        raise InvalidInput(f"--release: {function!r} must be {OWN_HELP}, such as own:fare:0,100")
    return ReleaseForm(kind, name, parse_numbers(limits, f"the range of {function}"), loss)  # type: ignore[arg-type]


def parse_position(
    text: str, box: Box, *, leaves: Mapping[str, float] = MappingProxyType({}), hints: bool = False
) -> tuple[float, ...]:
    """A position in the order of the box's axes; refusals do not repeat it: they may end up in a log.

    Where the domain is a table of labels (``leaves``, with the numbers that stand for them), the label of a leaf and
    nothing else: a mistyped code such as 1234 must not be taken for a number. With ``hints`` a refusal may name labels
    like the one that was given: they tell the position almost as well as it tells itself, so they are for the owner's
    eyes alone.

    Examples
    --------
    >>> bay = Box((-123, 37), (-121, 38), names=("longitude", "latitude"))
    >>> parse_position("37.77,-122.42", bay), parse_position("longitude=-122.42,latitude=37.77", bay)
    ((-122.42, 37.77), (-122.42, 37.77))
    >>> parse_position("J18", Box((0,), (2,), names=("ICD",)), leaves={"I21": 0.5, "J18": 1.5})
    (1.5,)
    """
    if leaves:
        return (_parse_label(text, box.names[0], leaves, hints=hints),)
    example = ",".join(f"{name}=…" for name in box.names)
    parts = [part.strip().rpartition("=") for part in text.split(",")]
    wanted = f"the position must be {box.dimensions} numbers with commas between them, such as {example}"
    try:
        numbers = [float(number) for _, _, number in parts]
    except ValueError:
        raise InvalidInput(wanted) from None
    if any(sign for _, sign, _ in parts):
        axes = [name.strip() for name, _, _ in parts]
        if sorted(axes) != sorted(box.names):
            raise InvalidInput(f"the position must name each of the axes {', '.join(box.names)} once: {example}")
        position = tuple(numbers[axes.index(name)] for name in box.names)
    elif len(numbers) != box.dimensions:
        raise InvalidInput(f"{wanted}; got {len(numbers)}")
    elif is_geographic(box):  # latitude first, as people say it
        position = tuple(numbers[0 if name.lower() in LATITUDE else 1] for name in box.names)
    else:
        position = tuple(numbers)
    sides = zip(box.names, position, box.lower, box.upper, strict=True)
    outside = [name for name, value, low, high in sides if not low <= value <= high]
    if outside:
        name_them = f"name them: --position {example}"
        finite = all(map(math.isfinite, position))
        mistake = mistake_words(np.array([position]), box, exchange=f"Then {name_them}") if finite else ""
        raise OutsideDomain(
            f"the position is outside the task's domain {box}: its {' and '.join(outside)} "
            f"{'is' if len(outside) == 1 else 'are'} not in that range. "
            + (mistake or f"To say which number is which, {name_them}")
        )
    return position


def _parse_label(text: str, name: str, leaves: Mapping[str, float], *, hints: bool) -> float:
    label = text.strip()
    if label not in leaves:
        label = label.removeprefix(f"{name}=").strip()
    if label in leaves:
        return leaves[label]
    near = difflib.get_close_matches(label, leaves, n=3, cutoff=0.5) if hints else []
    advice = f"did you mean {' or '.join(near)}?" if near else f"it has {len(leaves):,}, such as {next(iter(leaves))}"
    raise InvalidInput(f"the position must be the label of a leaf of {name!r}, which it is not; {advice}")


def describe_position(
    position: tuple[float, ...], box: Box, *, leaves: Mapping[str, float] = MappingProxyType({})
) -> str:
    """Which axis gets which number or label, for the owner of the position alone.

    Examples
    --------
    >>> describe_position((-122.42, 37.77), Box((-123, 37), (-121, 38), names=("longitude", "latitude")))
    'longitude = -122.42, latitude = 37.77'
    """
    labels = {number: label for label, number in leaves.items()}
    return ", ".join(
        f"{name} = {labels.get(value) or f'{value:.10g}'}" for name, value in zip(box.names, position, strict=True)
    )
