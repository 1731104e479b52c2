"""Markdown tables, which the audit, the report and the documentation show."""

from __future__ import annotations

from collections.abc import Iterable


def markdown(rows: Iterable[Iterable[object]]) -> str:
    """A Markdown table; the first row is its head.

    Examples
    --------
    >>> print(markdown([("what", "how many"), ("people", 3)]))
    | what | how many |
    | --- | --- |
    | people | 3 |
    """
    head, *body = ([str(cell).replace("|", "\\|") for cell in row] for row in rows)
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *body))
