"""Write deploy/constraints.txt: one tested version of everything that the service and CI install. `make lock` runs it.

pip resolves all extras again and installs nothing. Look at the difference, run the tests, commit.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = "all,docs,test"
HEAD = """# One version of everything that the service and CI install, resolved on Python {version} by `make lock`.
# pip install --constraint deploy/constraints.txt ...
"""


def resolved() -> dict[str, str]:
    """Names and versions that pip would install."""
    asked = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
    report = subprocess.run([*asked, f"{ROOT}[{EXTRAS}]"], check=True, capture_output=True, text=True).stdout
    found = {item["metadata"]["name"]: item["metadata"]["version"] for item in json.loads(report)["install"]}
    return {re.sub("[-_.]+", "-", name).lower(): version for name, version in found.items() if name != "semilocal"}


def main() -> None:
    """Write the file."""
    lines = [f"{name}=={version}" for name, version in sorted(resolved().items())]
    head = HEAD.format(version=".".join(map(str, sys.version_info[:2])))
    (ROOT / "deploy" / "constraints.txt").write_text(head + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
