"""Two fresh databases for the two servers of a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from semilocal.service.stores.base import Store
from tests.helpers.running_pair import opened


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    """Of the leader and of the helper."""
    with opened(tmp_path) as both:
        yield both
