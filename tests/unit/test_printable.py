"""Text from elsewhere cannot steer a terminal, forge a line or fill the screen."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from semilocal.errors import is_plain, printable

CONTROLS = [*range(0x20), *range(0x7F, 0xA0)]
TURNS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
DIRECTIONS = [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]


@pytest.mark.parametrize("lines", [True, False])
def test_no_control_character_and_no_override_of_direction_survives(lines: bool) -> None:
    every = "".join(map(chr, [*CONTROLS, *DIRECTIONS, 0x2028, 0x2029, 0xD800, 0xDFFF]))
    kept = printable(f"a{every}b", lines=lines)
    assert set(kept) == ({"a", "b", " ", "\n"} if lines else {"a", "b", " "})
    for code in [*CONTROLS, *DIRECTIONS]:
        assert not is_plain(f"x{chr(code)}y"), hex(code)


def test_what_unicode_calls_a_control_or_a_direction_is_covered() -> None:
    """The list of this module against the tables of Python: nothing that steers is left out."""
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        steers = unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
        steers |= unicodedata.bidirectional(character) in TURNS
        if steers:
            assert not is_plain(character), hex(code)


def test_ordinary_text_of_any_language_stays_as_it_is() -> None:
    for text in ("Zürich 8001, 50 %", "東京都 渋谷区", "עברית", "नमस्ते क्‍ष", "👩‍👩‍👧", "ε = 1 — k ≥ 50"):
        assert printable(text) == text
        assert is_plain(text)


def test_long_text_is_cut_and_says_how_long_it_was() -> None:
    assert printable("x" * 300) == "x" * 300
    assert printable("x" * 10_000_000) == "x" * 300 + "… (10,000,000 characters)"
    assert len(printable("\n" * 10_000_000, most=50, lines=True)) < 100


def test_a_line_cannot_be_forged() -> None:
    forged = "fine\r\nsemilocal: error: no\x1b[2K\u2028more\x85end"
    assert len(printable(forged).splitlines()) == 1
    assert len(printable(forged, lines=True).splitlines()) == 2
