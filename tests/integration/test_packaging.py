"""What is shipped: the package has the right files and metadata, and the files for running a server are sound."""

from __future__ import annotations

import email
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

import semilocal
from tests.helpers import HANG
from tests.helpers.nginx import SHIPPED
from tests.helpers.service import unmet

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
RAW = "https://raw.githubusercontent.com/semilocal/semilocal/main"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Registries may change; what a machine installs from is its own setting.
REGISTRY = re.compile(r"\bpy(?:pi|thonhosted)\.org\b|\bregistry\.\w+\.(?:org|com)\b")


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist, and the wheel that is built from it, without a network."""
    pytest.importorskip("build")
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=HANG, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> zipfile.ZipFile:
    (found,) = dist.glob("*.whl")
    return zipfile.ZipFile(found)


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    return email.message_from_bytes(wheel.read(f"semilocal-{semilocal.__version__}.dist-info/METADATA"))


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    shipped = {name for name in wheel.namelist() if ".dist-info/" not in name}
    source = ROOT / "src"
    there = {path.relative_to(source).as_posix() for path in (source / "semilocal").rglob("*") if path.is_file()}
    assert shipped == {name for name in there if "__pycache__" not in name}
    assert "semilocal/py.typed" in shipped


def test_the_wheel_lists_what_comes_from_elsewhere(wheel: zipfile.ZipFile) -> None:
    info = f"semilocal-{semilocal.__version__}.dist-info"
    listed = json.loads(wheel.read(f"{info}/sboms/sbom.json"))
    assert listed["bomFormat"] == "CycloneDX"
    vendored = [name for name in wheel.namelist() if "/vendor/" in name and name.endswith(".js")]
    assert len(listed["components"]) >= len(vendored) >= 1
    assert f"{info}/licenses/LICENSE" in wheel.namelist()
    assert any(name.startswith(f"{info}/licenses/") and name.endswith("lit-html.LICENSE") for name in wheel.namelist())


def test_the_sdist_can_be_tested_and_built(dist: Path) -> None:
    (found,) = dist.glob("*.tar.gz")
    with tarfile.open(found) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "Makefile", "mkdocs.yml", "tests/conftest.py"} <= names
    assert {"deploy/Dockerfile", "docs/index.md", "spec/protocol.md", "CITATION.cff"} <= names
    assert not {name for name in names if name.startswith((".venv", "site/", ".git/"))}


def test_the_metadata_says_what_it_is_and_where(metadata: Message) -> None:
    assert (metadata["Name"], metadata["Version"]) == ("semilocal", semilocal.__version__)
    assert metadata["License-Expression"] == "Apache-2.0"
    urls = dict(each.split(", ") for each in metadata.get_all("Project-URL") or ())
    assert {"Documentation", "Source", "Changelog", "Issues"} <= set(urls)
    assert all(url.startswith("https://") for url in urls.values())
    classifiers = set(metadata.get_all("Classifier") or ())
    assert {f"Programming Language :: Python :: 3.{minor}" for minor in range(11, 15)} <= classifiers
    assert {"Operating System :: POSIX", "Typing :: Typed"} <= classifiers
    core = [line for line in metadata.get_all("Requires-Dist") or () if "extra ==" not in line]
    assert {re.split("[<>=!~ ]", line)[0] for line in core} == {"numpy", "scipy", "msgspec"}


def test_the_readme_renders(metadata: Message) -> None:
    """As Markdown, to headings, tables, pictures and code, all with addresses that work anywhere."""
    markdown = pytest.importorskip("markdown_it")
    assert metadata["Description-Content-Type"] == "text/markdown"
    text = str(metadata.get_payload(decode=False))
    html = markdown.MarkdownIt("commonmark").enable("table").render(text)
    assert all(f"<{tag}" in html for tag in ("h1", "h2", "table", "img", "pre"))
    addresses = re.findall(r'(?:src|href)="([^"]*)"', html)
    assert [found for found in addresses if not found.startswith("https://")] == []
    assert f"{RAW}/docs/figures/trust.png" in addresses
    assert f"{PROJECT['urls']['Source']}/blob/main/SECURITY.md" in addresses


def test_the_citation_names_this_version() -> None:
    yaml = pytest.importorskip("yaml")
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == semilocal.__version__
    assert cited["license"] == PROJECT["license"]
    assert cited["repository-code"] == PROJECT["urls"]["Source"]


def test_the_conda_recipe_needs_what_the_package_and_its_command_need() -> None:
    yaml = pytest.importorskip("yaml")
    recipe = yaml.safe_load((DEPLOY / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    assert recipe["context"]["version"] == semilocal.__version__
    needed = [f"python{PROJECT['requires-python']}", *PROJECT["dependencies"], *PROJECT["optional-dependencies"]["cli"]]
    assert [line.replace(" ", "") for line in recipe["requirements"]["run"]] == needed
    (entry,) = recipe["build"]["python"]["entry_points"]
    assert dict([entry.split(" = ")]) == PROJECT["scripts"]
    assert recipe["about"]["summary"] == PROJECT["description"]


def test_a_device_does_not_install_a_server() -> None:
    extras = PROJECT["optional-dependencies"]
    assert not {"starlette", "uvicorn", "prometheus-client"} & {
        re.split("[<>=\\[]", line)[0] for line in extras["device"]
    }
    assert "semilocal[device]" in extras["service"]


# -- workflows -------------------------------------------------------------------------------------------------------


def workflow(name: str) -> Any:
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text(encoding="utf-8"))


def test_every_python_that_is_named_is_tested() -> None:
    named = {line.rpartition(" ")[2] for line in PROJECT["classifiers"] if ":: 3." in line}
    assert set(workflow("test")["jobs"]["test"]["strategy"]["matrix"]["python"]) == named


@pytest.mark.parametrize("name", ["test", "docs", "publish"])
def test_a_workflow_may_only_read_and_keeps_no_credentials(name: str) -> None:
    found = workflow(name)
    assert found["permissions"] == {"contents": "read"}
    for job in found["jobs"].values():
        assert job["timeout-minutes"] <= 60
        assert not {"contents", "packages"} & set(job.get("permissions", {}))
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False


def test_publishing_needs_no_stored_secret_and_carries_attestations() -> None:
    text = (ROOT / ".github" / "workflows" / "publish.yml").read_text(encoding="utf-8")
    assert "secrets." not in text
    upload = workflow("publish")["jobs"]["upload"]
    assert upload["permissions"]["id-token"] == "write"
    assert upload["steps"][-1]["with"] == {"attestations": True}


def test_make_has_every_target_that_is_named() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    files = [*(ROOT / ".github").rglob("*.*"), *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    named = {target for path in files for target in re.findall(r"\bmake ([a-z]+)\b(?! \w)", code_of(path))}
    assert named - targets == set()
    assert {"test", "docs", "coverage", "lock", "lowest"} <= named & targets


def code_of(path: Path) -> str:
    """What a file has as code: whole lines of a workflow, or what stands between backquotes on a page."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".md":
        return "\n".join(line for line in text.splitlines() if "run:" in line)
    return "\n".join(re.findall(r"```sh\n.*?```|`make [^`]*`", text, flags=re.DOTALL))


