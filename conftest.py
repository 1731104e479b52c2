"""What makes collecting cheap: each process of tests does it for itself.

Only modules with doctests are searched for them, because a search loads the module. And the garbage collector is off
while modules load, and ignores them later: nothing in them is garbage. It took about a fifth of the processor time.
"""

from __future__ import annotations

import atexit
import gc
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # tests fill all cores: further threads would only wait for one
gc.disable()
gc.set_threshold(20_000)  # new objects until somebody looks; 700 is for programs that make fewer


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Collect garbage from here on, but not among modules and tests."""
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Collect garbage once: pytest does so five times when it ends, and then has less to look at."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Python frees everything when it ends, but pytest collects garbage before that."""
    config.add_cleanup(gc.unfreeze)
    if hasattr(config, "workerinput"):
        # A worker has sent its results by then; to free one object after another takes it two seconds.
        atexit.register(os._exit, 0)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, Any, Any]:
    """Leave out the doctests of a module that has no prompt."""
    found = yield
    if file_path.suffix == ".py" and b">>> " not in file_path.read_bytes():
        return [one for one in found if type(one).__name__ != "DoctestModule"]
    return found
