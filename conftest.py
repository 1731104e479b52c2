"""Doctests are looked for only where there are some: to look into a module is to load it."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, Any, Any]:
    """Leave out the doctests of a module that has no prompt."""
    found = yield
    if file_path.suffix == ".py" and b">>> " not in file_path.read_bytes():
        return [one for one in found if type(one).__name__ != "DoctestModule"]
    return found
