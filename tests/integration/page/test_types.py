"""The types that the page's modules state in their comments are checked by the TypeScript compiler."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.helpers.service import unmet

ROOT = Path(__file__).parents[3]
COMPILER = ROOT / ".tools" / "node_modules" / "typescript" / "bin" / "tsc"
CONFIG = ROOT / "tests" / "page" / "tsconfig.json"


def compiled(config: Path) -> subprocess.CompletedProcess[str]:
    node = shutil.which("node")
    if node is None or not COMPILER.exists():
        unmet("the TypeScript compiler is not there; make .tools/node_modules fetches it")
    assert node is not None
    return subprocess.run([node, COMPILER, "-p", config], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.slow
def test_the_types_of_all_modules_agree() -> None:
    done = compiled(CONFIG)
    assert (done.stdout, done.returncode) == ("", 0)


@pytest.mark.slow
def test_a_wrong_type_would_be_seen(tmp_path: Path) -> None:
    (tmp_path / "wrong.js").write_text("/** @param {number} x */ export function f(x) { return x.missing; }\n")
    options = '"allowJs": true, "checkJs": true, "noEmit": true, "strict": true, "types": []'
    (tmp_path / "tsconfig.json").write_text(f'{{"compilerOptions": {{{options}}}, "include": ["wrong.js"]}}')
    done = compiled(tmp_path / "tsconfig.json")
    assert done.returncode != 0
    assert "missing" in done.stdout
