"""The tables of "How accurate is it?": forecasts for made-up towns, between two marks of the page.

    python tools/accuracy.py

Three minutes of processor time. ``semilocal plan`` prints the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from semilocal.lab.planner import SIZES, TRUSTS, density_of, forecast, rounded
from semilocal.simulation.synthetic import UNIT_SQUARE
from semilocal.tabular import markdown

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "accuracy.md"
MARKS = ("<!-- accuracy: begin -->", "<!-- accuracy: end -->")
PEOPLE = (1_000, 10_000, 100_000, 1_000_000)
EPSILONS = (0.5, 1.0, 2.0, 4.0)


def tables() -> Iterator[str]:
    """A table for each kind of trust, with a row for every number of people and size of box."""
    towns = density_of("clustered", UNIT_SQUARE)
    plans = {(n, epsilon): forecast(towns, UNIT_SQUARE, n=n, epsilon=epsilon) for n in PEOPLE for epsilon in EPSILONS}
    for trust in reversed(TRUSTS):
        rows = [("people in all", "in the box", *(f"ε = {epsilon:g}" for epsilon in EPSILONS))]
        for n in PEOPLE:
            for place, size in enumerate(SIZES):
                errors = [float(plans[n, epsilon].errors[trust][:, place].mean()) for epsilon in EPSILONS]
                if 2 * size <= n:
                    rows.append((f"{n:,}", f"{size:,}", *(worded(error, size) for error in errors)))
        yield f"**{TRUSTS[trust].capitalize()}**\n\n{markdown(rows)}\n"


def worded(error: float, size: int) -> str:
    """The error; in brackets if it is more than half of what is counted."""
    return rounded(error) if 2 * error <= size else f"({rounded(error)})"


def main() -> None:
    """Write the tables into the page."""
    found = "\n".join(tables())
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    PAGE.write_text(f"{before}{MARKS[0]}\n{found}{MARKS[1]}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
