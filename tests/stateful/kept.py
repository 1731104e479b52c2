"""Programs that once failed, as short as they go; ``tests/helpers/programs.py`` adds lines, the suite plays them."""

from __future__ import annotations

from tests.helpers.programs import Program

KEPT: list[tuple[str, Program]] = []
# A device whose announcement got lost gives a value; two closers find two rounds due.
KEPT.append(
    ("one server", (
        ("drop-request", 13, 94), ("clock", 11, 255), ("answer", 12, 12), ("closers", 10, 24), ("everybody", 9, 60),
    ))
)  # fmt: skip
KEPT.append(("one server", (("clock", 4, 228), ("clock", 11, 61), ("closers", 10, 24))))