def test_no_file_names_a_package_registry() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this is no clone of the repository")
    found = []
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if path.is_file() and path.stat().st_size < 1 << 20:
            found += [f"{name}: {each}" for each in REGISTRY.findall(path.read_text(encoding="utf-8", errors="ignore"))]
    assert found == []
    assert len(REGISTRY.findall("https://files.pythonhosted" + ".org https://registry.npmjs" + ".org/x")) == 2


# -- running a server ------------------------------------------------------------------------------------------------


def test_hadolint_has_nothing_to_say_about_the_container() -> None:
    program = Path(sys.executable).with_name("hadolint")
    if not program.exists():
        unmet("hadolint is not installed; it is in the extra 'test'")
    checked = subprocess.run(
        [program, DEPLOY / "Dockerfile"], capture_output=True, text=True, timeout=HANG, check=False
    )
    assert (checked.returncode, checked.stdout) == (0, "")


def test_the_container_does_not_run_as_root() -> None:
    _, first, last = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").split("\nFROM ")
    assert re.findall(r"^USER (\S+)", last, flags=re.MULTILINE) == ["10001:10001"]
    assert "HEALTHCHECK" in last
    assert "--require-hashes --requirement requirements.txt" in first


def test_what_the_container_copies_is_enough_to_build_the_package(tmp_path: Path) -> None:
    copied = re.findall(r"^COPY (?!--from)(.+) (\S+)$", (DEPLOY / "Dockerfile").read_text("utf-8"), flags=re.MULTILINE)
    for names, target in copied:
        for name in names.split():
            into = tmp_path / target / ("" if (ROOT / name).is_file() else ".")
            into.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_file():
                shutil.copy(ROOT / name, into)
            else:
                shutil.copytree(ROOT / name, into, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    command = [
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--wheel",
        "--outdir",
        str(tmp_path / "out"),
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert {f"!{name}" for names, _ in copied for name in names.split()} <= set(ignored)


@pytest.fixture
def compose() -> Any:
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["database", "service", "proxy"])
def test_every_container_is_hardened_and_watched(compose: Any, name: str) -> None:
    service = compose["services"][name]
    assert set(compose["services"]) == {"database", "service", "proxy"}
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", service["user"])
    assert service["healthcheck"]["test"][0] == "CMD"
    assert ("ports" in service) == (name == "proxy")
    assert ("outside" in service["networks"]) == (name == "proxy")


def test_passwords_come_from_outside_the_file(compose: Any) -> None:
    asked = set()
    for service in compose["services"].values():
        for variable, value in service.get("environment", {}).items():
            if re.search("PASSWORD|TOKEN|KEY", variable):
                asked.add(re.fullmatch(r"\$\{(\w+):\?fill in \.env\}", value)[1])  # type: ignore[index]
    example = (DEPLOY / "compose.env.example").read_text(encoding="utf-8")
    assert set(re.findall(r"^(\w+)=$", example, flags=re.MULTILINE)) == asked


def test_the_proxy_of_the_containers_is_the_configuration_that_is_tested(compose: Any) -> None:
    proxy = compose["services"]["proxy"]
    assert f"./{SHIPPED.name}:/etc/semilocal/nginx.conf:ro" in proxy["volumes"]
    (command,) = proxy["command"]
    old = re.findall(r"sed 's/(.+?)/(.+?)/'", command)[0][0]
    assert SHIPPED.read_text(encoding="utf-8").count(old) == 1
    for path in re.findall(r"ssl_certificate(?:_key)? (\S+);", SHIPPED.read_text(encoding="utf-8")):
        assert any(f":{path}:ro" in volume for volume in proxy["volumes"])


@pytest.mark.parametrize("unit", ["semilocal@.service", "semilocal-backup.service", "semilocal-backup.timer"])
def test_systemd_accepts_the_units(tmp_path: Path, unit: str) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    for path in DEPLOY.glob("semilocal*"):  # programs and users of a real machine are not here
        text = re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        (tmp_path / path.name.replace("@.", "@8000.")).write_text(text.replace("User=semilocal", "User=root"))
    name = tmp_path / unit.replace("@.", "@8000.")
    verify = [program, "verify", "--man=no", "--recursive-errors=no"]
    checked = subprocess.run([*verify, name], capture_output=True, text=True, timeout=HANG, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
    broken = tmp_path / f"broken-{name.name}"
    broken.write_text(name.read_text().replace("[Unit]", "[Unit]\nNoSuchSetting=1"))
    assert "NoSuchSetting" in subprocess.run([*verify, broken], capture_output=True, text=True, check=False).stderr


def locked_versions(file: str) -> dict[str, str]:
    """Names and versions; each has a hash."""
    text = (DEPLOY / file).read_text(encoding="utf-8").replace("\\\n", "")
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    for _, *hashes in lines:
        assert hashes
        assert all(re.fullmatch("--hash=sha256:[0-9a-f]{64}", one) for one in hashes)
    return dict(line[0].split("==") for line in lines)


def test_what_a_server_installs_is_listed_with_licences_that_let_it_be_run() -> None:
    components = json.loads((DEPLOY / "sbom.json").read_text(encoding="utf-8"))["components"]
    server = locked_versions("requirements.txt")
    assert {one["name"]: one["version"] for one in components} == server
    assert server.items() <= locked_versions("constraints.txt").items()
    free = {
        "MIT", "MIT-0", "BSD-2-Clause", "BSD-3-Clause", "0BSD", "Zlib", "CC0-1.0", "Apache-2.0", "ISC", "PSF-2.0",
        "MPL-2.0", "LGPL-3.0-only",
    }  # fmt: skip
    for one in components:
        assert set(re.split(" AND | OR ", one["licenses"][0]["expression"])) <= free, one


def test_the_locked_versions_fit_what_is_asked_for() -> None:
    packaging = pytest.importorskip("packaging.requirements")
    locked = locked_versions("constraints.txt")
    extras = PROJECT["optional-dependencies"].values()
    asked = [packaging.Requirement(line) for line in (*PROJECT["dependencies"], *(one for e in extras for one in e))]
    wrong = [
        str(each)
        for each in asked
        if each.name != "semilocal" and not each.specifier.contains(locked.get(each.name.lower(), "0"))
    ]
    assert wrong == []
