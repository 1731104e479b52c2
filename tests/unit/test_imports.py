"""What may import what: data and imports go one way only, and importing the package is cheap.

Read from the syntax trees, so that nothing has to be installed. A module of the core may import from the layers above
its own in the table, and from its own layer.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

import semilocal
from tests.helpers.sources import MODULES, tree

# Lowest first. Every module is in one of these packages, or is one of these root modules. It may import from lower
# layers and, without cycles between packages, from its own.
LAYERS = [
    {"errors", "arrays", "outputs", "tabular", "whole_file", "words"},
    {"geometry"},
    {"hierarchy", "functions", "randomizer"},
    {"protocol", "pooled", "accounting"},
    {"sharing", "transcript", "simulation", "engines"},
    {"release", "io", "datasets"},
    {"service", "device"},
    {"duckdb", "lab", "sklearn", "spark", "testing"},
    {"page"},
    {"cli"},
]
TO_COME: set[str] = set()  # named by the design, not there yet
FRONT = {"", "__main__"}  # the package's own front doors: they may import everything
# What a protocol without clock, socket, file and random generator has no use for.
WORLD = {
    "asyncio", "datetime", "glob", "http", "io", "logging", "multiprocessing", "os", "pathlib", "random", "secrets",
    "select", "selectors", "shutil", "signal", "socket", "sqlite3", "ssl", "subprocess", "tempfile", "threading",
    "time", "urllib", "uuid",
}  # fmt: skip
PURE = {"geometry", "hierarchy", "randomizer", "protocol", "pooled", "sharing", "simulation"}
CORE = {"accounting", "arrays", "errors", "outputs", "tabular", "functions", "release", "pooled", *PURE}
LIGHT = {"numpy", "scipy", "msgspec", "semilocal"}


@cache
def nodes(name: str) -> tuple[ast.AST, ...]:
    """All nodes of a module but those that only type checkers see."""
    pending: list[ast.AST] = [tree(name)]
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


@cache
def imports(name: str) -> set[str]:
    return {target for node in nodes(name) for target in absolute(name, node)}


def own_imports(name: str) -> set[str]:
    """Modules of the package that a module imports or names in a string, without the package's name."""
    inside = [target for target in imports(name) if target.split(".")[0] == "semilocal"]
    return {target.removeprefix("semilocal").lstrip(".") for target in inside} | named_in_strings(nodes(name))


def named_in_strings(found: Iterable[ast.AST]) -> set[str]:
    """Modules of the package that texts name, such as "semilocal.io.regions": an import that no statement shows."""
    texts = [node.value for node in found if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    dotted = [part.rstrip(".") for text in texts for part in re.findall(r"^semilocal\.([a-z_.]+)", text)]
    return {part for part in dotted if part in MODULES}


def package_of(name: str) -> str:
    return name.split(".")[0]


def layer_of(name: str) -> int | None:
    found = [index for index, layer in enumerate(LAYERS) if package_of(name) in layer]
    assert len(found) <= 1, f"{name} is in two layers"
    return found[0] if found else None


def wrong_directions(name: str, targets: set[str]) -> list[str]:
    own = layer_of(name)
    assert own is not None
    return sorted(target for target in targets if (layer := layer_of(target)) is None or layer > own)


INSIDE = [name for name in MODULES if name not in FRONT]


def test_every_module_has_a_layer_and_imports_only_downwards() -> None:
    assert [name for name in INSIDE if layer_of(name) is None] == [], "give their packages a layer"
    assert {name: wrong for name in INSIDE if (wrong := wrong_directions(name, own_imports(name)))} == {}


def test_a_wrong_direction_would_be_seen() -> None:
    assert wrong_directions("hierarchy.dyadic", {"geometry.box", "simulation.simulate"}) == ["simulation.simulate"]
    assert wrong_directions("protocol.rule", {"protocol.task", "release", "nowhere", ""}) == ["", "nowhere", "release"]
    assert "protocol.task" in own_imports("protocol.rule")
    assert "geometry.box" in own_imports("hierarchy.dyadic")


def test_an_import_by_a_string_would_be_seen() -> None:
    text = 'import_module("semilocal.io.regions").a(); import_module(f"semilocal.page.{name}"); "semilocal.toml"'
    assert named_in_strings(ast.walk(ast.parse(text))) == {"io.regions", "page"}
    relative = [name for name in INSIDE if name != "device" and any(map(by_relative_string, nodes(name)))]
    assert relative == [], "write an import statement, or register it from above"


def by_relative_string(node: ast.AST) -> bool:
    """Whether this is a call such as ``import_module(".tables", __name__)``."""
    if not isinstance(node, ast.Call) or "import_module" not in ast.unparse(node.func) or not node.args:
        return False
    return ast.unparse(node.args[0]).lstrip("f").startswith(("'.", '".'))


def test_the_table_names_packages_that_exist() -> None:
    named = set().union(*LAYERS)
    there = {package_of(name) for name in INSIDE}
    assert there <= named
    assert named - there <= TO_COME
    assert there.isdisjoint(TO_COME), "it has come: take it out of TO_COME"


def test_packages_do_not_depend_on_each_other_in_a_circle() -> None:
    edges = {
        package: {package_of(t) for n in INSIDE if package_of(n) == package for t in own_imports(n)} - {package}
        for package in {package_of(name) for name in INSIDE}
    }
    assert circle(edges) == []


def circle(edges: dict[str, set[str]]) -> list[str]:
    """A path that returns to where it began, or nothing."""

    def walk(node: str, path: list[str]) -> list[str]:
        if node in path:
            return [*path[path.index(node) :], node]
        for target in sorted(edges.get(node, ())):
            if found := walk(target, [*path, node]):
                return found
        return []

    return next((found for node in sorted(edges) if (found := walk(node, []))), [])


def test_a_circle_would_be_seen() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) == ["a", "b", "c", "a"]
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) == []


