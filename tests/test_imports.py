"""What may import what: data and imports go one way only, and importing the package is cheap.

Read from the syntax trees, so that nothing has to be installed. A module of the core may import from the layers above
its own in the table, and from its own layer.
"""

from __future__ import annotations

import ast
import pathlib
import subprocess
import sys
from functools import cache

import pytest

import semilocal

ROOT = pathlib.Path(semilocal.__file__).parent

LAYERS = [
    {"errors"},
    {"domain", "tails", "intervals", "function_checks", "rectangle_index"},
    {"hierarchy", "functions", "rectangles", "weights"},
    {"randomizer", "release.layout", "release.window", "release.unit", "release.mechanism"},  # noise, and its price
    {"protocol"},
    {"accounting", "partition"},
    {"run"},
    {"simulate"},
    {"release"},
]
# Whole packages that only the outermost layers may know.
OUTER = {"service", "device", "engines", "experiments", "cli", "audit", "sklearn", "baselines", "planner", "verify"}
# What a protocol without clock, socket, file and random generator has no use for.
WORLD = {
    "asyncio", "datetime", "glob", "http", "io", "logging", "multiprocessing", "os", "pathlib", "random", "secrets",
    "select", "selectors", "shutil", "signal", "socket", "sqlite3", "ssl", "subprocess", "tempfile", "threading",
    "time", "urllib", "uuid",
}  # fmt: skip
PURE = ["domain", "hierarchy", "tails", "weights", "randomizer", "partition", "run", "simulate", "protocol"]
LIGHT = {"numpy", "scipy", "msgspec", "semilocal"}


