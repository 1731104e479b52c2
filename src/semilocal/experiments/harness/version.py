"""Which source a result depends on: the modules that its work imports, directly or through others.

Knows the syntax of imports and the files of this package. Knows no method. A module that moves needs no change here.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

__all__ = ["source_version", "sources_of"]

PACKAGE = "semilocal"
ROOT = Path(__file__).resolve().parents[2]


def source_version(work: Callable[..., Any] | None = None) -> str:
    """Return the version of the package, with a digest of all source that can change what `work` gives.

    Parameters
    ----------
    work : callable, optional
        A function of a module, perhaps with some arguments given by ``functools.partial``. The trials of the
        experiments if left out.

    Notes
    -----
    A result in the cache is used again only if nothing changed that it could depend on. The digest is in every CSV row,
    after the ``+``.
    """
    if work is None:
        from .. import trials

        return _version(trials.__name__, None)
    function = inspect.unwrap(work.func if isinstance(work, functools.partial) else work)
    return _version(function.__module__, inspect.getsourcefile(function))


@functools.cache
def _version(module: str, file: str | None) -> str:
    paths = sources_of(module) if module.split(".")[0] == PACKAGE else [*sources_of(f"{PACKAGE}.experiments.trials")]
    if file is not None and Path(file).resolve() not in paths:
        paths = [*paths, Path(file).resolve()]
    hashed = hashlib.sha256()
    for path in paths:
        hashed.update(hashlib.sha256(path.read_bytes()).digest())
    return f"{metadata.version(PACKAGE)}+{hashed.hexdigest()[:12]}"


def sources_of(module: str, root: Path = ROOT) -> list[Path]:
    """Return the files of this package that a module imports, directly or through others, itself included; sorted."""
    found: dict[str, Path] = {}
    pending = [module]
    while pending:
        name = pending.pop()
        path = _file_of(name, root)
        if path is None or name in found:
            continue
        found[name] = path
        pending += _imports(name, path)
        pending += [name.rpartition(".")[0]]  # importing a module runs its packages
    return sorted(found.values())


def _file_of(name: str, root: Path) -> Path | None:
    parts = name.split(".")
    if parts[0] != PACKAGE:
        return None
    inside = root.joinpath(*parts[1:])
    return next((path for path in (inside / "__init__.py", inside.with_suffix(".py")) if path.is_file()), None)


def _imports(name: str, path: Path) -> Iterator[str]:
    """Dotted names that may be modules, from all import statements of a file but those for type checkers."""
    pending: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            pending.extend(node.orelse)
            continue
        pending.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
                base = ".".join([*package[: len(package) - node.level + 1], *filter(None, [base])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
