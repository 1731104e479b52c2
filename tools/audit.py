"""Ask for known vulnerabilities of what servers run and of what the page ships. `make audit` runs it.

pip-audit asks about deploy/constraints.txt, npm about the packages of ``tools/vendor.py``. Exit code 1 if anything is
found. What could not be asked, because no source of advisories answers from here, is named: it is not known to be good.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import vendor  # beside this script

LOCKED = Path(__file__).resolve().parents[1] / "deploy" / "constraints.txt"


def answer(*command: str, folder: str | None = None) -> tuple[dict[str, Any], str]:
    """The JSON that a program prints, empty if it prints none, and its last words."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    try:
        found = json.loads(done.stdout)
    except json.JSONDecodeError:
        found = {}
    return found, (done.stderr.strip().splitlines() or ["no answer"])[-1]


def of_python(program: str) -> tuple[list[str], list[str]]:
    """What pip-audit found, and what it could not ask."""
    options = ["--require-hashes", "--disable-pip", "--format", "json", "--progress-spinner", "off"]
    report, words = answer(program, "--requirement", str(LOCKED), *options)
    rows = report.get("dependencies", [])
    found = [f"{row['name']} {row['version']}: {one['id']}" for row in rows for one in row.get("vulns", [])]
    skipped = [row["name"] for row in rows if "skip_reason" in row]
    if not rows:
        return [], [f"packages for Python: {words}"]
    return found, [f"{len(skipped)} of {len(rows)} packages for Python: {', '.join(skipped[:5])} …"] if skipped else []


def of_the_page() -> tuple[list[str], list[str]]:
    """What npm found, and what it could not ask."""
    packages = {part.package: part.version for part in vendor.PARTS if part.package not in vendor.FROM_PYPI}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "package.json").write_text(json.dumps({"name": "page", "dependencies": packages}))
        answer("npm", "install", "--package-lock-only", "--silent", folder=folder)
        report, words = answer("npm", "audit", "--json", folder=folder)
    if "vulnerabilities" not in report:
        return [], [f"packages of the page: {report.get('message', words)}"]
    return [f"{name}: {row['severity']}" for name, row in report["vulnerabilities"].items()], []


def main() -> int:
    """Print what is known."""
    found, unknown = (one + other for one, other in zip(of_python(sys.argv[1]), of_the_page(), strict=True))
    for line in found:
        print(f"vulnerable: {line}")
    for line in unknown:
        print(f"not audited from here: {line}")
    if not (found or unknown):
        print("no known vulnerability")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
