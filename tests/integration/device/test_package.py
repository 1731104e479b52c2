"""The package says what it offers, and loads nothing before it is asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import semilocal.device as device


def test_every_public_name_is_there() -> None:
    for name in device.__all__:
        assert getattr(device, name).__name__ == name
    with pytest.raises(AttributeError, match="nothing"):
        _ = device.nothing


def test_the_command_line_loads_no_http_client_before_it_is_used() -> None:
    code = "import sys, semilocal.cli.commands.join; sys.exit('httpx' in sys.modules or 'httptools' in sys.modules)"
    source = Path(__file__).parents[3] / "src"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(source)})
