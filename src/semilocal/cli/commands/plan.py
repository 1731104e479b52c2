"""``semilocal plan``: what to expect of a task before anybody is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
from cyclopts import Parameter

from ...errors import InvalidInput
from ...geometry.places import as_box
from ...io.files import check_outputs
from ...io.plots import PICTURES, need_matplotlib
from ...io.points import read_points
from ...io.progress import Progress
from ...release.job import DELTA, K
from ...words import number_of
from ..arguments import BOX_HELP
from ..catalogue import DONE, FOUND
from ..options import advanced, file, number, option, positive, share, whole

__all__ = ["run"]


def _wanted(text: str) -> tuple[str, float]:
    """What is wanted: error=NUMBER or mean=NUMBER."""
    quantity, _, target = text.partition("=")
    if quantity not in ("error", "mean"):
        raise InvalidInput(f"must be error=NUMBER or mean=NUMBER; got {text!r}")
    return quantity, number(0, above=True)(target)


def run(
    *,
    n: Annotated[int, option("participants", "N", whole(1))],
    bounds: Annotated[str, option(f"the public domain: {BOX_HELP}", "BOX", dash=True)],
    epsilon: Annotated[
        float | None,
        option("loss between any two places of one's region, in all; left out with --want", "NUMBER", positive),
    ] = None,
    want: Annotated[
        tuple[str, float] | None,
        option(
            "smallest epsilon for error=0.01 (of a count, share of people) or mean=0.02 (half the interval, share "
            "of range)",
            "error=X",
            _wanted,
        ),
        Parameter(n_tokens=1),
    ] = None,
    k: Annotated[int, option("the smallest crowd of a region", "K", whole(1))] = K,
    density: Annotated[str, option("uniform, clustered, gaussian, or a file of PUBLIC positions")] = "clustered",
    plot: Annotated[Path | None, file("draw the regions of one play: .png, .svg or .pdf")] = None,
    delta: Annotated[float, advanced("chance that a crowd is below k", "SHARE", share)] = DELTA,
    plays: Annotated[int, advanced("reference populations to average over", "N", whole(1))] = 12,
    seed: Annotated[int, advanced("of the reference populations", "S", whole(0))] = 1,
) -> int:
    """Forecast; 1 if no epsilon reaches what is wanted."""
    from ...lab.planner import CAUTION, DENSITIES, Forecast, cheapest, density_of, forecast, picture, resampled

    given = density not in DENSITIES
    check_outputs({"--plot": (plot, PICTURES)}, inputs=[density] if given else [])
    if plot is not None:
        need_matplotlib()
    if (want is None) == (epsilon is None):
        raise InvalidInput("give --epsilon, or --want error=… to search for the smallest; one of the two")
    box = as_box(bounds)
    if plot is not None and box.dimensions != 2:
        raise InvalidInput(f"--plot needs two dimensions; the box has {box.dimensions}")
    crowd = resampled(read_points(density).points, box) if given else density_of(density, box)

    def make(loss: float) -> Forecast:
        step.advance()
        return forecast(
            crowd, box, n=n, epsilon=loss, delta=delta, k=k, plays=plays, rng=np.random.default_rng(seed)
        )  # fmt: skip

    plan: Forecast | None
    if want is not None:
        quantity, target = want
        with Progress(None, "forecasts") as step:
            plan = cheapest(make, quantity=quantity, target=target)
        if plan is None:
            wanted = f"{quantity}={target:g} with n = {n}, k = {k}"
            print(f"No epsilon up to 20 reaches {wanted}; ask more people, or lower k.")
            return FOUND
    else:
        assert epsilon is not None
        with Progress(None, "forecasts") as step:
            plan = make(epsilon)
    print(f"Forecast from {number_of(plays, 'play')} on a reference population ({density}); nobody was asked.")
    print("\n".join(plan.lines()))
    if density == "clustered":
        print(CAUTION)
    if plot:
        picture(plan, plot)
        print(f"Regions of one play: {plot} (regions and crowds are public by design)")
    return DONE
