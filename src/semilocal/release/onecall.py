"""The whole job in one call, for every answer to: whom do the participants trust?

Counts, means, points and regions answer the same calls in all three modes.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar, Unpack

from ..errors import InvalidInput
from ..geometry.box import Box
from ..protocol.promise import Trust
from .counts import Counts, Rounding, Rows
from .job import Job, Options, ValueOptions
from .means import Mean, Means, Values
from .points import Points

Where: TypeAlias = Box | str | Sequence[float]  # a box, the name of a place, or west, south, east, north

__all__ = ["Options", "ValueOptions", "cell_means", "counts", "mean", "partition", "points", "values"]

_Call = TypeVar("_Call", bound=Callable[..., Any])
_HEADING = re.compile(r"^(\w+)\n-+\n", flags=re.MULTILINE)


def sections(text: str) -> dict[str, str]:
    """The sections of a docstring by their headings; what comes before the first one is under ""."""
    first, *rest = _HEADING.split(text)
    return {"": first.strip(), **{name: body.strip("\n") for name, body in zip(rest[::2], rest[1::2], strict=True)}}


def _documented_like(other: Callable[..., Any], *, without: tuple[str, ...] = ()) -> Callable[[_Call], _Call]:
    """Give a call those sections of another one's docstring that it lacks, and the parameters of both."""

    def document(call: _Call) -> _Call:
        if call.__doc__ is None:  # python -OO
            return call
        shared, own = (sections(inspect.getdoc(each) or "") for each in (other, call))
        entries = re.split(r"\n(?=\S)", shared["Parameters"])
        kept = [entry for entry in entries if entry.split(" :")[0] not in without]
        parameters = "\n".join([*kept, *filter(None, [own.get("Parameters")])])
        named = {**shared, **own, "Parameters": parameters}
        order = ("Parameters", "Returns", "Raises", "Notes", "Examples")
        parts = (f"{name}\n{'-' * len(name)}\n{named[name]}" for name in order)
        call.__doc__ = "\n\n".join([named[""], *parts]) + "\n"
        return call

    return document


