"""How several workers are looked after."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest
import uvicorn
import uvicorn.supervisors

from semilocal.errors import InvalidInput
from semilocal.service.server import WORKER_SECONDS, _run_workers
from semilocal.service.stores.sqlite import lock_for_serving


def test_a_worker_that_starts_slowly_is_not_replaced_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """uvicorn gives it 5 s, which the imports alone can take on a busy machine: no worker would ever be ready."""
    seen: list[Any] = []

    class Supervisor:
        def __init__(self, config: uvicorn.Config, sockets: list[socket.socket]) -> None:
            seen.append(config)

        def run(self) -> None: ...

    config = uvicorn.Config("semilocal.service.server:app_from_environment", factory=True, workers=2)
    if not hasattr(config, "timeout_worker_healthcheck"):
        pytest.skip("this version of uvicorn cannot be told")
    monkeypatch.setattr(uvicorn.supervisors, "Multiprocess", Supervisor)
    with socket.socket() as listener:
        _run_workers(config, listener)
    assert seen[0].timeout_worker_healthcheck == WORKER_SECONDS >= 30


def test_a_database_is_served_once_also_under_the_name_of_a_link(tmp_path: Path) -> None:
    handle = lock_for_serving(str(tmp_path / "a.db"))
    (tmp_path / "link.db").symlink_to(tmp_path / "a.db")
    with pytest.raises(InvalidInput, match=rf"link.db is served by another process \({os.getpid()}\)"):
        lock_for_serving(str(tmp_path / "link.db"))
    os.close(handle)
