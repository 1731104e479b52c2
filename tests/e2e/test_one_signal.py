"""One signal stops a server, whenever it comes: before it serves, and while it does.

No test waits for a moment: signals are raised where they should come, and inside a callback, where Python can only
print an exception.
"""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from semilocal.cli.catalogue import DONE, STOPPED
from semilocal.service.stores.base import open_store
from tests.helpers import HANG
from tests.helpers.forked import _context

SERVER = "semilocal.service.server"
# Where the signal comes: module, and the name of what is about to be called.
MOMENTS = [
    (SERVER, "check_url"), (SERVER, "bind"), (SERVER, "open_store"), (SERVER, "open_keys"),
    (SERVER, "first_admin_token"), (SERVER, "_warn_about_pairs"), (SERVER, "build_app"),
    ("uvicorn", "Config.__init__"), ("uvicorn", "Server.run"), ("uvicorn", "Config.load"),
    ("uvicorn", "Server.startup"), ("uvicorn", "Server.main_loop"),
]  # fmt: skip


def ctrl_c_works() -> None:
    """A shell without job control, and nohup, start programs that ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def run_with_a_signal(
    module: str, name: str, number: int, log: Path, arguments: list[str]
) -> None:  # pragma: no cover - in a process of its own
    """The command, with one signal before something is called for the first time."""
    sink = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(sink, stream)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    holder: Any = importlib.import_module(module)
    *path, last = name.split(".")
    for part in path:
        holder = getattr(holder, part)
    setattr(holder, last, after_a_signal(getattr(holder, last), number))
    from semilocal.cli.main import main

    sys.exit(main(["serve", *arguments]))


def after_a_signal(call: Callable[..., Any], number: int) -> Callable[..., Any]:
    sent: list[int] = []

    def called(*arguments: Any, **named: Any) -> Any:
        if not sent:
            sent.append(number)
            raise_in_a_callback(number)
        return call(*arguments, **named)

    return called


def raise_in_a_callback(number: int) -> None:
    class Thing:
        pass

    thing = Thing()
    ending = weakref.ref(thing, lambda _: signal.raise_signal(number))
    del thing
    assert ending() is None


def stopped_at(module: str, name: str, number: int, log: Path, arguments: list[str]) -> int:
    process = _context.Process(target=run_with_a_signal, args=(module, name, number, log, arguments))
    process.start()
    process.join(HANG)
    assert process.exitcode is not None, "one signal was not enough"
    return process.exitcode


@pytest.mark.parametrize(("module", "name"), MOMENTS)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, STOPPED), (signal.SIGTERM, DONE)])
def test_one_signal_is_enough_before_and_while_it_serves(
    tmp_path: Path, module: str, name: str, number: int, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SEMILOCAL_ADMIN_TOKEN", raising=False)
    database = f"sqlite:///{tmp_path / 'a.db'}"
    log = tmp_path / "log.txt"
    assert stopped_at(module, name, number, log, ["--port", "0", "--db", database]) == code, log.read_text()
    printed = log.read_text()
    assert "Traceback" not in printed
    store = open_store(database, worker="test")
    made = store.first_setting("admin", b"not made before") != b"not made before"
    store.close()
    assert ("admin token" in printed) is made, "a token is shown if it was made, and only then"
    assert ("serves at" in printed) is made


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_real_process_stops_with_one_signal_as_soon_as_it_speaks(tmp_path: Path, number: int) -> None:
    words = [sys.executable, "-m", "semilocal", "serve", "--port", "0", "--db", f"sqlite:///{tmp_path / 'a.db'}"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, preexec_fn=ctrl_c_works) as process:
        assert process.stdout is not None
        assert "serves at" in process.stdout.readline()
        process.send_signal(number)
        assert process.wait(HANG) == (STOPPED if number == signal.SIGINT else DONE)
