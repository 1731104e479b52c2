"""A job on a terminal says what it does while it does it: the order of events, whatever the time they take."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import numpy as np

from tests.helpers import HANG

# The command, with a reader that has read the file and may not return before the test lets it.
HELD_READER = """
import os, sys
from semilocal.cli.main import main
from semilocal.engines import files

read, may_return = files._CsvFile.read, int(sys.argv.pop())

def wait_then_read(self, *columns):
    found = read(self, *columns)
    os.read(may_return, 1)
    return found

files._CsvFile.read = wait_then_read
sys.exit(main())
"""


class Job:
    """``semilocal counts`` whose standard error is a terminal."""

    def __init__(self, folder: Path, *options: str) -> None:
        rows = np.random.default_rng(1).uniform(0, 1, (500, 2))
        np.savetxt(folder / "people.csv", rows, delimiter=",", header="x,y", comments="")
        self._terminal, other_end = pty.openpty()
        wait, self._go = os.pipe()
        words = ["counts", "people.csv", "--bounds", "0,0,1,1", "--trust", "curator", "--epsilon", "1", "--grid", "2x2"]
        words += ["--out", "counts.csv", "--rows-are-people", *options]
        self.process = subprocess.Popen(
            [sys.executable, "-c", HELD_READER, *words, str(wait)], cwd=folder, stdout=subprocess.DEVNULL,
            stderr=other_end, pass_fds=[wait], env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
        )  # fmt: skip
        os.close(other_end)
        os.close(wait)

    def more(self) -> bytes:
        """What is written next; nothing at the end, or if nothing comes for long."""
        if not select.select([self._terminal], [], [], HANG)[0]:
            return b""
        try:
            return os.read(self._terminal, 4096)
        except OSError:  # the other end was closed
            return b""

    def go_on(self) -> bytes:
        """Let the reader return; all that is written until the end."""
        os.close(self._go)
        written = b"".join(iter(self.more, b""))
        assert self.process.wait(HANG) == 0, written
        os.close(self._terminal)
        return written


def test_progress_is_on_the_terminal_before_the_reading_has_ended(tmp_path: Path) -> None:
    job, seen = Job(tmp_path), b""
    while b"reading people.csv" not in seen:
        text = job.more()
        assert text, f"the file is being read, and the terminal shows {seen!r}"
        seen += text
    assert job.process.poll() is None  # the reader waits for us
    assert not (tmp_path / "counts.csv").exists()
    job.go_on()
    assert (tmp_path / "counts.csv").exists()


def test_planted_a_quiet_job_shows_nothing(tmp_path: Path) -> None:
    """What the test above looks for comes from progress alone."""
    assert b"reading" not in Job(tmp_path, "--quiet").go_on()
