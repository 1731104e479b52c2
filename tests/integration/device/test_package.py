"""The package says what it offers, and loads nothing before it is asked for."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import semilocal.device as device


def test_every_public_name_is_there() -> None:
    for name in device.__all__:
        assert getattr(device, name).__name__ == name
    with pytest.raises(AttributeError, match="nothing"):
        _ = device.nothing


def test_a_device_installs_and_imports_no_server() -> None:
    """Neither the extra nor any module of the package asks for one; a single device does without httptools, too."""
    root = Path(__file__).parents[3]
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    pending, named = ["device"], set()
    while pending:
        for requirement in extras[pending.pop()]:
            name, _, inner = requirement.partition("[")
            if name == "semilocal":
                pending += inner.partition("]")[0].split(",")
            named.add(re.split(r"[^\w-]", name)[0])
    servers = {"starlette", "uvicorn", "httptools", "uvloop", "psycopg", "prometheus-client"}
    assert named & servers == set()
    assert {"httpx2", "cyclopts"} <= named
    code = (
        "import sys, pkgutil, importlib\n"
        "for name in ('starlette', 'uvicorn', 'httptools', 'uvloop'): sys.modules[name] = None\n"
        "import semilocal.device as device, semilocal.cli.commands.join, semilocal.cli.commands.verify\n"
        "for one in pkgutil.walk_packages(device.__path__, 'semilocal.device.'): importlib.import_module(one.name)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(root / "src")})


def test_the_command_line_loads_no_http_client_before_it_is_used() -> None:
    code = "import sys, semilocal.cli.commands.join; sys.exit('httpx2' in sys.modules or 'httptools' in sys.modules)"
    source = Path(__file__).parents[3] / "src"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(source)})
