"""All exceptions are in one module, and its picture of them is complete."""

from __future__ import annotations

import ast
import re

from semilocal import errors
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
