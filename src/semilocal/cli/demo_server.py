"""A server of a demonstration: a process of its own with a database in a temporary folder.

Knows how to start and stop one.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..errors import InvalidInput
from ..testing import Server

__all__ = ["demo_server"]


@contextmanager
def demo_server(folder: Path, name: str, options: Sequence[str] = ()) -> Iterator[str]:
    """A server process with a key of its own on a free port, stopped at the end: its URL.

    Parameters
    ----------
    folder : Path
        Where its database and its log lie.
    name : str
        Of these files.
    options : sequence of str
        Further options of ``semilocal serve``.
    """
    server = Server(
        f"sqlite:///{folder / name}.db", log=folder / f"{name}.log", options=options,
        signing_key=secrets.token_bytes(32),
    )  # fmt: skip
    try:
        server.start()
        yield server.url
    except RuntimeError as error:
        raise InvalidInput(f"the demo's server did not start: {error}") from None
    finally:
        server.stop()