def mean(
    points: Rows,
    f: Any,
    box: Where | None = None,
    *,
    epsilon: float,
    trust: Trust | None = None,
    **named: Unpack[ValueOptions],
) -> Mean:
    """The mean of f over a population, or of people's own values: ``mean(points, box, value=..., range=...)``.

    Parameters
    ----------
    points : array_like, shape (n, d), data frame, or Source
        Positions, or where to read them: see :func:`semilocal.engines.open_source`. The same seed gives the same
        result either way. Of a frame (pandas, polars, Arrow, a DuckDB relation) the columns with the names of the box's
        axes are taken; a GeoDataFrame or GeoSeries gives its points, and its CRS must fit the box.
    f : BoundedFunction
        A function that knows its range over a box; see :mod:`semilocal.functions`. Left out with ``value``.
    box : Box, str, or 2d numbers
        The public domain: a box, the name of a place such as "california", or west, south, east, north. It is halved
        again and again, one axis after the other.
    hierarchy : Hierarchy, optional
        Another public tree instead of ``box``, such as :class:`semilocal.SphereTree` for the whole Earth.
    epsilon : float
        The loss. With "curator" and "two-servers": for any change of one person's position anywhere (delta = 0). With
        "nobody": between any two positions inside one's region, both ways.
    trust : {"curator", "two-servers", "nobody"}
        Whom the participants trust; there is no default. This program holds all positions, so all but "curator" are
        simulations of what devices and servers would do.
    delta : float, optional
        With "nobody" only: chance per participant of a crowd below k; 1e-6.
    k : int, optional
        With "nobody" only: the smallest crowd; 20.
    rng : numpy.random.Generator, optional
        For simulation: seeded noise protects nobody, and the result says so. Without it the noise of a curator and of
        two servers is the operating system's, by exact samplers. With "nobody" this program plays the devices, whose
        noise is that of numpy's generator then, with a seed from the operating system: real devices derive theirs from
        secrets of their own.
    cap : float, optional
        The most that anybody may lose; more is refused.
    ledger : Ledger, optional
        What was spent on these people before, in any mode. If its cap does not allow this release, it is refused
        before anything is computed. Afterwards add ``spent`` to it: ``ledger + result.spent``.
    users : array_like, shape (n,), or str, optional
        Whose row it is, or the name of the frame's column that says so. Rows are drawn at random, at most
        ``rows_per_user`` of each person, and everything is about those; :func:`semilocal.draw_rows` draws them
        beforehand where it matters which. Without it every row counts as another person; a frame in which a column
        that looks like a person, such as ``user`` or ``taxi_id``, repeats some is refused then. A Series of
        pandas beside a frame must have the same index.
    rows_per_user : int
        1 if left out. With "nobody" a person with M rows loses M times what is promised to one row; with the others
        the noise grows by M instead. ``spent`` and ``guarantee`` say what a person loses.
    rows_are_people : bool
        Every row of the frame is another person, whatever its columns are called and hold.
    value : array_like, shape (n,), or str, optional
        One number per row that belongs to the person, such as a fare or an age, or the name of the frame's or
        source's column that has it. Then epsilon also holds for any two values in the range. No map is made: it would
        cost, and tell nothing about such values.
    range : (float, float), optional
        Smallest and largest value that anybody can have. Public, and never taken from the data; a value outside is
        refused with its row. The noise grows with it.
    **named
        Further options of :meth:`Task.build` ("nobody") or of :meth:`PooledTask.build` (resolution, max_depth, label).

    Returns
    -------
    Mean
        ``value``, ``stderr``, ``interval(level)`` and all that :class:`semilocal.release.counts.Mapped` answers.

    Raises
    ------
    InvalidInput
        For a missing ``trust``, positions outside the box or not finite, and options of another kind of trust.
    BudgetExceeded
        If ``cap`` or the ledger's cap does not allow it. Nothing was computed then.

    Notes
    -----
    Guarantee: for each person, what ``result.guarantee.explain()`` prints. "curator" and "two-servers": epsilon between
    any two positions of the person (delta = 0). "nobody": epsilon between any two positions inside one's region, both
    ways (delta = 0); a crowd of k in it except with probability ``delta``.

    Examples
    --------
    >>> import numpy as np
    >>> import semilocal as sl
    >>> rng = np.random.default_rng(3)
    >>> points = rng.normal(0, 1.5, size=(64_000, 2)).clip(-10, 10)
    >>> box, f = sl.Box((-10, -10), (10, 10)), sl.functions.squared_norm()
    >>> result = sl.mean(points, f, box, epsilon=2.0, trust="nobody", delta=0.05, k=20, rng=rng)
    >>> bool(abs(result.value - (points**2).sum(axis=1).mean()) < 0.2)
    True
    >>> result = sl.mean(points, f, box, epsilon=2.0, trust="curator", rng=rng)
    >>> bool(abs(result.value - (points**2).sum(axis=1).mean()) < 0.02)
    True
    >>> fare = rng.gamma(4.0, 5.0, size=64_000).clip(0, 100)
    >>> result = sl.mean(points, box, value=fare, range=(0, 100), epsilon=1.0, trust="curator", rng=rng)
    >>> bool(abs(result.value - fare.mean()) < 0.02)
    True
    """
    return Job.of("mean", points, f, box, epsilon=epsilon, trust=trust, **named).run().result  # type: ignore[no-any-return]


@_documented_like(mean)
def cell_means(
    points: Rows,
    f: Any,
    box: Where | None = None,
    *,
    epsilon: float,
    trust: Trust | None = None,
    **named: Unpack[ValueOptions],
) -> Means:
    """The mean of f in every region of the map.

    With "nobody" these are the means that :func:`mean` rests on. With the others half of epsilon is spent on the map
    and half on one noisy sum per final cell. For the mean over everybody use :func:`mean`: the errors of many small
    cells add up.

    Returns
    -------
    Means
        ``value`` and ``stderr`` float64[m], ``interval(level)`` float64[m, 2], in the order of ``partition``, and all
        that :class:`semilocal.release.counts.Mapped` answers.

    Examples
    --------
    >>> import numpy as np
    >>> import semilocal as sl
    >>> rng = np.random.default_rng(3)
    >>> homes = rng.beta(2, 5, (20_000, 2))
    >>> unit, height = sl.Box((0, 0), (1, 1)), sl.functions.coordinate(1)
    >>> found = sl.cell_means(homes, height, unit, epsilon=2.0, trust="curator", rng=rng)
    >>> len(found.value) == len(found.partition), float(found.spent.epsilon)
    (True, 2.0)
    """
    return Job.of("means", points, f, box, epsilon=epsilon, trust=trust, **named).run().result  # type: ignore[no-any-return]


