"""Results in a notebook: the numbers, the promise, and the interactive map in a frame of its own. Works offline.

Knows results that have a map. Shows nothing but what is public about them.
"""

from __future__ import annotations

from html import escape
from typing import Any

from ..release.counts import Mapped, counts
from ..simulation.simulate import Run
from ..words import number_of
from .single import map_html, rounds_of

__all__ = ["result_html"]

HEIGHT = 680
MOST_CELLS = 30_000  # more would make a notebook of many megabytes


def result_html(result: Mapped | Run) -> str:
    """The result as HTML: a line of numbers, the promise in a sentence, and the map (one or two dimensions)."""
    mapped: Any = result
    if isinstance(result, Run):  # its map is drawn from the rounds, and the sum of all crowds is public
        mapped = counts(result)
    partition = mapped.partition
    counted = "participants" if mapped.guarantee.rows == 1 else "rows"
    numbers = {counted: f"{mapped.total:,}", "regions": f"{len(partition):,}", **_value(mapped)}
    line = " · ".join(f"{escape(name)}: <b>{escape(text)}</b>" for name, text in numbers.items())
    words = f"<p>{line}</p><p>{escape(mapped.guarantee.sentence())}</p>"
    box = partition.task.box
    if box.dimensions > 2:
        return f"<div>{words}<p>{box.dimensions} dimensions have no map.</p></div>"
    if len(partition) > MOST_CELLS:
        return f"<div>{words}<p>The map has {number_of(len(partition), 'cell')}; draw it with plot().</p></div>"
    rounds = rounds_of(result if isinstance(result, Run) else partition)
    document = map_html(
        rounds, partition.task.hierarchy, mapped.guarantee, title=type(result).__name__, numbers=numbers,
        mark=partition.mark,
    )  # fmt: skip
    frame = f'sandbox="allow-scripts allow-downloads" width="100%" height="{HEIGHT}" style="border:0"'
    return f'<div>{words}<iframe title="map" {frame} srcdoc="{escape(document)}"></iframe></div>'


def _value(mapped: Any) -> dict[str, str]:
    """The number that was released, with its interval, if there is one."""
    value = getattr(mapped, "value", None)
    if not isinstance(value, float):
        return {}
    low, high = mapped.interval()
    return {"value": f"{value:.5g}, 95 % interval {low:.5g} to {high:.5g}"}
