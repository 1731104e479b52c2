"""A scikit-learn transformer: positions become what their published regions tell.

Knows scikit-learn's conventions and the releases of points. The core never imports this module.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .arrays import Floats
from .errors import InvalidInput, MissingExtra, listed_columns
from .geometry.box import Box
from .geometry.frames import axes_in_order
from .protocol.task import DELTA, K, Rule
from .release.job import Job
from .release.points import centres
from .simulation.people import POPULATION, check_frame, person_columns

try:
    from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise MissingExtra("scikit-learn", "experiments") from None


class SemiLocalTransformer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Replace positions by what their regions tell.

    ``fit_transform`` plays the protocol for the training positions and returns one position per row that its region
    alone decides; ``transform`` maps any positions to the regions that were found, so training positions never come
    back. In a Pipeline the next step is therefore trained, and asked, with such positions. To ask a model about exact
    positions, which is up to the person at that position, give it ``pass_through(X)``.

    It is a simulation: this program holds all positions, so the person who runs it is a curator. What participants
    with devices of their own would be promised is in ``guarantee_``; see its ``explain()``. Labels are not protected,
    nor is what the order of the rows tells: shuffle rows that are sorted by place before you fit.

    Parameters
    ----------
    epsilon : float
        Loss between any two positions inside a region, both ways (delta = 0); all of it for the partition.
    k : int
        The smallest crowd: participants in a region, each one included.
    delta : float
        Chance, per participant, that a split puts it with fewer.
    box : Box or (lower, upper)
        The public domain; ``lower`` and ``upper`` are numbers for all axes or one number per axis. It must not come
        from the data, which would publish the extremes.
    rule : {"cut", "all"}
        As in :meth:`semilocal.Task.build`.
    random_state : int, numpy.random.Generator or None
        None takes a generator that the operating system seeds; anything else makes the noise repeatable.

    Attributes
    ----------
    partition_ : Partition
        Regions and crowds; public by design.
    spent_ : Ledger
        What it cost.
    guarantee_ : Guarantee
        What is promised.
    n_features_in_ : int

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> X = rng.random((5_000, 2))
    >>> private = SemiLocalTransformer(epsilon=2.0, k=20, box=(0, 1), random_state=1).fit_transform(X)
    >>> len(np.unique(private, axis=0)) < 200
    True
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        k: int = K,
        *,
        delta: float = DELTA,
        box: Box | tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
        rule: Rule = "cut",
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.k = k
        self.delta = delta
        self.box = box
        self.rule = rule
        self.random_state = random_state

    def fit(self, X: npt.ArrayLike, y: object = None) -> SemiLocalTransformer:
        """Find the partition for the training positions, shape (n, d)."""
        self._release(X)
        return self

    def fit_transform(self, X: npt.ArrayLike, y: object = None, **fit_params: Any) -> Floats:
        """Find the partition and return the private training positions, shape (n, d)."""
        return self._release(X)

    def transform(self, X: npt.ArrayLike) -> Floats:
        """Map positions to the regions that were found, shape (n, d): no position comes back as it was.

        For training positions the result is that of ``fit_transform``.

        Raises
        ------
        OutsideDomain
            If a position lies outside the box.
        """
        points = self.pass_through(X)  # refuses before fit
        return np.asarray(self._centres.middle[self.partition_.locate(points)])

    def pass_through(self, X: npt.ArrayLike) -> Floats:
        """Return positions as they are, shape (n, d): to ask a model about them. Never for training positions."""
        check_is_fitted(self)
        return self._numbers(X, reset=False, copy=True)

    def _release(self, X: npt.ArrayLike) -> Floats:
        _check_people(X)
        points = self._numbers(X, ensure_min_samples=2)
        domain = self._domain(points)
        self._check_order(domain)
        seed = self.random_state
        if isinstance(seed, np.random.RandomState):  # what scikit-learn's own tools pass
            seed = seed.randint(0, 2**31)
        rng = None if seed is None else np.random.default_rng(seed)
        done = Job(
            question="counts", data=points, box=domain, epsilon=self.epsilon, trust="nobody", delta=self.delta,
            k=self.k, rng=rng, options={"rule": self.rule},
        ).run()  # fmt: skip
        self.partition_, self.spent_ = done.result.partition, done.result.spent
        self._centres = centres(self.partition_)
        self.guarantee_ = done.result.guarantee
        return np.asarray(self._centres.middle[done.run.regions])

    def _numbers(self, X: npt.ArrayLike, **options: Any) -> Floats:
        try:
            return np.asarray(validate_data(self, X, dtype=np.float64, **options))
        except ValueError as error:
            if "could not convert" not in str(error):
                raise
        raise InvalidInput("X must hold numbers only; a cell that is none was found. Convert or remove such rows")

    def _check_order(self, domain: Box) -> None:
        """Refuse columns that are called like the axes and stand in another order: they are taken by their place."""
        names = [str(name) for name in getattr(self, "feature_names_in_", ())]
        wanted = axes_in_order(names, domain)
        if names != wanted:
            raise InvalidInput(
                f"the columns are {listed_columns(names)}; give them in the order of the box: X[{wanted}]"
            )

    def _domain(self, points: Floats) -> Box:
        if isinstance(self.box, Box):
            return self.box
        if isinstance(self.box, tuple | list) and len(self.box) == 2:
            shape = (points.shape[1],)
            try:
                low, high = (np.broadcast_to(np.asarray(end, dtype=np.float64), shape) for end in self.box)
            except (TypeError, ValueError):
                raise InvalidInput(f"box must have {shape[0]} numbers per corner; got {self.box!r}") from None
            return Box(tuple(low.tolist()), tuple(high.tolist()))
        raise InvalidInput(
            f"box must be the public domain of the positions: a Box, or (lower, upper); got {self.box!r}"
        )


def _check_people(X: Any) -> None:
    """Refuse what scikit-learn does not look at: a mask, and an index that has somebody twice."""
    if np.ma.is_masked(X):
        raise InvalidInput("X: some positions are masked; remove these rows first")
    levels = getattr(getattr(X, "index", None), "names", ())
    if person_columns([name for name in levels if isinstance(name, str)]):
        check_frame(X, POPULATION)
