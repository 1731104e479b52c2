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
SHARED = "semilocal.release.onecall"


class Docstrings(griffe.Extension):
    """Replaces docstrings after a package was read."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Take the docstring that the function has when the program runs."""
        if func.path.startswith(f"{SHARED}.") and func.docstring is not None and func.parent.is_module:
            job = getattr(importlib.import_module(SHARED), func.name)
            func.docstring.value = inspect.getdoc(job) or func.docstring.value

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Show names of roles as code."""
        if obj.docstring is not None:
            obj.docstring.value = ROLE.sub(r"`\1`", obj.docstring.value)
