"""The command line: ``semilocal partition | mean | counts | demo | …``.

Knows arguments, files and words on the terminal. Must not know how anything is computed. Commands of other packages
are imported only when they are called, so that help is fast and the core works without extras.

The protocol is played on this machine for positions in a file. Whatever is printed with an epsilon says between which
worlds it holds, with which delta, and what the most is that anybody lost.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__, functions, release
from ..accounting import Ledger
from ..arrays import Floats
from ..errors import MissingExtra, SemilocalError
from ..geometry.box import Box
from ..geometry.places import PLACES, named_box
from ..io.progress import Progress
from ..protocol.partition import Partition
from ..protocol.task import Task
from ..release import onecall as jobs
from ..simulation.run import Run
from ..simulation.simulate import simulate
from .arguments import (
    CORNERS,
    check_suffix,
    csv_text,
    geojson_text,
    grid_boxes,
    parse_function,
    read_positions,
    read_queries,
    write_regions,
)

__all__ = ["main"]


BAD_INPUT = 2
DELTA = 1e-6

# command: (module below semilocal, what it does). A module has add_parser or add_parsers(subparsers), which set `run`.
_ELSEWHERE = {
    "data": ("cli.commands.data", "datasets of the experiments: origin, terms, what is on disk"),
    "reproduce": ("cli.commands.reproduce", "make the figures of the paper"),
    "serve": ("cli.commands.serve", "run the collection server"),
    "campaign": ("cli.commands.serve", "create, list, show, start or close campaigns"),
    "tokens": ("cli.commands.serve", "make one-time enrolment tokens"),
    "results": ("cli.commands.serve", "write what a finished campaign publishes"),
    "join": ("cli.commands.join", "take part in a campaign from this machine"),
    "swarm": ("cli.commands.join", "let many simulated devices take part"),
    "plan": ("cli.commands.audit", "what to expect of a task before anybody is asked"),
    "audit": ("cli.commands.audit", "attack what is promised: lower bounds on the true loss"),
    "verify": ("cli.commands.audit", "replay a transcript and name everything that does not follow"),
    "transcript": ("cli.commands.audit", "download the transcript of a campaign"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return 0, or 2 after one line on stderr that says what is wrong and how to mend it."""
    given = _joined(list(sys.argv[1:] if argv is None else argv))
    try:
        args = _parser(given).parse_args(given)
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)  # ours: each is for the person at the terminal
            warnings.showwarning = _show_warning
            return int(args.run(args) or 0)
    except SemilocalError as error:
        print(f"semilocal: error: {error}", file=sys.stderr)
    except OSError as error:
        if isinstance(error, BrokenPipeError):  # the reader of a pipe has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        what = f"{error.filename}: " if error.filename else ""
        print(f"semilocal: error: {what}{error.strerror or error}; check the path and its rights", file=sys.stderr)
    except KeyboardInterrupt:
        print("semilocal: stopped", file=sys.stderr)
        return 130
    return BAD_INPUT


def _joined(given: list[str]) -> list[str]:
    """Bounds often begin with a minus sign, which argparse would take for an option."""
    for at in range(len(given) - 1):
        if given[at] == "--bounds" and given[at + 1][:1] == "-" and "," in given[at + 1]:
            return [*given[:at], f"--bounds={given[at + 1]}", *given[at + 2 :]]
    return given


