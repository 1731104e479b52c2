"""Progress: right numbers, quiet logs, one line on a terminal."""

from __future__ import annotations

import io
import threading

import pytest

from semilocal.io.progress import Progress, duration
from tests.helpers import HANG


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_rate_and_remaining_time_count_only_what_was_done_now() -> None:
    clock = Clock()
    progress = Progress(100, "cells", done=40, clock=clock, stream=io.StringIO())
    clock.now += 10
    progress.advance(20)
    assert progress.text() == "cells: 60 of 100, 60 %, 2.0/s, 20 s left"


def test_a_log_gets_few_lines_and_the_last_one() -> None:
    clock, log = Clock(), io.StringIO()
    with Progress(1000, "cells", clock=clock, stream=log) as progress:
        for _ in range(1000):
            clock.now += 0.1
            progress.advance()
    lines = log.getvalue().splitlines()
    assert len(lines) == 4  # after 30, 60 and 90 s, and at the end
    assert lines[-1] == "cells: 1,000 of 1,000 done in 1 min 40 s"
    assert "\r" not in log.getvalue()


def test_a_terminal_gets_one_line_from_the_first_moment_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    clock, screen = Clock(), Terminal()
    with Progress(4, "cells", clock=clock, stream=screen) as progress:
        assert "cells: 0 of 4" in screen.getvalue()  # before anything was counted
        clock.now += 2
        progress.advance(2)
        assert progress.text() == "cells: 2 of 4, 50 %, 1.0/s, 2.0 s left"
    assert screen.getvalue().endswith("cells: 2 of 4 done in 2.0 s\n")
    assert "\x1b[" in screen.getvalue()  # the line is wiped


def test_a_step_without_a_count_shows_its_time_and_leaves_a_line_if_it_was_long() -> None:
    clock, log = Clock(), io.StringIO()
    with Progress(None, "reading people.csv", clock=clock, stream=log) as progress:
        assert progress.text() == "reading people.csv: 0.0 s"
        clock.now += 0.5
    assert log.getvalue() == ""
    with Progress(None, "reading people.csv", clock=clock, stream=log):
        clock.now += 5
    assert log.getvalue() == "reading people.csv: done in 5.0 s\n"


def test_a_log_gets_a_line_while_one_call_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    written = threading.Event()

    class Log(io.StringIO):
        def write(self, text: str) -> int:
            written.set()
            return super().write(text)

    monkeypatch.setattr("semilocal.io.progress.LOG_EVERY", 0.01)
    log = Log()
    with Progress(None, "reading people.csv", stream=log):
        assert written.wait(HANG)  # nothing was counted
    assert log.getvalue().startswith("reading people.csv: 0.")


@pytest.mark.parametrize(("total", "line"), [(3, "cells: stopped at 1 of 3 in 0.0 s\n"), (None, "")])
def test_a_failure_says_where_it_stopped_if_anything_was_counted(total: int | None, line: str) -> None:
    log = io.StringIO()

    def fail() -> None:
        with Progress(total, "cells", clock=Clock(), stream=log) as progress:
            progress.advance(int(total is not None))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert log.getvalue() == line


def test_silence_writes_nothing_and_an_unknown_total_has_no_share() -> None:
    screen, log = Terminal(), io.StringIO()
    for total, label, stream in ((3, "", screen), (None, "letters", log)):
        with Progress(total, label, stream=stream, show=stream is log) as progress:
            progress.advance(2)
    assert screen.getvalue() == ""
    assert log.getvalue().startswith("letters: 2 done in ")


@pytest.mark.parametrize(("seconds", "text"), [(59.6, "1 min 00 s"), (3599.7, "1 h 00 min"), (-1, "0.0 s")])
def test_durations_carry_over(seconds: float, text: str) -> None:
    assert duration(seconds) == text
