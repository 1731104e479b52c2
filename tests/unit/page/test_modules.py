"""The page's files: what is shipped, how modules find each other, and that its own tests pass in Node."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import semilocal
from semilocal.page.single import content_security_policy, import_map, index_html, modules_of, packed_file, static_files
from tests.helpers import HANG
from tests.helpers.service import unmet

ROOT = Path(semilocal.__file__).parent
TESTS = Path(__file__).parents[2] / "page"
MODULES = {name: data.decode() for name, data in static_files().items() if name.endswith(".js")}
ENTRIES = ("views/main.js", "views/join.js")
LIBRARIES = {f"vendor/{name}.js" for name in ("msgpack", "noble-ciphers", "noble-curves", "noble-hashes")}
OWN = {name: text for name, text in MODULES.items() if not name.startswith("vendor/")}


def imports(text: str) -> list[str]:
    return re.findall(r'^import [^;]*?"([^"]+)";', text, flags=re.MULTILINE)


def later(text: str) -> list[str]:
    """What a module imports while it runs."""
    return re.findall(r'await import\("([^"]+)"\)', text)


@pytest.mark.parametrize("name", OWN)
def test_every_module_imports_files_that_are_shipped(name: str) -> None:
    for target in imports(OWN[name]) + later(OWN[name]):
        assert target.startswith("#"), f"{name}: import {target} by its name, so that single files work"
        assert target[1:] in MODULES, f"{name} imports {target}"


def test_a_missing_import_would_be_seen() -> None:
    assert imports('import { a } from "#map/b.js";\nimport * as c from "./d.js";') == ["#map/b.js", "./d.js"]
    assert later('const { a } = await import("#map/c.js");\n/** @type {import("#map/d.js").D} */') == ["#map/c.js"]


def test_the_map_knows_no_views_and_the_device_knows_neither() -> None:
    for name, text in OWN.items():
        folders = {target[1:].split("/")[0] for target in imports(text) + later(text)}
        if name.startswith("map/"):
            assert "views" not in folders, name
        if name.startswith("device/"):
            assert folders <= {"device", "vendor"}, name


def loaded(entry: str) -> list[str]:
    """Files that a browser fetches for an entry: the module, all that it imports, and what every page needs."""
    return ["index.html", "style.css", "icon.svg", *modules_of(entry)]


def loaded_in_all(entry: str) -> set[str]:
    """The same with all that is ever imported later."""
    found, waiting = set(loaded(entry)), list(modules_of(entry))
    while waiting:
        for target in later(MODULES[waiting.pop()]):
            new = set(modules_of(target[1:])) - found
            found |= new
            waiting += new
    return found


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_page_and_its_own_scripts_are_under_150_kilobytes_before_anybody_takes_part(entry: str) -> None:
    assert sum(len(static_files()[name]) for name in loaded(entry) if name not in LIBRARIES) < 150_000


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_page_takes_less_than_100_kilobytes_on_the_wire_and_with_libraries_a_third_more(entry: str) -> None:
    sizes = {name: len(packed_file(name)) for name in loaded_in_all(entry)}
    assert sum(size for name, size in sizes.items() if name not in LIBRARIES) < 100_000
    assert sum(sizes.values()) < 133_000


def test_what_takes_part_is_loaded_when_somebody_does() -> None:
    assert {"device/agent.js", "device/upload.js"} <= loaded_in_all("views/join.js") - set(loaded("views/join.js"))


def test_no_file_names_another_host() -> None:
    for name, data in static_files().items():
        if name.endswith((".js", ".css", ".html")) and not name.startswith("vendor/"):
            assert not re.search(rb"https?://|//[a-z]+\.[a-z]", data), name


def test_the_policy_lets_nothing_run_but_our_files_and_the_import_map() -> None:
    policy = content_security_policy()
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert import_map().encode() in index_html()
    inline = re.findall(rb"<script(?![^>]*src=)[^>]*>(.*?)</script>", index_html(), flags=re.DOTALL)
    assert inline == [import_map().encode()]
    assert not re.search(rb"\son[a-z]+=|\sstyle=", index_html())


def test_templates_hold_no_inline_styles_or_handlers_and_nothing_is_set_as_html() -> None:
    for name, text in OWN.items():
        assert not re.search(
            r"[\s<]style=[\"'$]|\son[a-z]+=[\"']|innerHTML|insertAdjacentHTML|unsafeHTML|eval\(", text
        ), name


def test_no_module_words_a_promise() -> None:
    said = (
        r"places of one's region|you included|operators collude|two shares only|never leaves? this|Protected:|k people"
    )
    for name, text in OWN.items():
        assert not re.search(said, text), name


def test_what_comes_from_elsewhere_is_listed_with_version_licence_and_hash() -> None:
    listed = json.loads(static_files()["vendor/sbom.json"])["components"]
    files = {row["properties"][0]["value"]: row for row in listed}
    shipped = {f"page/static/{name}" for name in static_files() if name.startswith("vendor/")}
    assert shipped - {"page/static/vendor/sbom.json"} <= set(files)
    for name, row in files.items():
        assert hashlib.sha256((ROOT / name).read_bytes()).hexdigest() == row["hashes"][0]["content"], name
        assert row["version"]
        assert row["licenses"]


def test_a_single_file_finds_every_module() -> None:
    names = modules_of("views/file.js")
    assert "map/view.js" in names
    for name in names:
        assert {target[1:] for target in imports(MODULES[name])} <= set(names)


def test_a_single_file_carries_no_device_and_no_other_pages() -> None:
    names = modules_of("views/file.js")
    assert not [name for name in names if name.startswith(("device/", "views/join", "views/main"))]


QUICK = {path.name for path in TESTS.glob("*.test.js")} - {"sharing.test.js", "vectors.test.js"}


@pytest.mark.parametrize("name", sorted(QUICK))
def test_the_modules_pass_their_own_tests_in_node(name: str) -> None:
    pass_in_node(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sharing.test.js", "vectors.test.js"])
def test_the_device_passes_every_vector_in_node(name: str) -> None:
    pass_in_node(name)


def pass_in_node(name: str) -> None:
    node = shutil.which("node")
    if node is None:
        unmet("node is not installed")
    assert node is not None
    done = subprocess.run([node, "--test", TESTS / name], capture_output=True, text=True, timeout=HANG, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
    assert re.search(r"^# pass [1-9]", done.stdout, flags=re.MULTILINE)
