"""Fetch what the page ships from elsewhere, and write down version, licence and hash (a CycloneDX list).

Run with ``make vendor``. Versions are pinned here; npm checks what it downloads, and a file that differs from the hash
in the list stops the script unless ``--update`` is given.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1] / "src" / "semilocal"
LIST = ROOT / "page" / "static" / "vendor" / "sbom.json"


class Part(NamedTuple):
    """A file of a package, and where it goes."""

    package: str
    version: str
    licence: str
    file: str
    target: Path
    about: str


PARTS = (
    Part("lit-html", "3.3.3", "BSD-3-Clause", "lit-html.js", LIST.parent / "lit-html.js", "templates of the page"),
    Part("lit-html", "3.3.3", "BSD-3-Clause", "LICENSE", LIST.parent / "lit-html.LICENSE", "its licence"),
    Part(
        "world-atlas", "2.0.2", "ISC", "land-50m.json", ROOT / "data" / "land-50m.json.gz",
        "coastlines; the data is Natural Earth's, in the public domain",
    ),
)  # fmt: skip
# For tests only, not shipped: checks of accessibility and of types.
TOOLS = Path(__file__).parents[1] / ".tools"
TEST_PACKAGES = ("axe-core@4.14.0", "typescript@5.9.3", "lit-html@3.3.3")


def main() -> None:
    """Fetch all parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", action="store_true", help="take other bytes than the list has")
    parser.add_argument("--tests", action="store_true", help="fetch only what tests need, into .tools")
    args = parser.parse_args()
    if args.tests:
        command = ["npm", "install", "--silent", "--no-save", "--ignore-scripts", "--prefix", str(TOOLS)]
        TOOLS.mkdir(exist_ok=True)
        subprocess.run([*command, *TEST_PACKAGES], check=True)
        return
    update = args.update
    known = {}
    if LIST.exists():
        known = {row["properties"][0]["value"]: row["hashes"][0]["content"] for row in _rows()}
    components = []
    with tempfile.TemporaryDirectory() as folder:
        for part in PARTS:
            data = _fetch(part, Path(folder))
            digest, where = hashlib.sha256(data).hexdigest(), part.target.relative_to(ROOT).as_posix()
            if known.get(where, digest) != digest and not update:
                raise SystemExit(f"{where}: the bytes changed from {known[where]} to {digest}; --update takes them")
            part.target.write_bytes(data)
            components.append(
                {
                    "type": "library", "name": part.package, "version": part.version, "description": part.about,
                    "licenses": [{"license": {"id": part.licence}}],
                    "hashes": [{"alg": "SHA-256", "content": digest}],
                    "properties": [{"name": "file", "value": where}],
                }
            )  # fmt: skip
    document = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "components": components}
    LIST.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(f"wrote {len(components)} files and {LIST}")


def _rows() -> list[dict[str, list[dict[str, str]]]]:
    rows: list[dict[str, list[dict[str, str]]]] = json.loads(LIST.read_text(encoding="utf-8"))["components"]
    return rows


def _fetch(part: Part, folder: Path) -> bytes:
    name = f"{part.package}@{part.version}"
    packed = subprocess.run(["npm", "pack", "--silent", name], cwd=folder, check=True, capture_output=True, text=True)
    with tarfile.open(folder / packed.stdout.strip()) as archive:
        stream = archive.extractfile(f"package/{part.file}")
        assert stream is not None
        data = stream.read()
    if part.file.endswith(".js"):  # the map of the sources is not shipped, and browsers would ask for it
        data = b"\n".join(line for line in data.split(b"\n") if not line.startswith(b"//# sourceMappingURL="))
    return gzip.compress(data, 9, mtime=0) if part.target.suffix == ".gz" else data


if __name__ == "__main__":
    main()
