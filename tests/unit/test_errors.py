"""All exceptions are in one module, and its picture of them is complete."""

from __future__ import annotations

import ast
import pathlib
import re

import semilocal
from semilocal import errors

ROOT = pathlib.Path(semilocal.__file__).parent
CLASSES = {name: value for name, value in vars(errors).items() if isinstance(value, type)}


def exceptions_defined_in(source: str) -> list[str]:
    """Classes of a module whose bases look like exceptions."""
    classes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)]
    known = {*CLASSES, "Exception", "BaseException", "Warning", "UserWarning", "ValueError", "RuntimeError", "OSError"}
    return [node.name for node in classes if any(ast.unparse(base).split(".")[-1] in known for base in node.bases)]


def test_the_docstring_draws_every_class() -> None:
    drawn = re.findall(r"^ +(?:[│ ]*[├└]── )?([A-Z]\w+)(?:  .*)?$", errors.__doc__ or "", flags=re.M)
    assert sorted(drawn) == sorted(CLASSES)


def test_every_error_can_be_caught_as_one() -> None:
    for name, value in CLASSES.items():
        assert issubclass(value, errors.SemilocalError | Warning), name


def test_no_other_module_defines_exceptions() -> None:
    elsewhere = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in ROOT.rglob("*.py")
        if path.name != "errors.py"
        for name in exceptions_defined_in(path.read_text(encoding="utf-8"))
    }
    # How a request is answered: a status and a token, no failure of the library.
    assert elsewhere == {"service/problems.py: Problem"}


def test_an_exception_elsewhere_would_be_seen() -> None:
    assert exceptions_defined_in("class A(errors.InvalidInput): ...\nclass B(list): ...") == ["A"]
