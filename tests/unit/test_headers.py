"""What a module says that it does not know, it does not import.

A header that says "Knows no ..." lists words of the vocabulary below. Each word stands for modules, and the module must
import none of them. A word that is not here has no meaning that a test could check: add it, or say it another way.
"""

from __future__ import annotations

import ast
import re

import pytest

from tests.unit.test_imports import INSIDE, MODULES, imports, nodes

FILES = {"pathlib", "os", "shutil", "tempfile", "glob", "gzip", "open"}
NETWORK = {"socket", "ssl", "select", "selectors", "http", "httpx", "urllib", "uvicorn"}
HTTP = {"http", "httpx", "starlette", "uvicorn", "urllib", "service.http", "service.problems", "service.routes"}
DATABASES = {"sqlite3", "psycopg", "service.stores"}
RANDOM = {"random", "secrets", "numpy.random"}  # drawing from numpy's module; a generator may be an argument
MECHANISMS = {"randomizer", "baselines", "pooled.noise"}
# Word in the plural or as it is used -> what may not be imported: our modules without "semilocal.", or others.
VOCABULARY: dict[str, set[str]] = {
    "HTTP": HTTP,
    "SQL": {"sqlite3", "psycopg", "service.stores.sql"},
    "answers": {"protocol.tally", "randomizer"},
    "arguments of the command line": {"argparse"},
    "campaign": {"service.campaign", "service.rounds"},
    "campaigns": {"service.campaign", "service.rounds"},
    "cells": {"hierarchy"},
    "clock": {"time", "datetime"},
    "clocks": {"time", "datetime"},
    "counts": {"geometry.index", "io.points"},
    "crowds": {"protocol.rule", "protocol.partition"},
    "data": {"io.points", "simulation.synthetic", "datasets", "experiments.datasets"},
    "database": DATABASES,
    "databases": DATABASES,
    "domain": {"geometry.box"},
    "entropy": {"protocol.keys", *RANDOM},
    "estimates": {"protocol.estimates", "pooled.estimate", "release"},
    "events": {"transcript.file"},
    "figure": {"experiments.figures", "matplotlib"},
    "file": FILES,
    "files": FILES,
    "formats": {"csv", "json", "msgspec", "pyarrow"},
    "function": {"functions"},
    "functions": {"functions"},
    "geometry": {"geometry"},
    "hierarchy": {"hierarchy"},
    "mechanism": MECHANISMS,
    "mechanisms": MECHANISMS,
    "messages": {"protocol.messages"},
    "method": {"experiments.methods", "experiments.ways", "baselines"},
    "moves": {"protocol.moves", "release._moves"},
    "noise": {"randomizer", "pooled.noise", *RANDOM},
    "participants": {"protocol.participant", "device.agent", "device.vault"},
    "partition": {"protocol.partition"},
    "peer": {"service", "device", *NETWORK},
    "peers": {"service", "device", *NETWORK},
    "positions": {"io.points", "simulation.population", "simulation.synthetic", "protocol.participant"},
    "process": {"multiprocessing", "subprocess", "concurrent"},
    "protocol": {"protocol"},
    "pseudonyms": {"protocol.keys"},
    "queries": {"release.boxes"},
    "random generator": RANDOM,
    "randomness": RANDOM,
    "regions": {"protocol.partition"},
    "reports": {"protocol.messages", "protocol.tally", "sharing.report"},
    "requests": HTTP,
    "retries": {"device.channel"},
    "rounds": {"protocol.curator"},
    "route": {"service.routes", "starlette"},
    "routes": {"service.routes"},
    "rule": {"protocol.rule", "pooled.rule"},
    "secrets": {"protocol.keys", "device.vault", "secrets"},
    "server": {"service", *NETWORK},
    "socket": NETWORK,
    "sockets": NETWORK,
    "states": {"sharing.evaluate"},
    "state of a run": {"simulation", "protocol.curator"},
    "store": DATABASES,
    "tallies": {"protocol.tally"},
    "task": {"protocol.task", "pooled.task"},
    "tree": {"hierarchy"},
    "verdicts": {"protocol.rule"},
}  # fmt: skip


def unknown_things(name: str) -> list[str]:
    """The words after "Knows no" in the header of a module."""
    header = " ".join((ast.get_docstring(ast.parse(MODULES[name].read_text(encoding="utf-8"))) or "").split())
    found = re.findall(r"Knows no ([^.;:(]*)", header)
    return [word.strip() for phrase in found for word in re.split(r",? (?:and|or) (?:no )?|, (?:no )?", phrase)]


def known_things(name: str) -> set[str]:
    """Everything that a module imports, with the packages above; ``open`` and ``numpy.random`` where they are used."""
    found = {target.removeprefix("semilocal.") for target in imports(name)}
    for node in nodes(name):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "open":
            found.add("open")
        if isinstance(node, ast.Attribute) and re.match(r"(np|numpy)\.random\.(?!Generator)", ast.unparse(node)):
            found.add("numpy.random")
    return {".".join(full.split(".")[:size]) for full in found for size in range(1, full.count(".") + 2)}


@pytest.mark.parametrize("name", INSIDE)
def test_a_module_does_not_import_what_its_header_says_it_does_not_know(name: str) -> None:
    for word in unknown_things(name):
        assert word in VOCABULARY, f"{name}: add {word!r} to the vocabulary, or reword the header"
        assert VOCABULARY[word] & known_things(name) == set(), f"{name} says: Knows no {word}"


@pytest.mark.parametrize("name", INSIDE)
def test_headers_deny_in_one_way_that_can_be_checked(name: str) -> None:
    header = ast.get_docstring(ast.parse(MODULES[name].read_text(encoding="utf-8"))) or ""
    assert header, f"{name} has no docstring"
    assert not re.search(r"Must not|[Kk]nows nothing|knows no ", " ".join(header.split())), (
        f"{name}: say 'Knows no ...'"
    )


def test_a_false_header_would_be_seen() -> None:
    assert "HTTP" in unknown_things("service.admin")
    assert {"socket", "sockets"} & set(unknown_things("device.agent"))
    assert VOCABULARY["HTTP"] & known_things("service.routes.table")
    assert VOCABULARY["files"] & known_things("device.disk")
    assert VOCABULARY["mechanism"] & known_things("audit.exact")
