"""For the documentation site: docstrings as ``help`` shows them, and as Markdown.

Griffe reads sources without running them. Jobs share sections of their docstrings when they are imported, and roles
such as ``:func:`` are not Markdown. Named in mkdocs.yml.
"""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:func|class|meth|mod|attr|data|exc):`~?([^`]+)`")
CHOICES = re.compile(r"^(\s*\w+ : )\{([^}]*)\}", flags=re.MULTILINE)  # griffe would take the first for a default
SHARED = "semilocal.release.onecall"


class Docstrings(griffe.Extension):
    """Replaces docstrings after a package was read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Take the docstring that a job has when the program runs; show names of roles as code, choices as choices."""
        if obj.docstring is None:
            return
        text = obj.docstring.value
        if obj.is_function and obj.parent is not None and obj.parent.path == SHARED:
            text = inspect.getdoc(getattr(importlib.import_module(SHARED), obj.name)) or text
        obj.docstring.value = CHOICES.sub(r"\1one of \2", ROLE.sub(r"`\1`", text))