def test_tests_and_benchmarks_do_not_change_where_python_looks_for_modules() -> None:
    changes = re.compile(r"sys\.path(\.insert|\.append|\.extend|\[.*\]\s*=|\s*\+?=)")
    assert changes.search('sys.path[:0] = ["src"]')
    repository = Path(__file__).parents[2]
    scripts = [path for folder in ("tests", "bench", "spec") for path in (repository / folder).rglob("*.py")]
    found = {path.name for path in scripts if path != Path(__file__) and changes.search(path.read_text())}
    assert found == set(), "run it with python -m from the root of the repository"


def drawn(name: str) -> set[str]:
    """What a module uses of numpy's module of random numbers, and of the standard library's."""
    attributes = [node for node in nodes(name) if isinstance(node, ast.Attribute)]
    owners = [ast.unparse(node.value) if dotted(node.value) else "" for node in attributes]
    found = zip(attributes, owners, strict=True)
    return {f"{owner}.{node.attr}" for node, owner in found if owner in ("np.random", "numpy.random", "random")}


def dotted(node: ast.AST) -> bool:
    """Whether a node is a name such as ``np.random``; the others are not worth writing out."""
    return isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name))


def opens(name: str) -> bool:
    calls = [node.func for node in nodes(name) if isinstance(node, ast.Call)]
    return any(isinstance(called, ast.Name) and called.id == "open" for called in calls)


def test_the_core_knows_no_clock_socket_file_or_random_generator() -> None:
    for name in INSIDE:
        if package_of(name) in PURE:
            assert {target.split(".")[0] for target in imports(name)} & WORLD == set(), name
            # A generator is an argument: its type may be named, nothing may be drawn from the module.
            assert drawn(name) <= (set() if package_of(name) == "protocol" else {"np.random.Generator"}), name
            assert not opens(name), name


def test_no_module_uses_the_global_random_state() -> None:
    state = {"seed", "rand", "randn", "randint", "random", "choice", "shuffle", "normal", "uniform", "laplace"}
    for name in INSIDE:
        for used in drawn(name):
            owner, _, attribute = used.rpartition(".")
            assert attribute not in state, (name, used)
            assert owner != "random" or attribute == "SystemRandom", (name, used)  # the system's, for jitter


def test_a_draw_from_a_random_module_would_be_seen() -> None:
    assert "np.random.default_rng" in drawn("testing.campaign")
    assert opens("io.saved")


@pytest.mark.parametrize("outer", ["service", "device"])
def test_server_and_device_do_not_know_each_other(outer: str) -> None:
    other = "device" if outer == "service" else "service"
    for name in MODULES:
        if name.split(".")[0] == outer:
            assert {target.split(".")[0] for target in own_imports(name)}.isdisjoint({other, "lab"}), name


def test_only_the_command_line_opens_the_lab() -> None:
    """What releases, serves or draws depends on nothing that compares and reproduces."""
    openers = {package_of(name) for name in MODULES if any(package_of(t) == "lab" for t in own_imports(name))}
    assert openers <= {"lab", "cli"}


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    """Follows the imports that run when a module is loaded; a package stands for its ``__init__``."""
    loads = {}
    for name in MODULES:
        targets = {target for node in tree(name).body for target in absolute(name, node)}
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
    assert loaded.isdisjoint({"matplotlib", "sklearn", "pandas", "pyarrow", "starlette", "httpx2", "cryptography"})


def test_importing_the_package_loads_the_core_alone() -> None:
    """What is not loaded takes no time; the time itself is measured by bench/bench_parts.py."""
    loaded = set(fresh("import semilocal, sys; print(*sys.modules)").split())
    assert {package_of(name.removeprefix("semilocal.")) for name in loaded if name.startswith("semilocal.")} <= CORE
    assert {
        name for name in loaded if name.split(".")[0] in ("scipy", "asyncio", "sqlite3", "multiprocessing")
    } == set()


def test_the_public_names_are_there() -> None:
    for name in semilocal.__all__:
        assert hasattr(semilocal, name)
    core = {"Box", "BinaryTree", "Quadtree", "RandomizedResponse", "DiscreteLaplace", "PaperLaplace"}
    assert core | {"Task", "simulate", "Run", "Partition", "Participant", "Curator"} <= set(semilocal.__all__)
