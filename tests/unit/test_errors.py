"""All exceptions are in one module with a complete picture; text from elsewhere cannot steer a terminal or fill it."""

from __future__ import annotations

import ast
import re
import sys
import unicodedata

import pytest

from semilocal import errors
from semilocal.errors import is_plain, printable
from tests.helpers.sources import with_text

CLASSES = {name: value for name, value in vars(errors).items() if isinstance(value, type)}
KNOWN = {*CLASSES, "Exception", "BaseException", "Warning", "UserWarning", "ValueError", "RuntimeError", "OSError"}
SUSPECT = re.compile(rf"class \w+\([^)]*\b({'|'.join(KNOWN)})\b")


def exceptions_defined_in(module: ast.Module) -> list[str]:
    """Classes of a module whose bases look like exceptions."""
    classes = [node for node in ast.walk(module) if isinstance(node, ast.ClassDef)]
    return [node.name for node in classes if any(ast.unparse(base).split(".")[-1] in KNOWN for base in node.bases)]


def test_the_docstring_draws_every_class() -> None:
    drawn = re.findall(r"^ +(?:[│ ]*[├└]── )?([A-Z]\w+)(?:  .*)?$", errors.__doc__ or "", flags=re.M)
    assert sorted(drawn) == sorted(CLASSES)


def test_every_error_can_be_caught_as_one() -> None:
    for name, value in CLASSES.items():
        assert issubclass(value, errors.SemilocalError | Warning), name


def test_no_other_module_defines_exceptions() -> None:
    modules = with_text(SUSPECT)
    assert "errors" in modules
    elsewhere = {
        f"{name}.{found}" for name in modules if name != "errors" for found in exceptions_defined_in(modules[name])
    }
    # How a request is answered: a status and a token, no failure of the library.
    assert elsewhere == {"service.problems.Problem"}


def test_an_exception_elsewhere_would_be_seen() -> None:
    planted = "class A(errors.InvalidInput): ...\nclass B(list): ..."
    assert SUSPECT.search(planted)
    assert exceptions_defined_in(ast.parse(planted)) == ["A"]


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
