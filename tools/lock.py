"""Write deploy/: one tested version of everything that the service and CI install, with hashes. `make lock` runs it.

pip resolves all extras again and installs nothing. ``requirements.txt`` is what a server needs, ``sbom.json`` lists it
with licences (CycloneDX), ``constraints.txt`` is everything. Look at the difference, run the tests, commit.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from importlib.metadata import metadata
from pathlib import Path

from packaging.tags import Tag
from packaging.utils import InvalidSdistFilename, parse_sdist_filename, parse_wheel_filename
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
SERVER = f"{ROOT}[service,postgres]"
BUILD, EDITABLE = "hatchling", "editables"  # they build the project itself, which has no hash
PYTHONS = ("311", "312", "313", "314")
HEAD = """# {what}, resolved on Python {version} by `make lock`.
# pip install --require-hashes --requirement deploy/{file} && pip install --no-deps --no-build-isolation .
"""
# Where a licence is given in words alone.
LICENCES = {
    "MIT License": "MIT", "BSD License": "BSD-3-Clause", "Apache Software License": "Apache-2.0",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0", "GNU Lesser General Public License v3 (LGPLv3)": "LGPL-3.0-only",
}  # fmt: skip


def resolved(*asked: str, constraints: Path | None = None) -> list[tuple[str, str]]:
    """Names and versions that pip would install."""
    limits = [] if constraints is None else ["--constraint", str(constraints)]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
    report = subprocess.run([*command, *limits, *asked], check=True, capture_output=True, text=True).stdout
    found = [item["metadata"] for item in json.loads(report)["install"]]
    return sorted(
        (re.sub("[-_.]+", "-", data["name"]).lower(), data["version"]) for data in found if data["name"] != "semilocal"
    )


def licence_of(name: str) -> str:
    """A licence as SPDX names it, of the package that is installed here."""
    data = metadata(name)
    if data["License-Expression"]:
        return str(data["License-Expression"])
    classes = [line.rpartition(" :: ")[2] for line in data.get_all("Classifier", []) if line.startswith("License :: ")]
    words = [*classes, *str(data["License"] or "").splitlines()[:1]]
    return next((LICENCES.get(one, one) for one in words if one != "OSI Approved"), "unknown")


def hashes(name: str, version: str) -> list[str]:
    """Hashes of the files of a version that a server can use, from pip's index."""
    from pip._internal.models.index import PyPI

    index = os.environ.get("PIP_INDEX_URL") or PyPI.simple_url
    with urllib.request.urlopen(f"{index.rstrip('/')}/{name}/", timeout=60) as answer:
        page = answer.read().decode()
    files = re.findall(r'#sha256=([0-9a-f]{64})"[^>]*>\s*([^<\s]+)\s*</a>', page)
    return sorted({digest for digest, file in files if is_of(file, Version(version))})


def is_of(file: str, version: Version) -> bool:
    """Whether a file is of that version, and for Linux and a Python that is supported."""
    try:
        if file.endswith(".whl"):
            _, found, _, tags = parse_wheel_filename(file)
            return found == version and any(map(is_for_servers, tags))
        return parse_sdist_filename(file)[1] == version
    except (InvalidSdistFilename, ValueError):
        return False


def is_for_servers(tag: Tag) -> bool:
    """Whether a wheel's tag is for such a machine."""
    python = tag.interpreter.startswith("py") or tag.abi == "abi3" or tag.interpreter in {f"cp{one}" for one in PYTHONS}
    return python and (tag.platform == "any" or "linux" in tag.platform)


def write(file: str, what: str, packages: list[tuple[str, str]], known: dict[str, list[str]]) -> None:
    """Write names, versions and hashes."""
    head = HEAD.format(what=what, file=file, version=".".join(map(str, sys.version_info[:2])))
    lines = [
        " \\\n    ".join([f"{name}=={version}", *(f"--hash=sha256:{each}" for each in known[name])])
        for name, version in packages
    ]
    (DEPLOY / file).write_text(head + "\n".join(lines) + "\n", encoding="utf-8")


def write_sbom(packages: list[tuple[str, str]]) -> None:
    """Write what a server runs, with licences."""
    components = [
        {
            "type": "library", "name": name, "version": version, "purl": f"pkg:pypi/{name}@{version}",
            "licenses": [{"expression": licence_of(name)}],
        }
        for name, version in packages
    ]  # fmt: skip
    document = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "components": components}
    (DEPLOY / "sbom.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    """Write the files."""
    everything = resolved(f"{ROOT}[all,docs,test]", EDITABLE)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as versions:
        versions.write("".join(f"{name}=={version}\n" for name, version in everything))
        versions.flush()
        server = resolved(SERVER, BUILD, constraints=Path(versions.name))
    known = {name: hashes(name, version) for name, version in everything}
    if missing := [name for name, found in known.items() if not found]:
        raise SystemExit(f"the index has no hashes for {', '.join(missing)}")
    write("requirements.txt", "What a server needs", server, known)
    write("constraints.txt", "Everything that is installed to develop and test", everything, known)
    write_sbom(server)


if __name__ == "__main__":
    main()
