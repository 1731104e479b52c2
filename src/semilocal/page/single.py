"""A map as one file, or in a notebook: data, styles and modules inside, nothing to fetch. Made of the page's modules.

Knows results that have a map. Writes nothing but what is public about them.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import msgspec

from ..errors import InvalidInput
from ..hierarchy.base import Hierarchy
from ..io.files import write_text
from ..io.map_rows import Rows, domain_json, partition_rows, split_rows
from ..io.plots import coast, lines_json
from ..pooled.partition import PooledPartition
from ..protocol.mark import Mark
from ..protocol.partition import UNPROTECTED, Partition
from ..protocol.promise import Guarantee
from ..release.counts import Mapped, counts
from ..simulation.simulate import Run
from ..words import number_of

__all__ = [
    "FOLDERS", "content_security_policy", "import_map", "index_html", "map_html", "media_type", "module_urls",
    "modules_of", "packed_file", "result_html", "rounds_of", "static_files", "write_html",
]  # fmt: skip

HEIGHT = 680  # of the frame in a notebook
MOST_CELLS = 30_000  # more would make a notebook of many megabytes
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


def result_html(result: Mapped | Run) -> str:
    """The result as HTML: a line of numbers, the promise in a sentence, and the map (one or two dimensions)."""
    mapped: Any = result
    if isinstance(result, Run):  # its map is drawn from the rounds, and the sum of all crowds is public
        mapped = counts(result)
    partition = mapped.partition
    counted = "participants" if mapped.guarantee.rows == 1 else "rows"
    numbers = {counted: f"{mapped.total:,}", "regions": f"{len(partition):,}", **_value(mapped)}
    line = " · ".join(f"{html.escape(name)}: <b>{html.escape(text)}</b>" for name, text in numbers.items())
    words = f"<p>{line}</p><p>{html.escape(mapped.guarantee.sentence())}</p>"
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
    return f'<div>{words}<iframe title="map" {frame} srcdoc="{html.escape(document)}"></iframe></div>'


def _value(mapped: Any) -> dict[str, str]:
    """The number that was released, with its interval, if there is one."""
    value = getattr(mapped, "value", None)
    if not isinstance(value, float):
        return {}
    low, high = mapped.interval()
    return {"value": f"{value:.5g}, 95 % interval {low:.5g} to {high:.5g}"}


# -- the files of the page: read once, with their types, and how modules find each other -----------------------------


FOLDERS = ("map", "views", "vendor", "device")
_IMPORT = re.compile(r'^import [^;]*?"#([^"]+)";', flags=re.MULTILINE)
_TYPES = {
    ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".html": "text/html; charset=utf-8",
    ".json": "application/json", ".svg": "image/svg+xml", ".LICENSE": "text/plain; charset=utf-8",
}  # fmt: skip


@cache
def static_files() -> dict[str, bytes]:
    """All files by their path below static/; in memory, so that a busy server needs no descriptors for them."""
    found: dict[str, bytes] = {}
    _collect(files("semilocal.page").joinpath("static"), "", found)
    return found


def _collect(folder: Traversable, prefix: str, found: dict[str, bytes]) -> None:
    for entry in sorted(folder.iterdir(), key=lambda path: path.name):
        if entry.is_dir():
            _collect(entry, f"{prefix}{entry.name}/", found)
        else:
            found[prefix + entry.name] = entry.read_bytes()


def media_type(name: str) -> str:
    """The media type of a file by its ending."""
    return next((kind for ending, kind in _TYPES.items() if name.endswith(ending)), "application/octet-stream")


def import_map() -> str:
    """Where a browser finds the modules on a server."""
    return json.dumps({"imports": {f"#{folder}/": f"/static/{folder}/" for folder in FOLDERS}}, separators=(",", ":"))


def modules_of(entry: str) -> list[str]:
    """A module and all that it imports, by their paths below static/."""
    found, waiting = [], [entry]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.append(name)
            waiting += _IMPORT.findall(static_files()[name].decode())
    return sorted(found)


def module_urls(entry: str) -> dict[str, str]:
    """A module and all that it imports as data URLs by their names: what the import map of a single file holds."""
    return {
        f"#{name}": "data:text/javascript;base64," + base64.b64encode(static_files()[name]).decode()
        for name in modules_of(entry)
    }


def index_html(entry: str = "views/main.js") -> bytes:
    """The page's document, which begins with a module."""
    document = static_files()["index.html"].replace(b"IMPORT_MAP", import_map().encode())
    return document.replace(b"views/main.js", entry.encode())


@cache
def packed_file(name: str) -> bytes:
    """A file of the page, compressed."""
    return gzip.compress(static_files()[name], 9, mtime=0)


def content_security_policy(*origins: str) -> str:
    """Nothing but this server's own files; the import map is the only thing in the document that runs.

    Parameters
    ----------
    *origins : str
        Other servers that the page may ask: the second operator, where there are two.
    """
    asked = ("'self'", *origins)
    digest = base64.b64encode(hashlib.sha256(import_map().encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'self' 'sha256-{digest}'; style-src 'self'; img-src 'self' data: blob:; "
        f"connect-src {' '.join(asked)}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
