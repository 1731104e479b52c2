"""Replays spec/vectors/values.json: by the package, and by the second client, written from the text alone."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
import reference_client as reference
import reference_values

from semilocal import Participant, Policy, Task
from semilocal.errors import InvalidInput, ServerViolation
from semilocal.hierarchy.dyadic import BinaryTree, Quadtree
from semilocal.protocol import keys
from semilocal.protocol.column import Column
from semilocal.protocol.messages import ValueClosed, ValueQuery, ValueReport, decode, decode_event, encode
from semilocal.protocol.plan import Plan, Release
from semilocal.protocol.values import unit_values
from semilocal.randomizer.values.mechanisms import AnyMechanism, TwoPoint
from semilocal.testing import ALLOW_ALL
from tests.unit.protocol.test_vectors import (
    SPEC,
    Json,
    load,
    named,
    refuses_the_message,
    refuses_the_second_report,
    replayed,
    task_fields,
)

VALUES = load("values")
KINDS: dict[str, Any] = {
    "plan": Plan, "value-query": ValueQuery, "value-report": ValueReport, "value-closed": ValueClosed,
}  # fmt: skip


def test_every_token_of_section_15_has_a_vector_and_every_vector_a_token() -> None:
    text = (SPEC / "protocol.md").read_text(encoding="utf-8")
    section = text[text.index("## 15. ") : text.index("## 16. ")]
    listed = {line.split("`")[1] for line in section.splitlines() if line.startswith("| `")}
    used = {entry["token"] for part in ("joining", "messages", "reports") for entry in VALUES[part]}
    assert listed == used


# -- single steps ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", VALUES["scaled"])
def test_positions_and_scaled_values(entry: Json) -> None:
    mine, theirs = msgspec.convert(entry["hierarchy"], BinaryTree | Quadtree), reference.Tree(entry["hierarchy"])
    points = np.array(entry["points"])
    boxes = mine.boxes(np.full(len(points), entry["region"], dtype=np.uint64))
    for row in entry["functions"]:
        name, numbers = row["function"], row["parameters"]
        f = Release("values", TwoPoint(1.0), name, tuple(numbers)).build()
        # The machine's e^x may differ from the correctly rounded one in the last place; nothing else may.
        for got, listed in (
            (f.range_over(boxes[:1])[0].tolist(), row["range"]),
            (f(points).tolist(), row["values"]),
            (unit_values(f, points, boxes).unit.tolist(), row["scaled"]),
        ):
            assert got == (listed if name != "gaussian_bump" else pytest.approx(listed, rel=1e-12, abs=1e-15))
        lower, upper = boxes[0].tolist()
        ranges = reference_values.function_range(name, numbers, lower, upper)
        values = [reference_values.function_value(name, numbers, point) for point in entry["points"]]
        scaled = [
            reference_values.scaled_value(theirs, entry["region"], [None, None, name, numbers], point)
            for point in entry["points"]
        ]
        for got, listed in ((list(ranges), row["range"]), (values, row["values"]), (scaled, row["scaled"])):
            assert got == listed


def test_own_values_are_scaled_or_refused() -> None:
    entry = VALUES["own"]
    task, plan = decode(bytes.fromhex(entry["task"]), Task), decode(bytes.fromhex(entry["plan"]), Plan)
    raw = msgspec.msgpack.decode(encode(plan))
    column = plan.releases[0].build()
    assert isinstance(column, Column)
    tree = reference.Tree(msgspec.to_builtins(task.hierarchy))
    for value, scaled in zip(entry["values"], entry["scaled"], strict=True):
        assert unit_values(column.of([value]), np.array([[0.3]]), task.hierarchy.boxes([1])).unit[0] == scaled
        assert reference_values.scaled_value(tree, 1, raw[2][0], [0.3], value) == scaled
        assert reference_values.takes_value(raw, value)
        assert Participant(task, [0.3], bytes(32), ALLOW_ALL, plan=plan, value=value).state.phase == "waiting"
    for row in entry["refused"]:
        pinned = decode(bytes.fromhex(row["plan"]), Plan)
        assert not reference_values.takes_value(msgspec.msgpack.decode(encode(pinned)), row["value"])
        with pytest.raises(InvalidInput, match="value"):
            Participant(task, [0.3], bytes(32), ALLOW_ALL, plan=pinned, value=row["value"])


@pytest.mark.parametrize(
    "entry", VALUES["mechanisms"], ids=lambda entry: "-".join(map(str, entry["mechanism"].values()))
)
def test_outputs_of_mechanisms(entry: Json) -> None:
    fields = entry["mechanism"]
    mechanism: AnyMechanism = msgspec.convert(fields, AnyMechanism)
    ends = entry["smallest"], entry["largest"]
    assert (mechanism.alphabet.start, mechanism.alphabet.stop - 1) == reference_values.alphabet(fields) == ends
    for step, texts, listed in entry["outputs"]:
        words = [int(text) for text in texts]
        entropy = b"".join(word.to_bytes(8, "big") for word in words)
        assert mechanism.release_one(step / 2**20, entropy) == listed
        assert reference_values.output(fields, step / 2**20, words) == listed


def test_entropy_of_values() -> None:
    entry = VALUES["entropy"]
    secret, task, plan = (bytes.fromhex(entry[name]) for name in ("secret", "task", "plan"))
    for row in entry["values"]:
        key = secret, task, plan, row["index"], int(row["region"]), row["words"]
        assert keys.value_entropy(*key).hex() == row["entropy"]
        assert b"".join(w.to_bytes(8, "big") for w in reference_values.value_words(*key)).hex() == row["entropy"]


# -- whole campaigns ---------------------------------------------------------------------------------------------


def test_the_plays_cover_functions_mechanisms_and_events() -> None:
    seen = set()
    for entry in VALUES["plays"]:
        releases = entry["plan"][2]
        seen |= {release[0] for release in releases} | {release[2] for release in releases if release[2]}
        seen |= {release[1]["type"] for release in releases if release[1]}
        seen |= {entry["task"]["rule"], "moved" if any(p["moves"] for p in entry["participants"]) else "stayed"}
        seen |= {"lost"} if any(p["region"] is None for p in entry["participants"]) else set()
    kinds = {"mean", "values", "counts", "points", "trim", "each", "moved", "stayed", "lost"}
    functions = {"coordinate", "squared_norm", "gaussian_bump", "linear", "indicator", "own:Fahrpreis in €"}
    mechanisms = {"two-point", "piecewise", "hybrid", "sliding-window", "discrete-laplace"}
    assert seen == kinds | functions | mechanisms


@pytest.mark.parametrize("entry", named(VALUES["plays"]))
def test_the_machines_replay_a_campaign(entry: Json) -> None:
    task = decode(reference.pack(task_fields(entry["task"])), Task)
    plan = decode(bytes.fromhex(entry["bytes"]), Plan)
    assert plan.digest.hex() == entry["digest"]
    ends = [(person.region, person.moves) for person in replayed(entry, task, plan)]
    assert ends == [(p["region"], p["moves"]) for p in entry["participants"]]


@pytest.mark.parametrize("entry", named(VALUES["plays"]))
def test_the_second_client_replays_a_campaign(entry: Json) -> None:
    """Nothing but the text of the specification, the standard library and the vectors."""
    fields, raw = task_fields(entry["task"]), entry["plan"]
    plan = [raw[0], bytes.fromhex(raw[1]), raw[2]]
    assert reference.pack(plan).hex() == entry["bytes"]
    people = [reference.Device(fields, p["point"], bytes.fromhex(p["secret"])) for p in entry["participants"]]
    own = {person.pseudonym: p.get("value") for person, p in zip(people, entry["participants"], strict=True)}
    asked = [index for index, release in enumerate(raw[2]) if release[1] is not None]
    events, values = [reference.pack(fields)], 0
    for played in entry["rounds"]:
        number, missing = played["round"], entry["missing"].get(str(played["round"]), [])
        there = sorted((p for i, p in enumerate(people) if i not in missing), key=lambda p: p.pseudonym)
        query = msgspec.msgpack.decode(bytes.fromhex(played["query"]))
        closed = msgspec.msgpack.decode(bytes.fromhex(played["closed"]))
        if query[0] == "query":
            reports = [reference.pack(p.report()) for p in there if not (p.finished or p.lost)]
            for person in people:
                person.follow(*closed[3:])
        else:
            events += [reference.pack(plan)] if not values else []
            index, values = asked[values], values + 1
            assert query[1:] == [people[0].id, number, bytes.fromhex(entry["digest"]), index]
            finished = [p for p in there if p.finished]
            given = [reference_values.value_report(p, plan, index, number, own[p.pseudonym]) for p in finished]
            reports = [reference.pack(report) for report in given]
            cells = sorted({report[4] for report in given})
            counts = []
            for cell in cells:
                outputs = [report[5] for report in given if report[4] == cell]
                counts.append([[output, outputs.count(output)] for output in sorted(set(outputs))])
            assert closed == ["value-closed", people[0].id, number, query[3], index, cells, counts]
        assert [report.hex() for report in reports] == [data for _, _, _, data in played["reports"]]
        events += [bytes.fromhex(played["query"]), *reports, bytes.fromhex(played["closed"])]
    assert values == len(asked)
    assert reference.merkle_tree_hash(events).hex() == entry["root"]


# -- refusals ----------------------------------------------------------------------------------------------------


def vector_task(name: str) -> tuple[Task, Plan]:
    return decode(bytes.fromhex(VALUES["tasks"][name]["bytes"]), Task), decode(
        bytes.fromhex(VALUES["plan"][name]), Plan
    )


@pytest.mark.parametrize("entry", named(VALUES["joining"]))
def test_a_device_refuses_to_pin_a_plan(entry: Json) -> None:
    task, legal = vector_task(entry["task"])
    plan, policy = decode(bytes.fromhex(entry["plan"]), Plan), msgspec.convert(entry["policy"], Policy)
    with pytest.raises(ServerViolation) as caught:
        Participant(task, [0.5], bytes(32), policy, plan=plan)
    assert caught.value.token == entry["token"]
    assert Participant(task, [0.5], bytes(32), ALLOW_ALL, plan=legal).state.phase == "waiting"


@pytest.mark.parametrize("entry", named(VALUES["messages"]))
def test_a_device_refuses_a_message_about_values_and_goes_on(entry: Json) -> None:
    refuses_the_message(entry, *vector_task(entry["task"]))


@pytest.mark.parametrize("entry", named(VALUES["reports"]))
def test_a_server_refuses_a_value_and_goes_on(entry: Json) -> None:
    refuses_the_second_report(entry, *vector_task(entry["task"]))


@pytest.mark.parametrize("entry", named(VALUES["malformed"]))
def test_malformed_bytes_are_no_message_about_values(entry: Json) -> None:
    with pytest.raises(InvalidInput, match=f"a {KINDS[entry['kind']].__name__}"):
        decode(bytes.fromhex(entry["bytes"]), KINDS[entry["kind"]])


def test_the_good_messages_about_values_are_fine() -> None:
    for name, data in VALUES["good"].items():
        assert encode(decode(bytes.fromhex(data), KINDS[name])).hex() == data
        assert type(decode_event(bytes.fromhex(data))) is KINDS[name]
