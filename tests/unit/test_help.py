"""``help`` of every public function is complete, and true to its signature."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable
from typing import Any

import pytest

import semilocal as sl
from semilocal import errors

FUNCTIONS = {name: getattr(sl, name) for name in sl.__all__ if inspect.isfunction(getattr(sl, name))}


def sections(text: str) -> dict[str, str]:
    """The sections of a docstring by their headings; what comes before the first one is under ""."""
    first, *rest = re.split(r"^(\w+)\n-+\n", text, flags=re.MULTILINE)
    return {"": first, **dict(zip(rest[::2], rest[1::2], strict=True))}


def documented(job: Callable[..., Any]) -> list[str]:
    """Names of parameters in a docstring, in its order."""
    entries = re.findall(r"^(\S[^:\n]*?)(?: :.*)?$", sections(inspect.getdoc(job) or "")["Parameters"], re.MULTILINE)
    return [name.strip() for entry in entries for name in entry.split(",")]


def taken(job: Callable[..., Any]) -> tuple[set[str], set[str]]:
    """Names of parameters that must be documented, and of those that may be: options that are passed on."""
    must, may = set(), set()
    for name, parameter in inspect.signature(job).parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            must.add(f"**{name}")
            (options,) = typing.get_args(typing.get_type_hints(job, include_extras=True)[name])
            may |= set(typing.get_type_hints(options))
        else:
            must.add(name)
    return must, may


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_parameters_of_help_are_those_of_the_signature(name: str) -> None:
    found = documented(FUNCTIONS[name])
    must, may = taken(FUNCTIONS[name])
    assert len(found) == len(set(found))
    assert must <= set(found) <= must | may


@pytest.mark.parametrize("name", ["counts", "points", "mean", "cell_means", "values"])
def test_what_most_people_need_stands_in_the_signature_by_name(name: str) -> None:
    assert {"users", "rng", "delta", "k"} <= set(inspect.signature(FUNCTIONS[name]).parameters)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_help_says_what_comes_back_what_is_refused_and_what_is_promised(name: str) -> None:
    found = sections(inspect.getdoc(FUNCTIONS[name]) or "")
    assert found[""]
    assert found["Returns"].strip()
    raised = re.findall(r"^(\w+)$", found["Raises"], re.MULTILINE)
    assert raised
    assert all(issubclass(getattr(errors, each), errors.SemilocalError) for each in raised)
    assert "Guarantee:" in found["Notes"]
    assert "delta" in found["Notes"]
    assert ">>>" in found["Examples"]


@pytest.mark.parametrize("name", sl.__all__)
def test_every_public_name_has_a_docstring(name: str) -> None:
    assert name == "__version__" or (inspect.getdoc(getattr(sl, name)) or "").strip()


def test_a_parameter_that_is_not_taken_would_be_seen() -> None:
    def job(points: int, **named: typing.Unpack[sl.release.job.Options]) -> None:
        """A job.

        Parameters
        ----------
        points : int
        gone : int
        **named
        """

    must, may = taken(job)
    assert set(documented(job)) - must - may == {"gone"}
