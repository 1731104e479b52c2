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
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ..arrays import Floats
from ..errors import InvalidInput
from ..hierarchy.base import Hierarchy
from ..io.basemap import basemap_json
from ..io.files import write_text
from ..io.map_rows import Rows, domain_json, on_a_strip, partition_rows, split_rows
from ..io.queries import Asked
from ..pooled.estimate import PooledPartition
from ..protocol.partition import UNPROTECTED, Partition
from ..protocol.promise import Guarantee, Mark
from ..release.counts import Mapped, counts, tree_from
from ..release.tree import CountTree
from ..simulation.simulate import Run
from ..words import number_of

HEIGHT = 680  # of the frame in a notebook
MOST_CELLS = 30_000  # more would make a notebook of many megabytes
_MOST_ASKED = 30  # questions that a file begins with
_MOST_PARTS = 1 << 14  # of leaves, in a file; else people lie evenly in each
_POLICY = "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data: blob:"


Mappable = Run | Partition | PooledPartition | Mapped


def rounds_of(result: Mappable) -> list[Rows]:
    """Rows by round: every round of a run in which a region was cut, or one for a finished partition."""
    if isinstance(result, Run):
        return split_rows(result.partition, result.splits)
    return [partition_rows(result.partition if isinstance(result, Mapped) else result)]


