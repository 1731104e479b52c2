"""Run the examples of a page: its Python, and those commands that are followed by what they print.

    python tools/examples.py README.md docs/notebooks/*.md

runs them and writes their real output into the pages. A block of ``text`` after a block of ``python`` or ``sh`` is an
output; an ellipsis in it (…) stands for what is left out. On a page with the comment ``VARIES`` numbers may differ.
Pictures that a page shows from docs/figures, and that its Python saves under the same name, are kept there. The tests
run the same examples and compare.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = re.compile(r"^```(python|sh)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", flags=re.DOTALL | re.MULTILINE)
VARIES = "<!-- numbers differ from run to run -->"
SLOW = re.compile(r"[\w ]+: done in .+")  # what only a slow machine says of a step
NUMBER = re.compile(r"\b[0-9a-f]{64}\b|\d[\d,.]*(?:e[-+]\d+)?")


@dataclass(frozen=True)
class Example:
    """A block of a page, and what the page says that it prints (None: nothing is said)."""

    language: str
    code: str
    said: str | None
    varies: bool = False  # whether another run may print other numbers

    @property
    def runs(self) -> bool:
        """Commands without an output are there to be read: they install, or serve until they are stopped."""
        return self.language == "python" or self.said is not None

    def holds(self, printed: str) -> bool:
        """Whether the output is what the page says."""
        said, real = (NUMBER.sub("0", text) if self.varies else text for text in (self.said or "", printed))
        pattern = ".*?".join(map(re.escape, said.split("…")))
        return self.said is None or re.fullmatch(pattern, real, flags=re.DOTALL) is not None


def examples(text: str) -> list[Example]:
    """All examples of a page, in order."""
    return [Example(found[1], found[2], found[3], VARIES in text) for found in EXAMPLE.finditer(text)]


def run(found: list[Example], folder: Path) -> list[str]:
    """What they print, one after another in ``folder``; blocks of Python share their names."""
    names: dict[str, object] = {}
    (folder / "src").symlink_to(ROOT / "src")  # a page may name files of a clone
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    printed = []
    with contextlib.chdir(folder):
        for example in found:
            out = io.StringIO()
            if not example.runs:
                pass
            elif example.language == "python":
                with contextlib.redirect_stdout(out):
                    exec(compile(example.code, "<example>", "exec"), names)
            else:
                command = ["bash", "-euc", example.code]
                done = subprocess.run(
                    command, env={**os.environ, "PATH": path}, text=True, check=True,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                )  # fmt: skip
                out.write(done.stdout)
            lines = [line.rstrip() for line in out.getvalue().splitlines() if not SLOW.fullmatch(line)]
            printed.append("".join(f"{line}\n" for line in lines))
    return printed


def write(page: Path) -> None:
    """Run a page and write what it prints, and the pictures that it saves, where they are stale."""
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        found = examples(text)
        blocks = zip(found, run(found, Path(folder)), strict=True)

        def renew(match: re.Match[str]) -> str:
            example, new = next(blocks)
            if example.said is None or example.holds(new):
                return match[0]
            return f"```{example.language}\n{example.code}```\n\n```text\n{new}```\n"

        page.write_text(EXAMPLE.sub(renew, text), encoding="utf-8")
        for picture in Path(folder).glob("*.png"):
            if f"figures/{picture.name}" in text:
                shutil.copy(picture, ROOT / "docs" / "figures")


def notebook(text: str) -> str:
    """A page as a Jupyter notebook, with the outputs that it shows; links lead to the pages of the site."""
    cells: list[dict[str, object]] = []

    def add(kind: str, source: str, **more: object) -> None:
        if source.strip():
            cell = {"cell_type": kind, "id": f"cell-{len(cells)}", "metadata": {}, "source": source.strip()}
            cells.append(cell | more)

    end = 0
    for match, example in zip(EXAMPLE.finditer(text), examples(text), strict=True):
        if example.language != "python":
            continue  # commands are read
        add("markdown", text[end : match.start()])
        shown = [{"output_type": "stream", "name": "stdout", "text": example.said}] if example.said else []
        add("code", example.code, outputs=shown, execution_count=None)
        end = match.end()
    add("markdown", text[end:])
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}, indent=1)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        write(Path(name).resolve())