def _parser(given: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="semilocal", description="Density-adaptive location analytics.")
    parser.add_argument("--version", action="version", version=f"semilocal {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    partition = _job(commands, "partition", "cut the domain into regions that each hold a crowd", run_partition)
    partition.add_argument("--out", type=Path, metavar="FILE", help="write the regions: .geojson or .csv")
    partition.add_argument("--plot", type=Path, metavar="FILE", help="draw the regions: .png, .svg or .pdf")
    mean = _job(commands, "mean", "the mean of a function of the positions, with its error", run_mean)
    mean.add_argument(
        "--function",
        required=True,
        metavar="F",
        help="squared-norm[:X,Y], coordinate:NAME, gaussian-bump:SIGMA[,X,Y], linear:W1,W2 or indicator:X0,Y0,X1,Y1",
    )
    mean.add_argument("--level", type=float, default=0.95, help="of the interval (%(default)s)")
    counts = _job(commands, "counts", "how many people are in boxes, with intervals", run_counts)
    asked = counts.add_mutually_exclusive_group(required=True)
    asked.add_argument(
        "--queries",
        type=Path,
        metavar="FILE",
        help="CSV with columns x0,y0,x1,y1 (or NAME_lower and NAME_upper for each axis), or GeoJSON with rectangles",
    )
    asked.add_argument("--grid", metavar="AxB", help="an even grid over the domain, such as 32x32")
    counts.add_argument("--level", type=float, default=0.95, help="of the intervals (%(default)s)")
    counts.add_argument("--out", type=Path, metavar="FILE", help="write the answers: .csv or .geojson (else stdout)")
    demo = commands.add_parser("demo", help="the whole job on a real sample: partition, mean, counts")
    demo.add_argument("--out", type=Path, default=Path("demo-output"), metavar="FOLDER", help="(%(default)s)")
    demo.add_argument("--seed", type=int, help="repeatable, for simulation only")
    demo.add_argument("--live", action="store_true", help="with a server and devices on this machine")
    demo.set_defaults(run=run_demo)
    _add_elsewhere(commands, given[0] if given else "")
    return parser


def _add_elsewhere(commands: Any, wanted: str) -> None:
    """Real parsers for the command that was called, one line of help for all others that are installed."""
    if wanted in _ELSEWHERE:
        try:
            module = importlib.import_module(f"semilocal.{_ELSEWHERE[wanted][0]}")
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("semilocal"):
                raise MissingExtra(str(error.name), "all") from None
        else:
            (getattr(module, "add_parsers", None) or module.add_parser)(commands)
    for command, (name, words) in _ELSEWHERE.items():
        if command not in commands.choices and _installed(f"semilocal.{name}"):
            commands.add_parser(command, help=words)


def _installed(module: str) -> bool:
    parent = Path(__file__).parents[1].joinpath(*module.split(".")[1:])
    return parent.with_suffix(".py").is_file()


def _job(commands: Any, name: str, words: str, run: Callable[[argparse.Namespace], None]) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=words, description=words)
    parser.add_argument("file", metavar="FILE", type=Path, help="positions: .csv, .csv.gz, .parquet or .geojson")
    parser.add_argument("--x", metavar="NAME", help="column of the first axis (longitude)")
    parser.add_argument("--y", metavar="NAME", help="column of the second axis (latitude)")
    parser.add_argument("--columns", metavar="A,B,C", help="columns of positions with other than two dimensions")
    parser.add_argument(
        "--bounds",
        metavar="BOX",
        help="the public domain, required: x0,y0,x1,y1 or one of " + ", ".join(PLACES) + "; 'data' leaks the extremes",
    )
    parser.add_argument("--clip", action="store_true", help="move positions outside the bounds to the edge")
    parser.add_argument("--epsilon", type=float, required=True, help="loss inside the region, in all")
    parser.add_argument("--k", type=int, required=True, help="the smallest crowd")
    parser.add_argument("--delta", type=float, default=DELTA, help="chance that a crowd fails (%(default)s)")
    parser.add_argument("--rule", choices=("trim", "all", "each"), default="trim", help="(%(default)s)")
    parser.add_argument(
        "--accounting",
        choices=("core", "uniform"),
        default="core",
        help="what epsilon is for: positions inside a region, or moved positions against those inside (%(default)s)",
    )
    parser.add_argument("--max-trims", type=int, metavar="M", help="the most moves that anybody can have")
    parser.add_argument("--tau", type=float, metavar="SHARE", help="the largest share of a cell that may be moved")
    parser.add_argument("--cap", type=float, metavar="EPSILON", help="refuse if anybody could lose more")
    parser.add_argument("--seed", type=int, help="repeatable, for simulation only; else the system's randomness")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    parser.set_defaults(run=run)
    return parser


# -- the commands ------------------------------------------------------------------------------------------------------


