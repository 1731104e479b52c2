"""How far a long piece of work is, on stderr.

Knows numbers, time and terminals. On a terminal one line moves, from the first moment on (drawn by rich; without it the
terminal is written to like a log). In a log a plain line is written every 30 seconds, also while one call takes that
long. `show=False` writes nothing at all.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, TextIO

LOG_EVERY = 30.0  # seconds between two lines in a log
SHORT = 1.0  # seconds; a step without a count that took less leaves no line


class Progress:
    """Count towards a total, None if it is not known, and show count, rate and remaining time on stderr or a stream.

    Steps that were ``done`` before (found in a cache) count, but not in the rate. ``show=False`` writes nothing.

    Examples
    --------
    >>> import io
    >>> log = io.StringIO()
    >>> with Progress(2, label="cells", stream=log) as progress:
    ...     progress.advance()
    ...     progress.advance()
    >>> log.getvalue().split(" in ")[0]
    'cells: 2 of 2 done'
    """

    def __init__(
        self, total: int | None, label: str = "", *, done: int = 0, stream: TextIO | None = None, show: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._total, self._count, self._before = total, done, done
        self._prefix = f"{label}: " if label else ""
        self._stream = sys.stderr if stream is None else stream
        self._show, self._clock = show, clock
        self._start = self._shown = clock()
        self._bar = _terminal_bar(self.text, self._stream) if show and self._stream.isatty() else None
        self._lock, self._over = threading.Lock(), threading.Event()

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        elif self._show and self._clock is time.monotonic:
            threading.Thread(target=self._write_now_and_then, name="progress", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write the last line: how much was done, and how long it took."""
        self._over.set()
        if self._bar is not None:
            self._bar.stop()
        elapsed = self._clock() - self._start
        counted = self._counted()
        if not self._show or (not counted and (kind or elapsed < SHORT)):  # a failure is told by its own message
            return
        line = f"stopped at {counted}" if kind else f"{counted} done"
        self._write(f"{self._prefix}{line.strip()} in {duration(elapsed)}")

    def advance(self, steps: int = 1) -> None:
        """Count `steps` more, and write a line in a log if it is time to."""
        self._count += steps
        self._write_if_due()

    def text(self) -> str:
        """Return the line as it stands: count, share, rate, remaining time."""
        elapsed = self._clock() - self._start
        rate = (self._count - self._before) / elapsed if elapsed > 0 else 0.0
        parts = [f"{self._prefix}{self._counted() or duration(elapsed)}"]
        if self._total:
            parts.append(f"{100 * self._count / self._total:.0f} %")
        if rate:
            parts.append(f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s" if rate >= 0.1 else f"{60 * rate:.1f}/min")
        if rate and self._total and self._count < self._total:
            parts.append(f"{duration((self._total - self._count) / rate)} left")
        return ", ".join(parts)

    def _counted(self) -> str:
        if self._total is None:
            return f"{self._count:,}" if self._count else ""
        return f"{self._count:,} of {self._total:,}"

    def _write_now_and_then(self) -> None:
        while not self._over.wait(LOG_EVERY):
            self._write_if_due()

    def _write_if_due(self) -> None:
        with self._lock:
            now = self._clock()
            if self._show and self._bar is None and now - self._shown >= LOG_EVERY:
                self._shown = now
                self._write(self.text())

    def _write(self, line: str) -> None:
        self._stream.write(f"{line}\n")
        self._stream.flush()


def _terminal_bar(text: Callable[[], str], stream: TextIO) -> Any:
    """What draws the line on a terminal; None without rich."""
    try:
        from rich.console import Console
        from rich.progress import Progress as Bar
        from rich.progress import ProgressColumn, SpinnerColumn, Task
        from rich.text import Text
    except ImportError:
        return None

    class Line(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(text(), no_wrap=True, overflow="ellipsis")

    bar = Bar(SpinnerColumn(), Line(), console=Console(file=stream), transient=True)
    bar.add_task("", total=None)
    return bar


def duration(seconds: float) -> str:
    """Return a time span for people.

    Examples
    --------
    >>> [duration(s) for s in (0.04, 12.34, 125, 7300)]
    ['0.0 s', '12 s', '2 min 05 s', '2 h 01 min']
    """
    if seconds < 10:
        return f"{max(seconds, 0):.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
