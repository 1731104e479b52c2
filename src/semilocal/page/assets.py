"""The files of the page: read once, with their types, and how modules find each other.

Modules import each other by names that begin with "#", such as "#map/scale.js". An import map says where they are: on a
server below /static/, in a single file inside the file itself. Knows files. Knows no routes and no campaigns.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

__all__ = [
    "FOLDERS",
    "content_security_policy",
    "import_map",
    "index_html",
    "media_type",
    "module_urls",
    "modules_of",
    "packed_file",
    "static_files",
]

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