def map_html(
    rounds: Sequence[Rows], tree: Hierarchy, promise: Guarantee, *, title: str, numbers: Mapping[str, str],
    mark: Mark | None = None, counted: CountTree | None = None,
    asked: Sequence[Asked] = (),
) -> str:  # fmt: skip
    """The whole document: ``rounds`` of :func:`rounds_of`, ``numbers`` beside the map, questions ``asked`` before.

    Several rounds get a slider. With a tree of counts the file answers questions about rectangles
    if cells are boxes. A ``mark``, of a simulation, is said in the title.
    """
    title = title if mark is None else f"{title}. {mark.words}"
    box = tree.box
    if box.dimensions > 2:
        raise InvalidInput(f"a map needs one or two dimensions; this domain has {box.dimensions}")
    walked = tree_json(counted) if counted is not None and tree.cells_are_boxes else None
    data = {
        "title": title, "domain": domain_json(box, tree), "numbers": dict(numbers), "promise": promise.to_json(),
        "public": UNPROTECTED if promise.adjacency == "inside" else "",
        "ground": basemap_json(box),
        "note": "Counted in this file, from what was published: a question costs nothing more.",
        "people": 0 if counted is None else round(counted.total),
        "tree": walked,
        "asked": [
            {**one._asdict(), "rings": None, "ring": one.rings[0].ravel().tolist()} for one in asked[:_MOST_ASKED]
        ],
        "rounds": [
            {"round": number, "kind": "cells", "rows": None if "halves" in (walked or {}) else rows.to_json(tree)}
            for number, rows in enumerate(rounds, start=1)
        ],
    }  # fmt: skip
    modules = {f"#{name}": static_files()[name].decode() for name in modules_of("views/file.js")}
    packed = base64.b64encode(
        gzip.compress(msgspec.json.encode({"data": data, "modules": modules}), 9, mtime=0)
    ).decode()
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
<script type="application/octet-stream" id="data">{packed}</script>
</head>
<body><div id="page"><p class="quiet">Loading…</p></div><script>{_UNPACK}</script></body>
</html>
"""


# Modules and data are packed together; an import map that is made when the file is opened lets modules find each other.
_UNPACK = """(async () => {
  const packed = Uint8Array.from(atob(document.getElementById("data").textContent), (letter) => letter.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const { data, modules } = JSON.parse(await new Response(unpacked).text());
  const imports = {};
  for (const name in modules) imports[name] = "data:text/javascript;charset=utf-8," + encodeURIComponent(modules[name]);
  const map = document.createElement("script");
  map.type = "importmap";
  map.textContent = JSON.stringify({ imports });
  document.head.append(map);
  (await import("#views/file.js")).open(data);
})();"""


def tree_json(tree: CountTree) -> dict[str, Any]:
    """A tree of counts as ``map/answer.js`` walks it, in few digits.

    People are tenths, rounded so that sums along the order are right. In a large tree whose rows are halves of the row
    above, a digit says which half comes first, and boxes follow; else parts of leaves have theirs, as places in lists.
    """
    children, leaves = np.diff(tree.first), tree.leaves
    inner = 1 + np.flatnonzero(children[1:])
    top, one = slice(int(tree.first[0]), int(tree.first[1])), tree.first[inner]
    error = tree.rest[one + 1] ** 2 * tree.error[one] + tree.rest[one] ** 2 * tree.error[one + 1]
    return {
        "children": children.tolist(), "people": _tenths(tree.people[leaves]),
        "plain": None if tree.plain is tree.people else _tenths(tree.plain[leaves]),
        "regions": tree.unbiased is None,
        "clumped": _by_level(tree), "lean": tree.lean, "total": round(tree.total),
        "top": {"rest": _short(tree.rest[top], 5), "error": _short(tree.error[top], 4)},
        "weight": _short(tree.weight[one], 3), "error": _short(error, 3),
        **((_halves(tree) if len(tree.parts.cells) > _MOST_PARTS else {}) or _parts(tree)),
    }  # fmt: skip


def _by_level(tree: CountTree) -> list[float]:
    """The overdispersion of leaves by how many rows are above them: it depends on nothing else."""
    level = tree.level[tree.leaves]
    return _short(np.bincount(level, tree.clumped[tree.leaves]) / np.maximum(np.bincount(level), 1), 4)


def _tenths(people: Floats) -> list[int]:
    tenths: list[int] = np.diff(np.rint(10 * np.cumsum(people)), prepend=0.0).astype(np.int64).tolist()
    return tenths


def _short(numbers: Floats, digits: int) -> list[float]:
    """Numbers with so many digits that count."""
    return [float(f"{number:.{digits}g}") for number in numbers.tolist()]


def _halves(tree: CountTree) -> dict[str, Any]:
    """Which half of a row its first child is: 0 and 1 the lower and upper one on the first axis, 2 and 3 on the second.

    Empty unless all children are halves.
    """
    inner = np.flatnonzero(np.diff(tree.first))
    boxes = on_a_strip(tree.hierarchy.interval_boxes(tree.lower, tree.upper))
    whole, one, two = boxes[inner], boxes[tree.first[inner]], boxes[tree.first[inner] + 1]
    axis = (one != whole).any(axis=1).argmax(axis=1)
    upper = one[np.arange(len(inner)), 0, axis] != whole[np.arange(len(inner)), 0, axis]
    low = np.where(upper[:, None, None], two, one)[:, 0]
    if np.any(np.diff(tree.first)[inner] != 2) or not np.array_equal(low, whole[:, 0]):
        return {}
    return {"halves": "".join(map(str, (2 * axis + upper).tolist()))}


def _parts(tree: CountTree) -> dict[str, Any]:
    """Boxes of the parts of leaves, the leaf that each is in, and its share of that leaf's people."""
    leaves, cells, owner, share = tree.leaves, tree.parts.cells, tree.parts.piece, tree.parts.share
    if len(cells) > _MOST_PARTS:
        first, cells = tree.hierarchy.interval_cells(tree.lower[leaves], tree.upper[leaves])
        begin, end = tree.hierarchy.span(cells)
        owner, share = np.repeat(np.arange(len(leaves)), np.diff(first)), (end - begin).astype(np.float64) + 1.0
        share = share / np.add.reduceat(share, first[:-1])[owner]
    boxes = on_a_strip(tree.hierarchy.boxes(cells))
    edges = [np.unique(boxes[:, :, axis]) for axis in (0, 1)]
    places = [np.searchsorted(edges[axis], boxes[:, end, axis]).tolist() for end in (0, 1) for axis in (0, 1)]
    return {
        "xs": edges[0].tolist(), "ys": edges[1].tolist(), "parts": places, "owner": owner.tolist(),
        "share": _short(share, 3),
    }  # fmt: skip


def write_html(
    path: Path, result: Mappable, promise: Guarantee, *, title: str, numbers: Mapping[str, str],
    asked: Sequence[Asked] = (),
) -> None:  # fmt: skip
    """Write the map of a result into one file, which answers questions about it."""
    partition = result.partition if isinstance(result, Run | Mapped) else result
    document = map_html(
        rounds_of(result), partition.task.hierarchy, promise, title=title, numbers=numbers,
        mark=partition.mark, counted=result.tree if isinstance(result, Mapped) else tree_from(partition), asked=asked,
    )  # fmt: skip
    write_text(path, document)


def result_html(result: Mapped | Run) -> str:
    """The result as HTML: a line of numbers, the promise in a sentence, and the map (one or two dimensions)."""
    mapped: Any = result
    if isinstance(result, Run):  # its map is drawn from the rounds, and the sum of all crowds is public
        mapped = counts(result)
    partition = mapped.partition
    numbers = {"regions": f"{len(partition):,}", **_value(mapped)}
    told = [f"{name}: <b>{html.escape(text)}</b>" for name, text in numbers.items()]
    line = " · ".join([f"<b>{html.escape(mapped.counted)}</b>", *told])
    people = {"participants" if mapped.guarantee.rows == 1 else "rows": f"{mapped.total:,}"}
    words = f"<p>{line}</p><p>{html.escape(mapped.guarantee.sentence())}</p>"
    box = partition.task.box
    if box.dimensions > 2:
        return f"<div>{words}<p>{box.dimensions} dimensions have no map.</p></div>"
    if len(partition) > MOST_CELLS:
        return f"<div>{words}<p>The map has {number_of(len(partition), 'cell')}; draw it with plot().</p></div>"
    rounds = rounds_of(result if isinstance(result, Run) else partition)
    document = map_html(
        rounds, partition.task.hierarchy, mapped.guarantee, title=type(result).__name__, numbers=people | numbers,
        mark=partition.mark, counted=mapped.tree,
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
    static = files("semilocal.page").joinpath("static")
    folders = {"": static, **{f"{name}/": static.joinpath(name) for name in FOLDERS}}
    there = {prefix + entry.name: entry for prefix, folder in folders.items() for entry in folder.iterdir()}
    return {name: entry.read_bytes() for name, entry in sorted(there.items()) if entry.is_file()}


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


def index_html(entry: str = "views/main.js") -> bytes:
    """The page's document, which begins with a module."""
    document = static_files()["index.html"].replace(b"IMPORT_MAP", import_map().encode())
    return document.replace(b"views/main.js", entry.encode())


@cache
def packed_file(name: str) -> bytes:
    """A file of the page, compressed."""
    return gzip.compress(static_files()[name], 9, mtime=0)


def content_security_policy(*origins: str) -> str:
    """Nothing but this server's own files; only the import map runs. ``origins`` are servers that the page may ask."""
    asked = ("'self'", *origins)
    digest = base64.b64encode(hashlib.sha256(import_map().encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'self' 'sha256-{digest}'; style-src 'self'; img-src 'self' data: blob:; "
        f"connect-src {' '.join(asked)}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
