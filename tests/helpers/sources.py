"""The package's sources, each read and parsed once."""

from __future__ import annotations

import ast
import pathlib
import re
from functools import cache

import semilocal

ROOT = pathlib.Path(semilocal.__file__).parent


def _modules() -> dict[str, pathlib.Path]:
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = _modules()  # dotted names inside the package and their files


@cache
def tree(name: str) -> ast.Module:
    """The syntax tree of a module."""
    return ast.parse(MODULES[name].read_text(encoding="utf-8"))


def with_text(pattern: re.Pattern[str]) -> dict[str, ast.Module]:
    """The syntax trees of the modules whose text has a match: the others need not be parsed."""
    return {name: tree(name) for name, path in MODULES.items() if pattern.search(path.read_text(encoding="utf-8"))}
