"""``semilocal plan``: what to expect of a task before anybody is asked."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from ...errors import InvalidInput
from ...io.files import check_outputs
from ...io.plots import PICTURES, need_matplotlib
from ...io.points import read_points
from ...release.whom import DELTA
from ..arguments import BOX_HELP, add_seed, add_task, number, parse_box, whole
from ..exits import DONE, FOUND

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument("--n", type=whole(1), required=True, help="participants")
    add_task(parser, delta=DELTA, searched=True)
    parser.add_argument("--bounds", metavar="BOX", required=True, help=f"the public domain: {BOX_HELP}")
    parser.add_argument(
        "--density",
        default="clustered",
        help="uniform, clustered, gaussian, or a file of PUBLIC positions (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--want", type=_wanted, metavar="error=X", help="smallest epsilon for error=0.1 (of counts) or mean=0.5"
    )
    parser.add_argument(
        "--plot", "--picture", type=Path, metavar="FILE", help="draw the regions of one play: .png, .svg or .pdf"
    )
    parser.add_argument("--plays", type=whole(1), default=6, help="reference populations to average over (%(default)s)")
    add_seed(parser, "of the reference populations", default=1)


def _wanted(text: str) -> tuple[str, float]:
    """A type for argparse: error=NUMBER or mean=NUMBER."""
    quantity, _, target = text.partition("=")
    if quantity not in ("error", "mean"):
        raise argparse.ArgumentTypeError(f"must be error=NUMBER or mean=NUMBER; got {text!r}")
    return quantity, number(0, above=True)(target)


def run(args: argparse.Namespace) -> int:
    """Forecast; 1 if no epsilon reaches what is wanted."""
    from ...planner import DENSITIES, Forecast, cheapest, density_of, forecast, picture, resampled

    given = args.density not in DENSITIES
    check_outputs({"--plot": (args.plot, PICTURES)}, inputs=[args.density] if given else [])
    if args.plot is not None:
        need_matplotlib()
    if args.want is None and args.epsilon is None:
        raise InvalidInput("give --epsilon, or --want error=… to search for the smallest")
    box = parse_box(args.bounds)
    if args.plot is not None and box.dimensions != 2:
        raise InvalidInput(f"--plot needs two dimensions; the box has {box.dimensions}")
    density = resampled(read_points(args.density).points, box) if given else density_of(args.density, box)

    def make(epsilon: float) -> Forecast:
        return forecast(
            density, box, n=args.n, epsilon=epsilon, delta=args.delta, k=args.k, accounting=args.accounting,
            plays=args.plays, rng=np.random.default_rng(args.seed),
        )  # fmt: skip

    plan: Forecast | None
    if args.want:
        quantity, target = args.want
        plan = cheapest(make, quantity=quantity, target=target)
        if plan is None:
            wanted = f"{quantity}={target:g} with n = {args.n}, k = {args.k}"
            print(f"No epsilon up to 20 reaches {wanted}; ask more people, or lower k.")
            return FOUND
    else:
        plan = make(args.epsilon)
    print(f"Forecast from {args.plays} plays on a reference population ({args.density}); nobody was asked.")
    print("\n".join(plan.lines()))
    if args.plot:
        picture(plan, args.plot)
        print(f"Regions of one play: {args.plot} (regions and crowds are public by design)")
    return DONE