def run_partition(args: argparse.Namespace) -> None:
    """Find the regions, and write or draw them."""
    check_suffix(args.out, (".geojson", ".csv"))
    check_suffix(args.plot, (".png", ".svg", ".pdf"))
    points, box = read_positions(args)
    if args.plot is not None:
        _agg()
    run, ledger = _partition(args, points, box)
    partition = run.partition
    write_regions(partition, args.out)
    if args.plot is not None:
        _draw(partition, args.plot)
    crowds = partition.crowds
    found = {
        "regions": len(partition),
        "crowds": {"smallest": int(crowds.min()), "median": float(np.median(crowds)), "largest": int(crowds.max())},
        "share_below_k": partition.share_below_k,
        "files": [str(path) for path in (args.out, args.plot) if path is not None],
    }
    words = [
        f"{len(run.regions):,} participants, {len(partition):,} regions with crowds from {crowds.min():,} to "
        f"{crowds.max():,} (median {np.median(crowds):,.0f}); {100 * partition.share_below_k:.3g} % share a region "
        f"with fewer than k = {args.k}.",
        *(f"wrote {path}" for path in found["files"]),  # type: ignore[attr-defined]
    ]
    _tell(args, run, ledger, found, words)


def run_mean(args: argparse.Namespace) -> None:
    """Release a mean."""
    points, box = read_positions(args)
    f = parse_function(args.function, box.names)
    rng = _rng(args)
    with _progress(args) as advance:
        run, split, ledger = jobs.partition_for_values(
            points, box, epsilon=args.epsilon, delta=args.delta, k=args.k, rng=rng, cap=args.cap, progress=advance,
            **_options(args),
        )  # fmt: skip
    result = release.mean(run, points, f, epsilon=split.value, rng=rng, ledger=ledger)
    low, high = result.interval(args.level)
    wide = result.interval(args.level, widen=True)
    found = {
        "function": f.name, "value": result.value, "stderr": result.stderr, "interval": [low, high],
        "level": args.level, "bias_bound": result.bias_bound, "interval_with_bias": list(wide),
        "regions": len(run.partition), "epsilon_partition": split.tree, "epsilon_values": split.value,
    }  # fmt: skip
    words = [
        f"mean of {f.name} over {result.participants:,} participants: {result.value:.6g} ± {result.stderr:.2g}, "
        f"{100 * args.level:g} % interval {low:.6g} to {high:.6g}"
    ]
    if result.biased:
        words.append(
            f"Moved participants count where they were moved to: that may shift the mean by up to about "
            f"{result.bias_bound:.2g}; with it the interval is {wide[0]:.6g} to {wide[1]:.6g}."
        )
    if not split.tree:
        words.append(
            "No partition was made, because noise would hide it: all of epsilon went to the values, and the region of "
            "everybody is the whole domain."
        )
    _tell(args, run, result.spent, found, words)


def run_counts(args: argparse.Namespace) -> None:
    """Answer range queries."""
    check_suffix(args.out, (".geojson", ".csv"))
    points, box = read_positions(args)
    boxes = grid_boxes(args.grid, box) if args.grid else read_queries(args.queries, box)
    run, ledger = _partition(args, points, box)
    answers = release.counts(run, ledger=ledger).query(boxes)
    interval = answers.interval(args.level)
    names = CORNERS if box.dimensions == 2 else [f"{n}_{end}" for end in ("lower", "upper") for n in box.names]
    table = np.column_stack([boxes.reshape(len(boxes), -1), answers.value, answers.stderr, interval])
    columns = [*names, "count", "stderr", "low", "high"]
    if args.out is not None:
        args.out.write_text(
            geojson_text(boxes, table, columns) if args.out.suffix == ".geojson" else csv_text(table, columns)
        )
    found: dict[str, Any] = {"queries": len(boxes), "level": args.level, "regions": len(run.partition)}
    found["uncertain"] = answers.uncertain
    words = [f"{len(boxes):,} queries over {len(run.partition):,} regions"]
    if answers.uncertain:
        words.append("Some people may have been moved next door; the intervals take that in.")
    if args.out is not None:
        found["files"] = [str(args.out)]
        words.append(f"wrote {args.out}")
    else:
        found["answers"] = [dict(zip(columns, row, strict=True)) for row in table.tolist()]
        words.append(csv_text(table, columns).rstrip())
    _tell(args, run, ledger, found, words)


