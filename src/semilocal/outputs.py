"""How to load the modules that turn results into tables, files, pictures and pages.

They lie above the results, so results do not import them: the package's front door registers them here. Knows names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_LOADERS: dict[str, Callable[[], Any]] = {}


def register(**loaders: Callable[[], Any]) -> None:
    """Say how to load modules of outputs."""
    _LOADERS.update(loaders)


def output(name: str) -> Any:
    """A module of outputs that was registered."""
    return _LOADERS[name]()
