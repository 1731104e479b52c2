"""Columns that show themselves: on a terminal, in a notebook, and as the tables of other libraries.

Knows columns and how many of their digits are known. Knows no participants.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .outputs import output

MOST_ROWS = 10  # that a table shows of itself
_ESTIMATES = ("crowd", "stderr", "mean", "mean_stderr")  # columns whose digits a standard error limits


def known(values: npt.ArrayLike, errors: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Values rounded to the second digit of their standard errors, and never coarser than to whole numbers.

    Without an error nine digits stay.

    Examples
    --------
    >>> known([799.1234, 0.123456, 7.0000000004], [38.2, 0.0123, 0.0]).tolist()
    [799.0, 0.123, 7.0]
    """
    value, error = np.broadcast_arrays(np.asarray(values, dtype=np.float64), np.asarray(errors, dtype=np.float64))
    digits = np.where(error > 0, 1 - np.floor(np.log10(np.where(error > 0, error, 1.0))), 9.0)
    scale = 10.0 ** np.clip(digits, 0, 12)
    return np.asarray(np.rint(value * scale) / scale)


def rounded(columns: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """Columns as files have them: estimates and errors with the digits that are :func:`known`.

    Examples
    --------
    >>> rounded({"cell": np.array([3]), "crowd": np.array([799.12]), "stderr": np.array([38.2])})["crowd"].tolist()
    [799.0]
    """
    errors = {name: columns.get("mean_stderr" if "mean" in name else "stderr", 0.0) for name in _ESTIMATES}
    return {
        name: known(column, errors.get(name, 0.0)) if column.dtype.kind == "f" else column
        for name, column in columns.items()
    }


class Tabular:
    """What has columns: it shows them as a table, and gives them as those of other libraries.

    A subclass has ``to_table``. It may say what stands below the table, and have the mark of a simulation.
    """

    @property
    def _mark(self) -> Any:
        return None

    def to_table(self) -> dict[str, npt.NDArray[Any]]:
        """Columns of equal length."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, list[Any]]:
        """:meth:`to_table` as lists of Python's own numbers and texts."""
        return {name: column.tolist() for name, column in self.to_table().items()}

    def to_pandas(self) -> Any:
        """:meth:`to_table` as a pandas.DataFrame. If it is simulated, ``attrs["simulation"]`` says so."""
        return output("regions").to_pandas(self.to_table(), self._mark)

    def to_polars(self) -> Any:
        """:meth:`to_table` as a polars.DataFrame, which has no place for the mark of a simulation."""
        return output("regions").to_polars(self.to_table())

    def to_arrow(self) -> Any:
        """:meth:`to_table` as a pyarrow.Table. If it is simulated, ``simulation`` in the schema's metadata says so."""
        return output("regions").to_arrow(self.to_table(), self._mark)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """For everything that reads Arrow: ``polars.DataFrame(result)``, DuckDB, ``pyarrow.table(result)``."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def _below(self) -> str:
        """What stands below the table."""
        return ""

    def _shown(self) -> tuple[list[list[str]], str]:
        """The names and first rows as text, and what stands below them."""
        table = self.to_table()
        rows = len(next(iter(table.values()), ()))
        columns = [[name, *map(_cell, column[:MOST_ROWS].tolist())] for name, column in table.items()]
        more = f"and {rows - MOST_ROWS:,} more rows; to_pandas() has them all" if rows > MOST_ROWS else ""
        return [list(row) for row in zip(*columns, strict=True)], "\n".join(filter(None, [more, self._below()]))

    def __repr__(self) -> str:
        rows, below = self._shown()
        return "\n".join([*aligned(rows), below]).rstrip("\n")

    def _repr_html_(self) -> str:
        (names, *rows), below = self._shown()
        cells = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        return f"<table><tr>{head}</tr>{cells}</table><p>{html.escape(below)}</p>"


def markdown(rows: Iterable[Iterable[object]]) -> str:
    """A Markdown table; the first row is its head.

    Examples
    --------
    >>> print(markdown([("what", "how many"), ("people", 3)]))
    | what | how many |
    | --- | --- |
    | people | 3 |
    """
    head, *body = ([str(cell).replace("|", "\\|") for cell in row] for row in rows)
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *body))


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]


def _cell(value: Any) -> str:
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    return f"{value:,.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:,.10g}"