def modules() -> dict[str, pathlib.Path]:
    """Dotted names inside the package and their files."""
    out = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        out[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return out


MODULES = modules()


@cache
def nodes(name: str) -> tuple[ast.AST, ...]:
    """All nodes of a module but those that only type checkers see."""
    pending: list[ast.AST] = [ast.parse(MODULES[name].read_text(encoding="utf-8"))]
    out = []
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending.extend(node.orelse)
            continue
        out.append(node)
        pending.extend(ast.iter_child_nodes(node))
    return tuple(out)


def absolute(name: str, node: ast.AST) -> list[str]:
    """Dotted names that an import statement imports; those inside the package begin with ``semilocal``."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = node.module or ""
    if node.level:
        package = ["semilocal", *name.split(".")] if name else ["semilocal"]
        if MODULES[name].name != "__init__.py":
            package = package[:-1]
        package = package[: len(package) - node.level + 1]
        base = ".".join([*package, base] if base else package)
    joined = [f"{base}.{alias.name}" for alias in node.names]
    inside = [full for full in joined if full.removeprefix("semilocal.") in MODULES]
    return inside or [base]


def imports(name: str) -> set[str]:
    return {target for node in nodes(name) for target in absolute(name, node)}


def own_imports(name: str) -> set[str]:
    """Modules of the package that a module imports, without the package's name."""
    inside = [target for target in imports(name) if target.split(".")[0] == "semilocal"]
    return {target.removeprefix("semilocal").lstrip(".") for target in inside}


def layer_of(name: str) -> int | None:
    """Layer of the longest prefix in the table."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        prefix = ".".join(parts[:length])
        for index, layer in enumerate(LAYERS):
            if prefix in layer:
                return index
    return None


CORE = [name for name in MODULES if name and layer_of(name) is not None]


def wrong_directions(name: str, targets: set[str]) -> list[str]:
    own = layer_of(name)
    assert own is not None
    return sorted(target for target in targets if (layer := layer_of(target)) is None or layer > own)


@pytest.mark.parametrize("name", CORE)
def test_the_core_imports_only_from_layers_above_its_own(name: str) -> None:
    assert wrong_directions(name, own_imports(name)) == []


def test_a_wrong_direction_would_be_seen() -> None:
    assert wrong_directions("hierarchy", {"domain", "simulate"}) == ["simulate"]
    assert wrong_directions("protocol.rule", {"protocol.task", "partition", "service"}) == ["partition", "service"]
    assert "protocol.task" in own_imports("protocol.rule")
    assert "domain" in own_imports("hierarchy")
    assert "protocol.messages" in own_imports("simulate") | own_imports("run")


def test_the_table_names_modules_that_exist() -> None:
    for layer in LAYERS:
        for name in layer:
            assert name in MODULES, name


@pytest.mark.parametrize("name", [name for name in MODULES if name.split(".")[0] in PURE])
def test_the_core_knows_no_clock_socket_file_or_random_generator(name: str) -> None:
    assert {target.split(".")[0] for target in imports(name)} & WORLD == set()
    for node in nodes(name):
        if isinstance(node, ast.Attribute) and ast.unparse(node).startswith(("np.random.", "numpy.random.")):
            # A generator is an argument: its type may be named, nothing may be drawn from the module.
            assert node.attr == "Generator", ast.unparse(node)
            assert not name.startswith("protocol"), ast.unparse(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
            assert name == "partition"  # save_geojson


@pytest.mark.parametrize("name", [name for name in MODULES if name.split(".")[0] not in OUTER])
def test_no_inner_module_uses_the_global_random_state(name: str) -> None:
    state = {"seed", "rand", "randn", "randint", "random", "choice", "shuffle", "normal", "uniform", "laplace"}
    for node in nodes(name):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("np.random", "numpy.random"):
            assert node.attr not in state, ast.unparse(node)
    assert "random" not in {target.split(".")[0] for target in imports(name)}


@pytest.mark.parametrize("outer", ["service", "device"])
def test_server_and_device_do_not_know_each_other(outer: str) -> None:
    other = "device" if outer == "service" else "service"
    for name in MODULES:
        if name.split(".")[0] == outer:
            assert {target.split(".")[0] for target in own_imports(name)}.isdisjoint({other, "experiments"}), name


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    """Follows the imports that run when a module is loaded; a package stands for its ``__init__``."""
    loads = {}
    for name, path in MODULES.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        targets = {target for node in tree.body for target in absolute(name, node)}
        inside = {target.removeprefix("semilocal").lstrip(".") for target in targets if target.startswith("semilocal")}
        loads[name] = {target for target in inside if target in MODULES and target}
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join([*path, name])
        if name in done:
            return
        for target in loads[name]:
            visit(target, (*path, name))
        done.add(name)

    for name in loads:
        if name:
            visit(name, ())


# -- a fresh process -----------------------------------------------------------------------------------------------


def fresh(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_importing_the_package_pulls_in_nothing_but_its_three_dependencies() -> None:
    listing = "import sys; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    alone = set(fresh(f"import numpy, scipy, msgspec; {listing}").split())
    loaded = set(fresh(f"import semilocal; {listing}").split())
    strangers = {name for name in loaded - alone - set(sys.stdlib_module_names) if name not in LIGHT}
    assert strangers == set()
    assert loaded.isdisjoint({"matplotlib", "sklearn", "pandas", "pyarrow", "starlette", "httpx", "cryptography"})


def test_importing_the_package_takes_at_most_0_3_seconds() -> None:
    """Time of the processor, the best of several, so that a busy machine or a cold disk does not count."""
    code = "import time; start = time.process_time(); import semilocal; print(time.process_time() - start)"
    best = float("inf")
    for _ in range(8):
        best = min(best, float(fresh(code)))
        if best <= 0.3:
            break
    assert best <= 0.3


def test_the_public_names_are_there() -> None:
    for name in semilocal.__all__:
        assert hasattr(semilocal, name)
    core = {"Box", "BinaryTree", "Quadtree", "RandomizedResponse", "DiscreteLaplace", "PaperLaplace"}
    assert core | {"Task", "simulate", "Run", "Partition", "Participant", "Curator"} <= set(semilocal.__all__)
