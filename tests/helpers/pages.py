"""What is inside a map that was written as one file."""

from __future__ import annotations

import json
import re
from typing import Any

__all__ = ["data_of"]


def data_of(document: str) -> Any:
    """The data of the map in a document."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', document, flags=re.DOTALL)
    assert found is not None
    return json.loads(found[1])
