"""The table of "How accurate is it?": forecasts for made-up towns, between two marks of the page.

    python tools/accuracy.py

Three minutes of processor time. ``semilocal plan`` prints the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from semilocal.lab.planner import SIZES, TRUSTS, density_of, forecast, rounded
from semilocal.lab.tables import markdown
from semilocal.simulation.synthetic import UNIT_SQUARE

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "accuracy.md"
MARKS = ("<!-- accuracy: begin -->", "<!-- accuracy: end -->")
PEOPLE = (1_000, 10_000, 100_000, 1_000_000)
EPSILONS = (0.5, 1.0, 2.0, 4.0)


def rows() -> Iterator[tuple[str, ...]]:
    """The head, and a row for every number of people and size of box."""
    columns = [(trust, epsilon) for trust in reversed(TRUSTS) for epsilon in EPSILONS]
    yield "people in all", "in the box", *(f"{TRUSTS[trust]}, ε = {epsilon:g}" for trust, epsilon in columns)
    towns = density_of("clustered", UNIT_SQUARE)
    for n in PEOPLE:
        plans = {epsilon: forecast(towns, UNIT_SQUARE, n=n, epsilon=epsilon) for epsilon in EPSILONS}
        for place, size in enumerate(SIZES):
            errors = [float(plans[epsilon].errors[trust][:, place].mean()) for trust, epsilon in columns]
            if 2 * size <= n:
                yield f"{n:,}", f"{size:,}", *(worded(error, size) for error in errors)


def worded(error: float, size: int) -> str:
    """The error; in brackets if it is more than half of what is counted."""
    return rounded(error) if 2 * error <= size else f"({rounded(error)})"


def main() -> None:
    """Write the table into the page."""
    table = markdown(rows())
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    PAGE.write_text(f"{before}{MARKS[0]}\n{table}\n{MARKS[1]}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
