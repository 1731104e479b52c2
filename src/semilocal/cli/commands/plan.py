"""``semilocal plan``: what to expect of a task before anybody is asked."""

from __future__ import annotations

from typing import Annotated

from ...errors import InvalidInput
from ...geometry.places import as_box
from ...io.points import read_points
from ...io.progress import Progress
from ...protocol.promise import Trust
from ...release.job import DELTA, K
from ...words import number_of
from ..arguments import BOX_HELP
from ..catalogue import DONE, FOUND
from ..options import advanced, option, positive, share, whole

__all__ = ["run"]


def run(
    *,
    n: Annotated[int, option("participants", "N", whole(1))],
    bounds: Annotated[str, option(f"the public domain: {BOX_HELP}", "BOX", dash=True)],
    epsilon: Annotated[
        float | None,
        option(
            "loss between any two places (nobody trusted: of one's region); left out with --want", "NUMBER", positive
        ),
    ] = None,
    want: Annotated[
        float | None,
        option(
            "find the smallest epsilon: where nobody is trusted boxes of 500 people are off by at most so many",
            "PEOPLE",
            positive,
        ),
    ] = None,
    k: Annotated[int, option("the smallest crowd of a region", "K", whole(1))] = K,
    density: Annotated[
        str,
        option(
            "where people live: uniform; made-up towns, spread, clustered or clumped; or a file of PUBLIC positions"
        ),
    ] = "clustered",
    delta: Annotated[float, advanced("chance that a crowd is below k", "SHARE", share)] = DELTA,
    plays: Annotated[int, advanced("reference populations to average over", "N", whole(1))] = 12,
    seed: Annotated[int, advanced("of the reference populations", "S", whole(0))] = 1,
) -> int:
    """Forecast; 1 if no epsilon reaches what is wanted."""
    from ...lab.planner import CAUTION, TOWNS, TRUSTS, Forecast, cheapest, density_of, forecast, resampled

    if (want is None) == (epsilon is None):
        raise InvalidInput("give --epsilon, or --want PEOPLE to search for the smallest; one of the two")
    box = as_box(bounds)
    named = density in ("uniform", *TOWNS)
    people = density_of(density, box) if named else resampled(read_points(density).points, box)

    def make(loss: float, trusts: tuple[Trust, ...] = ("nobody",)) -> Forecast:
        step.advance()
        return forecast(
            people, box, n=n, epsilon=loss, delta=delta, k=k, plays=plays, seed=seed, trusts=trusts
        )  # fmt: skip

    with Progress(None, "forecasts") as step:
        if want is not None:
            found = cheapest(make, target=want)
            if found is None:
                print(f"No epsilon up to 20 reaches that with n = {n}, k = {k}; ask more people, or lower k.")
                return FOUND
            epsilon = found.epsilon
        assert epsilon is not None
        plan = make(epsilon, tuple(TRUSTS))
    print(f"Forecast from {number_of(plays, 'play')} on a reference population ({density}); nobody was asked.")
    print("\n".join(plan.lines()))
    if density in TOWNS:
        print(CAUTION)
    return DONE
