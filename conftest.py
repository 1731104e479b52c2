"""What makes collecting cheap: each process of tests does it for itself.

Only modules with doctests are searched for them, because a search loads the module. And the garbage collector is off
while modules load, and ignores them later: nothing in them is garbage. It took about a fifth of the processor time.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

gc.disable()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Collect garbage from here on, but not among modules and tests."""
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """When Python ends it frees everything, but after pytest has looked for garbage, which it does five times."""
    config.add_cleanup(gc.unfreeze)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, Any, Any]:
    """Leave out the doctests of a module that has no prompt."""
    found = yield
    if file_path.suffix == ".py" and b">>> " not in file_path.read_bytes():
        return [one for one in found if type(one).__name__ != "DoctestModule"]
    return found
