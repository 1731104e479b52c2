"""A progress bar on stderr.

Knows numbers, time and terminals. On a terminal it redraws one line;
elsewhere it writes a line now and then, so that a log stays short; `show=False` writes nothing at all.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from types import TracebackType
from typing import TextIO, TypeVar

__all__ = ["Progress", "duration", "track"]

T = TypeVar("T")

REDRAW = 0.1  # seconds between two pictures on a terminal
LOG_EVERY = 30.0  # seconds between two lines in a log
BAR = 24  # characters


class Progress:
    """Count towards a total, and show count, rate and remaining time.

    Parameters
    ----------
    total : int or None
        How many steps there will be; None if that is not known.
    label : str
        What is being done, in a few words.
    done : int
        Steps that were done before (results found in a cache): they count, but not in the rate.
    stream : text stream, optional
        stderr if left out.
    show : bool
        False to write nothing.
    clock : callable
        Seconds that only grow.

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
        self,
        total: int | None,
        label: str = "",
        *,
        done: int = 0,
        unit: str = "",
        stream: TextIO | None = None,
        show: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._total = total
        self._label = label
        self._count = done
        self._before = done
        self._unit = f" {unit}" if unit else ""
        self._stream = sys.stderr if stream is None else stream
        self._show = show
        self._clock = clock
        self._terminal = show and self._stream.isatty()
        self._start = clock()
        self._shown = self._start if not self._terminal else float("-inf")
        self._width = 0

    def __enter__(self) -> Progress:
        self._draw()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(failed=kind is not None)

    def advance(self, steps: int = 1) -> None:
        """Count `steps` more, and redraw if it is time to."""
        self._count += steps
        self._draw()

    def close(self, *, failed: bool = False) -> None:
        """Write the last line: how much was done, and how long it took."""
        if not self._show:
            return
        word = "stopped at" if failed else "done"
        counted = self._counted()
        line = f"{word} {counted}" if failed else f"{counted} {word}"
        self._write(f"{self._prefix()}{line} in {duration(self._clock() - self._start)}", last=True)
        self._show = False

    def text(self) -> str:
        """Return the line as it stands: count, share, rate, remaining time."""
        elapsed = self._clock() - self._start
        fresh = self._count - self._before
        rate = fresh / elapsed if elapsed > 0 else 0.0
        parts = [f"{self._prefix()}{self._counted()}"]
        if self._total:
            parts.insert(1, f"{100 * self._count / self._total:.0f} %")
        if rate:
            parts.append(_rate(rate, self._unit.strip()))
        if rate and self._total and self._count < self._total:
            parts.append(f"{duration((self._total - self._count) / rate)} left")
        return ", ".join(parts)

    def _prefix(self) -> str:
        return f"{self._label}: " if self._label else ""

    def _counted(self) -> str:
        of = f" of {self._total:,}" if self._total is not None else ""
        return f"{self._count:,}{of}{self._unit}"

    def _draw(self) -> None:
        if not self._show:
            return
        now = self._clock()
        if now - self._shown < (REDRAW if self._terminal else LOG_EVERY):
            return
        self._shown = now
        line = self.text()
        if self._terminal and self._total:
            filled = min(BAR, BAR * self._count // self._total)
            line = f"[{'#' * filled}{'.' * (BAR - filled)}] {line}"
        self._write(line)

    def _write(self, line: str, *, last: bool = False) -> None:
        if self._terminal:
            line = line[: shutil.get_terminal_size().columns - 1]
            # padding wipes what a longer line left behind
            self._stream.write(f"\r{line.ljust(self._width)}" + ("\n" if last else ""))
            self._width = len(line)
        else:
            self._stream.write(f"{line}\n")
        self._stream.flush()


def track(
    items: Iterable[T],
    label: str = "",
    *,
    total: int | None = None,
    stream: TextIO | None = None,
    show: bool = True,
) -> Iterator[T]:
    """Yield the items and show how far it is.

    Examples
    --------
    >>> sum(track([1, 2, 3], show=False))
    6
    """
    if total is None and isinstance(items, Sized):
        total = len(items)
    with Progress(total, label, stream=stream, show=show) as progress:
        for item in items:
            yield item
            progress.advance()


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


def _rate(rate: float, unit: str) -> str:
    unit = f" {unit}" if unit else ""
    if rate >= 10:
        return f"{rate:,.0f}{unit}/s"
    return f"{rate:.1f}{unit}/s" if rate >= 0.1 else f"{60 * rate:.1f}{unit}/min"
