"""Writes spec/vectors/*.json from the package: ``python spec/make_vectors.py``.

Deterministic: running it again gives the same bytes, and a test checks that the files are what it writes.
"""

from __future__ import annotations

import sys
from pathlib import Path

from vector_common import lay_out
from vector_malformed import make_malformed
from vector_plays import make_plays
from vector_refusals import make_refusals
from vector_sharing import make_sharing
from vector_tables import make_tables
from vector_values import make_values

__all__ = ["FOLDER", "build"]

FOLDER = Path(__file__).parent / "vectors"


def build() -> dict[str, str]:
    """File name -> text of all vector files."""
    files = {
        "tables.json": make_tables(),
        "plays.json": make_plays(),
        "refusals.json": make_refusals(),
        "malformed.json": make_malformed(),
        "values.json": make_values(),
        "sharing.json": make_sharing(),
    }
    return {name: lay_out(content) + "\n" for name, content in files.items()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file, text in build().items():
        (FOLDER / file).write_text(text, encoding="utf-8")
        print(f"{file}: {len(text) / 1000:.0f} kB", file=sys.stderr)
