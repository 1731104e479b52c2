"""Types are made known to msgspec while modules are loaded, not by threads.

What msgspec builds at the first use of a type is not safe between threads: two workers' threads that read a campaign
for the first time at the same moment crashed a server (a segmentation fault, about once in 450 starts under load).
"""

from __future__ import annotations

import ast
import re

from tests.helpers.sources import with_text

# Called by the event loop only: one thread.
ALLOWED = {"service.http": {"decode_form"}}


def late_types(node: ast.AST) -> set[str]:
    """Functions that name a type in a call of msgspec's ``decode`` or ``convert``, or make a decoder."""
    found = set()
    for function in ast.walk(node):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for call in ast.walk(function):
                if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                    continue
                with_type = any(word.arg == "type" for word in call.keywords)
                if (call.func.attr in ("decode", "convert") and with_type) or call.func.attr == "Decoder":
                    found.add(function.name)
    return found


def test_the_service_names_no_type_in_a_thread() -> None:
    modules = with_text(re.compile(r"\b(decode|convert|Decoder)\b"))
    service = [name for name in modules if name.startswith("service.")]
    assert "service.stores.base" in service
    found = {name: late for name in service if (late := late_types(modules[name]) - ALLOWED.get(name, set()))}
    assert found == {}


def test_a_type_that_is_named_late_is_found() -> None:
    planted = "def read(body):\n    return msgspec.msgpack.decode(body, type=Campaign)\n"
    assert late_types(ast.parse(planted)) == {"read"}
    assert late_types(ast.parse("def make():\n    return msgspec.msgpack.Decoder(Campaign)\n")) == {"make"}
    assert late_types(ast.parse("read = msgspec.msgpack.Decoder(Campaign).decode\n")) == set()
