"""For the documentation site: docstrings as Markdown, which roles such as ``:func:`` are not. Named in mkdocs.yml."""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:func|class|meth|mod|attr|data|exc):`~?([^`]+)`")
CHOICES = re.compile(r"^(\s*\w+ : )\{([^}]*)\}", flags=re.MULTILINE)  # griffe would take the first for a default


class Docstrings(griffe.Extension):
    """Replaces docstrings after a package was read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Show names of roles as code, and choices as choices."""
        if obj.docstring is not None:
            obj.docstring.value = CHOICES.sub(r"\1one of \2", ROLE.sub(r"`\1`", obj.docstring.value))
