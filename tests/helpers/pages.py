"""What is inside a map that was written as one file."""

from __future__ import annotations

import base64
import gzip
import json
import re
from typing import Any


def unpacked(document: str) -> Any:
    """All that is packed into a document: ``data`` and ``modules``."""
    found = re.search(r'id="data">([A-Za-z0-9+/=]*)</script>', document)
    assert found is not None
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


def data_of(document: str) -> Any:
    """The data of the map in a document."""
    return unpacked(document)["data"]
