"""The transformer keeps scikit-learn's rules where they can apply, and ours everywhere."""

from __future__ import annotations

import pickle
import warnings
from typing import Any
from unittest import SkipTest

import numpy as np
import pytest

import semilocal as sl
from semilocal.datasets import california_housing
from semilocal.errors import InvalidInput, OutsideDomain
from semilocal.geometry.places import named_box

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.metrics import f1_score
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from semilocal.sklearn import SemiLocalTransformer

NOT_APPLICABLE = {"check_dtype_object": "it uses ten features; a box has at most eight dimensions"}


@pytest.mark.filterwarnings("ignore::semilocal.errors.NoCrowdWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [SemiLocalTransformer(box=(-1000, 1000), epsilon=2.0, k=5, delta=0.01, random_state=0)],
    expected_failed_checks=lambda estimator: NOT_APPLICABLE,
)
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    try:
        check(estimator)
    except SkipTest as not_here:  # array types other than numpy's, unless scipy is told to support them
        pytest.xfail(str(not_here))


@pytest.fixture(scope="module")
def housing() -> tuple[Any, Any]:
    points, values = california_housing()
    return points, values > np.median(values)


def test_training_features_are_what_their_regions_tell_and_nothing_else() -> None:
    rng = np.random.default_rng(1)
    points = rng.random((5_000, 2))
    transformer = SemiLocalTransformer(epsilon=2.0, k=20, box=(0, 1), random_state=1)
    private = transformer.fit_transform(points)
    regions = transformer.partition_.locate(points)
    assert len(transformer.partition_) > 4
    features = np.full((len(transformer.partition_), 2), np.nan)
    features[regions] = private
    assert np.array_equal(features[regions], private), "a function of the region alone"
    lower, upper = transformer.partition_.boxes.transpose(1, 0, 2)
    assert np.all((lower <= features) & (features <= upper))
    moved = points.copy()
    moved[0] = points[np.flatnonzero(regions == regions[0])[1]]  # somebody else in the same region
    assert np.array_equal(transformer.transform(moved), private)
    task = transformer.partition_.task
    assert (task.epsilon, task.k, task.delta) == (2.0, 20, 1e-6)
    assert transformer.spent_ == sl.Ledger.of(task).settle(transformer.partition_)
    assert "curator" in transformer.guarantee_.explain()


def test_training_positions_never_come_back() -> None:
    """Attributes and every method that is used in a Pipeline: none of them holds a training position."""
    points = np.random.default_rng(1).beta(2, 5, (5_000, 2))
    transformer = SemiLocalTransformer(epsilon=2.0, k=20, box=(0, 1), random_state=1)
    private = transformer.fit_transform(points)
    known = set(points.ravel().tolist())
    for out in (private, transformer.transform(points), transformer.transform(points[:7])):
        assert known.isdisjoint(np.asarray(out).ravel().tolist())
    packed = pickle.dumps(transformer)
    assert not any(coordinate.tobytes() in packed for coordinate in points[:500].ravel())
    # the planted leak: what a transform that leaves its input alone would give
    assert not known.isdisjoint(transformer.pass_through(points).ravel().tolist())


def test_before_fit_it_says_that_it_is_not_fitted() -> None:
    for use in (SemiLocalTransformer(box=(0, 1)).transform, SemiLocalTransformer(box=(0, 1)).pass_through):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            use(np.zeros((2, 2)))


def test_positions_to_predict_for_pass_through_under_a_name_of_their_own() -> None:
    rng = np.random.default_rng(2)
    transformer = SemiLocalTransformer(box=(0, 1), random_state=1).fit(rng.random((1_000, 2)))
    asked = rng.normal(0, 5, (50, 2))
    out = transformer.pass_through(asked)
    assert np.array_equal(out, asked)
    assert out is not asked
    with pytest.raises(OutsideDomain):
        transformer.transform(asked)


@pytest.mark.parametrize(
    "model", [KNeighborsClassifier(15, weights="distance"), RandomForestClassifier(20, max_depth=8, random_state=1)]
)
def test_a_pipeline_learns_from_private_positions(housing: tuple[Any, Any], model: Any) -> None:
    """Expensive or not, by place alone: F1 0.7 and more at epsilon = 4; guessing gives 0.5."""
    points, label = housing
    train, test, known, asked = train_test_split(points, label, test_size=0.3, random_state=1)
    pipeline = make_pipeline(
        SemiLocalTransformer(epsilon=4.0, k=20, delta=0.05, box=named_box("california"), random_state=1), clone(model)
    )
    pipeline.fit(train, known)
    assert f1_score(asked, pipeline.predict(test)) > 0.65  # asked by regions
    exact = pipeline[-1].predict(pipeline[0].pass_through(test))
    assert f1_score(asked, exact) > 0.7  # asked by positions
    private = clone(pipeline[0]).fit_transform(train)
    by_hand = clone(model).fit(private, known)
    assert np.array_equal(exact, by_hand.predict(test))


