"""Two fresh databases for the two servers of a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from semilocal.service.stores.base import Store, open_store


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    """Of the leader and of the helper."""
    opened = [open_store(f"sqlite:///{tmp_path / name}.db") for name in ("leader", "helper")]
    yield opened[0], opened[1]
    for store in opened:
        store.close()