def run_demo(args: argparse.Namespace) -> None:
    """The whole job on California Housing: 20,640 block groups as participants."""
    if args.live:
        from .commands import demo as live_demo

        live_demo.run(args)
        return
    _agg()
    from ..experiments.datasets.load import california_housing

    points, _ = california_housing()
    box = named_box("california")
    rng = np.random.default_rng(args.seed)
    args.json = args.quiet = False
    task = Task.build(box, epsilon=1.0, delta=DELTA, k=50)
    print(f"California Housing: {len(points):,} block groups stand for participants; their positions are public.\n")
    with _progress(args) as advance:
        run = simulate(points, task, rng=rng, progress=advance)
    latitude = functions.coordinate(1)
    result = release.mean(run, points, latitude, epsilon=0.5, rng=rng)
    places = ("san-francisco", "california")
    queries = np.array([[named_box(name).lower, named_box(name).upper] for name in places])
    answers = release.counts(run, ledger=result.spent).query(queries)
    args.out.mkdir(parents=True, exist_ok=True)
    write_regions(run.partition, args.out / "regions.geojson")
    _draw(run.partition, args.out / "regions.png", points=points)
    low, high = result.interval()
    words = [
        f"{len(run.partition):,} regions, crowds from {run.partition.crowds.min()} to {run.partition.crowds.max()}.",
        f"Mean latitude: {result.value:.4f}, 95 % interval {low:.4f} to {high:.4f}, moved participants may shift it by "
        f"{result.bias_bound:.2g} (truth: {points[:, 1].mean():.4f}).",
    ]
    for name, query, value, ends in zip(places, queries, answers.value, answers.interval(), strict=True):
        truth = int(np.count_nonzero(((points >= query[0]) & (points < query[1])).all(axis=1)))
        words.append(f"In {name}'s box: {value:.0f}, 95 % interval {ends[0]:.0f} to {ends[1]:.0f} (truth: {truth}).")
    words.append(f"wrote {args.out / 'regions.geojson'} and {args.out / 'regions.png'}")
    _tell(args, run, result.spent, {}, words)


# -- what is done ------------------------------------------------------------------------------------------------------


def _partition(args: argparse.Namespace, points: Floats, box: Box) -> tuple[Run, Ledger]:
    task = Task.build(box, epsilon=args.epsilon, delta=args.delta, k=args.k, **_options(args))
    ledger = Ledger.of(task, cap=args.cap)
    with _progress(args) as advance:
        return simulate(points, task, rng=_rng(args), progress=advance), ledger


def _options(args: argparse.Namespace) -> dict[str, Any]:
    options = {"rule": args.rule, "accounting": args.accounting, "max_trims": args.max_trims, "tau": args.tau}
    return {name: value for name, value in options.items() if value is not None}


def _rng(args: argparse.Namespace) -> np.random.Generator:
    return np.random.default_rng(args.seed)  # without a seed it is drawn from the operating system


class _progress:
    """A line on stderr that counts rounds."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._bar = Progress(None, "rounds played", show=not (args.quiet or args.json))

    def __enter__(self) -> Callable[[int, int], None]:
        return lambda _round, _cells: self._bar.advance()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._bar.close(failed=kind is not None)


def _agg() -> None:
    try:
        import matplotlib
    except ImportError:
        raise MissingExtra("matplotlib", "plots") from None
    matplotlib.use("Agg")


def _draw(partition: Partition, path: Path, *, points: Floats | None = None) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 6.2), layout="constrained")
    partition.plot(figure.add_subplot(), points=points)
    figure.savefig(path, dpi=150)


# -- what comes out ----------------------------------------------------------------------------------------------------


def _tell(
    args: argparse.Namespace,
    run: Run,
    ledger: Ledger,
    found: dict[str, Any],
    words: Sequence[str],
) -> None:
    """Print results and promise: as one JSON object, or in words. Nothing but what the transcript tells."""
    said = ledger.guarantee(run.partition, simulated=run.simulated)
    if args.json:
        everything = {"command": args.command, "participants": len(run.regions), **found, "privacy": said.to_json()}
        print(json.dumps({**everything, "simulation": run.simulated, "seed": args.seed}))
        return
    if args.seed is not None:
        print(f"Seed {args.seed} makes the noise repeatable, so it protects nobody.")
    print(*words, sep="\n")
    print(f"\n{said.text()}\n\n{ledger}")


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"semilocal: warning: {message}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
