"""When the package is built, links and pictures of the README become addresses that work in the package index, too."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURES = "https://raw.githubusercontent.com/semilocal/semilocal/main/"
PAGES = "https://github.com/semilocal/semilocal/blob/main/"
LINK = re.compile(r"(!?)(\[[^\]]*\])\((?!https?:|#)([^)\s]+)\)")


class ReadmeHook(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        """Fill in the project's readme."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        absolute = LINK.sub(lambda found: f"{found[1]}{found[2]}({PICTURES if found[1] else PAGES}{found[3]})", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute}