def test_cross_validation_works(housing: tuple[Any, Any]) -> None:
    points, label = housing
    pipeline = make_pipeline(
        SemiLocalTransformer(4.0, 20, delta=0.05, box=named_box("california"), random_state=1), KNeighborsClassifier(15)
    )
    order = np.random.default_rng(1).permutation(len(points))[:6_000]
    assert cross_val_score(pipeline, points[order], label[order], cv=3).mean() > 0.65


def test_the_box_must_be_public() -> None:
    points = np.random.default_rng(3).random((500, 2))
    with pytest.raises(InvalidInput, match="public domain"):
        SemiLocalTransformer().fit(points)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", sl.errors.WeakWarning)  # 500 people are few
        for box in (sl.Box((0, 0), (1, 1)), (0, 1), ((0, 0), (1, 1)), [[0, 0], 1]):
            fitted = SemiLocalTransformer(box=box, random_state=1).fit(points)  # type: ignore[arg-type]
            assert fitted.partition_.task.box == sl.Box((0, 0), (1, 1))
    with pytest.raises(OutsideDomain):
        SemiLocalTransformer(box=(0, 0.5)).fit(points)
    for wrong in ("data", ((0, 0, 0), (1, 1, 1)), (0, 1, 2), (1, 0), 3):
        with pytest.raises(InvalidInput):
            SemiLocalTransformer(box=wrong).fit(points)  # type: ignore[arg-type]


def test_randomness_is_an_argument() -> None:
    points = np.random.default_rng(5).random((3_000, 2))

    def release(random_state: Any) -> Any:
        return SemiLocalTransformer(2.0, 20, box=(0, 1), random_state=random_state).fit_transform(points)

    assert np.array_equal(release(1), release(1))
    assert np.array_equal(release(1), release(np.int64(1)))
    assert np.array_equal(release(np.random.RandomState(1)), release(np.random.RandomState(1)))
    assert not np.array_equal(release(None), release(None))
    assert not np.array_equal(release(1), release(np.random.default_rng(2)))


@pytest.mark.parametrize("names", [["latitude", "longitude"], ["lat", "lon"]])
def test_columns_in_another_order_than_the_axes_are_refused(names: list[str]) -> None:
    """Porto is 41 N, 8 W: both orders lie inside a map of the world."""
    pandas = pytest.importorskip("pandas")
    box = sl.Box((-180, -90), (180, 90), names=("longitude", "latitude"))
    points = pandas.DataFrame(np.random.default_rng(3).normal((41, -8), 0.01, (4_000, 2)), columns=names)
    transformer = SemiLocalTransformer(epsilon=2.0, k=20, box=box, random_state=1)
    with pytest.raises(InvalidInput, match="give them in the order of the box: X"):
        transformer.fit(points)
    private = transformer.fit_transform(points[names[::-1]])
    assert private[:, 1].mean() == pytest.approx(41, abs=5)
    transformer.fit(points.rename(columns=dict(zip(names, "ab", strict=True))))  # no names of axes: by their place


def test_a_cell_that_is_no_number_is_not_repeated() -> None:
    points = np.random.default_rng(3).random((50, 2)).astype(object)
    points[7, 0] = "13.377713 E"
    transformer = SemiLocalTransformer(epsilon=2.0, k=20, box=(0, 1), random_state=1)
    with pytest.raises(InvalidInput, match="X must hold numbers only") as refusal:
        transformer.fit(points)
    error: BaseException | None = refusal.value
    assert "377713" not in str(error)
    assert error is not None
    assert error.__context__ is None, "a traceback would show it"


def test_a_mask_and_an_index_that_has_people_twice_are_refused() -> None:
    pandas = pytest.importorskip("pandas")
    box, points = named_box("california"), california_housing()[0][:500]
    transformer = SemiLocalTransformer(box=box, epsilon=2.0, k=20)
    masked = np.ma.array(points, mask=np.zeros((500, 2), dtype=bool))
    transformer.fit(masked)
    masked[7] = np.ma.masked
    with pytest.raises(InvalidInput, match="some positions are masked"):
        transformer.fit(masked)
    frame = pandas.DataFrame(points, columns=["longitude", "latitude"])
    transformer.fit(frame.set_index(pandas.Index(range(500), name="user")))
    with pytest.raises(InvalidInput, match="column 'user' looks like a person, and some have several rows"):
        transformer.fit_transform(frame.set_index(pandas.Index([row // 2 for row in range(500)], name="user")))