@_documented_like(mean, without=("trust",))
def values(points: Rows, f: Any, box: Where | None = None, *, epsilon: float, **named: Unpack[ValueOptions]) -> Values:
    """One noisy value of f per participant; only where nobody is trusted is there such a thing.

    Returns
    -------
    Values
        ``value`` float64[n], one per participant, and all that :class:`semilocal.release.counts.Mapped` answers.

    Examples
    --------
    >>> import numpy as np
    >>> import semilocal as sl
    >>> rng = np.random.default_rng(3)
    >>> homes, unit = rng.beta(2, 5, (5_000, 2)), sl.Box((0, 0), (1, 1))
    >>> found = sl.values(homes, sl.functions.coordinate(1), unit, epsilon=2.0, delta=1e-3, k=20, rng=rng)
    >>> found.value.shape, float(found.spent.epsilon)
    ((5000,), 2.0)
    """
    if "trust" in named:
        raise InvalidInput("values has no trust: nobody is trusted where every participant has a value; leave it out")
    return Job.of("values", points, f, box, epsilon=epsilon, trust="nobody", **named).run().result  # type: ignore[no-any-return]


@_documented_like(mean, without=("f", "value", "range"))
def points(
    points: Rows, box: Where | None = None, *, epsilon: float, trust: Trust | None = None, **named: Unpack[Options]
) -> Points:
    """Positions that may be published instead of the true ones.

    With "nobody": each position replaced by the estimated centre of its region's people. With the others: as many
    synthetic positions, drawn from the estimated counts; none belongs to anybody.

    Returns
    -------
    Points
        ``points`` float64[n, d], and all that :class:`semilocal.release.counts.Mapped` answers.

    Examples
    --------
    >>> import numpy as np
    >>> import semilocal as sl
    >>> rng = np.random.default_rng(3)
    >>> homes = rng.beta(2, 5, (5_000, 2))
    >>> sl.points(homes, sl.Box((0, 0), (1, 1)), epsilon=1.0, trust="curator", rng=rng).points.shape
    (5000, 2)
    """
    return Job.of("points", points, None, box, epsilon=epsilon, trust=trust, **named).run().result  # type: ignore[no-any-return]


@_documented_like(mean, without=("f", "value", "range"))
def counts(
    points: Rows,
    box: Where | None = None,
    *,
    epsilon: float,
    trust: Trust | None = None,
    rounding: Rounding = None,
    **named: Unpack[Options],
) -> Counts:
    """Counts in boxes and polygons, with intervals, and the map they come from.

    Parameters
    ----------
    rounding : float or one per axis, optional
        If all coordinates are multiples of such a step, as 0.01 in a file with two decimals, and that is public: every
        answer then takes it into account. It is never learned from the positions; 0 or nothing for none.

    Returns
    -------
    Counts
        With ``query(boxes)``, ``density(grid)``, ``interval(level)``, ``partition``, ``plot()``,
        ``to_geojson()``, ``to_table()``, ``total``, ``spent`` and ``guarantee``.

    Examples
    --------
    >>> import numpy as np
    >>> import semilocal as sl
    >>> rng = np.random.default_rng(3)
    >>> homes = rng.beta(2, 5, (20_000, 2))
    >>> counted = sl.counts(homes, sl.Box((0, 0), (1, 1)), epsilon=1.0, trust="curator", rng=rng)
    >>> low, high = counted.query([[[0, 0], [0.25, 0.25]]]).interval(0.999999)[0]
    >>> bool(low <= np.count_nonzero((homes < 0.25).all(axis=1)) <= high)
    True
    """
    asked = Job.of("counts", points, None, box, epsilon=epsilon, trust=trust, rounding=rounding, **named)
    return asked.run().result  # type: ignore[no-any-return]


# The same run and the same result, read as a map: ``boxes``, ``crowds``, ``locate`` and the ways out.
partition = counts
