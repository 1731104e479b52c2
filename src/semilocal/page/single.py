"""A map as one file: data, styles and modules inside, nothing to fetch. Made of the same modules as the page.

Knows results that have a map. Writes nothing but what is public about them.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..errors import InvalidInput
from ..hierarchy.base import Hierarchy
from ..io.coast import coast, lines_json
from ..io.files import write_text
from ..io.map_rows import Rows, domain_json, partition_rows, split_rows
from ..pooled.partition import PooledPartition
from ..protocol.mark import Mark
from ..protocol.partition import UNPROTECTED, Partition
from ..protocol.promise import Guarantee
from ..simulation.run import Run
from .assets import module_urls, static_files

__all__ = ["map_html", "rounds_of", "write_html"]

_POLICY = "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data: blob:"


def rounds_of(result: Run | Partition | PooledPartition) -> list[Rows]:
    """Rows by round: every round of a run in which a region was cut, or one for a finished partition."""
    if isinstance(result, Run):
        return split_rows(result.partition, result.splits)
    return [partition_rows(result)]


def map_html(
    rounds: Sequence[Rows], tree: Hierarchy, promise: Guarantee, *, title: str, numbers: Mapping[str, str],
    basemap: Path | None = None, mark: Mark | None = None,
) -> str:  # fmt: skip
    """The whole document.

    Parameters
    ----------
    rounds : sequence of Rows
        From :func:`rounds_of`; with several there is a slider.
    tree : Hierarchy
        Of the cells; its domain has one or two dimensions.
    promise : Guarantee
    title : str
    numbers : mapping of str to str
        What to show beside the map, by name.
    basemap : Path, optional
        GeoJSON whose lines are drawn instead of the coast.
    mark : Mark, optional
        Of a simulation; the title says it.
    """
    title = title if mark is None else f"{title}. {mark.words}"
    box = tree.box
    if box.dimensions > 2:
        raise InvalidInput(f"a map needs one or two dimensions; this domain has {box.dimensions}")
    data = {
        "title": title, "domain": domain_json(box), "numbers": dict(numbers), "promise": promise.to_json(),
        "public": UNPROTECTED if promise.adjacency == "inside" else "",
        "coast": lines_json(coast(box, basemap), box),
        "rounds": [
            {"round": number, "kind": "cells", "rows": rows.to_json(tree)}
            for number, rows in enumerate(rounds, start=1)
        ],
    }  # fmt: skip
    style = static_files()["style.css"].decode()
    icon = base64.b64encode(static_files()["icon.svg"]).decode()
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{html.escape(title)}</title>
<link rel="icon" href="data:image/svg+xml;base64,{icon}">
<style>{style}</style>
<script type="application/json" id="data">{_script_json(data)}</script>
<script type="importmap">{_script_json({"imports": module_urls("views/file.js")})}</script>
<script type="module">import "#views/file.js";</script>
</head>
<body><div id="page"><p class="quiet">Loading…</p></div></body>
</html>
"""


def _script_json(document: Any) -> str:
    """JSON that cannot end the element it stands in."""
    return msgspec.json.encode(document).decode().replace("<", "\\u003c")


def write_html(
    path: Path, result: Run | Partition | PooledPartition, promise: Guarantee, *, title: str,
    numbers: Mapping[str, str], basemap: Path | None = None,
) -> None:  # fmt: skip
    """Write the map of a result into one file."""
    mark = (result.partition if isinstance(result, Run) else result).mark
    document = map_html(
        rounds_of(result), result.task.hierarchy, promise, title=title, numbers=numbers, basemap=basemap, mark=mark
    )
    write_text(path, document)
