"""Replays spec/vectors/: by the package, and by a second client that was written from spec/protocol.md alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import make_vectors
import msgspec
import numpy as np
import pytest
import reference_client as reference
from vector_common import lay_out

from semilocal import Closed, Curator, Participant, Policy, Query, Report, Task
from semilocal.errors import DeviceViolation, InvalidInput, ServerViolation
from semilocal.hierarchy import AnyTree, BinaryTree, Quadtree
from semilocal.protocol import keys
from semilocal.protocol.curator import count_reports
from semilocal.protocol.messages import Event, ValueQuery, decode, decode_closed, decode_event, decode_report, encode
from semilocal.protocol.plan import Plan
from semilocal.protocol.rule import decide, frontier_at
from semilocal.randomizer import DiscreteLaplace, PaperLaplace, RandomizedResponse
from semilocal.testing import ALLOW_ALL
from semilocal.transcript.merkle import leaf_hash, merkle_root, transcript_root

SPEC = Path(__file__).parents[3] / "spec"
Json = Any


def load(name: str) -> Json:
    return json.loads((SPEC / "vectors" / f"{name}.json").read_text(encoding="utf-8"))


TABLES, PLAYS, REFUSALS, MALFORMED = (load(name) for name in ("tables", "plays", "refusals", "malformed"))
KINDS: dict[str, Any] = {"task": Task, "query": Query, "report": Report, "closed": Closed}


def named(entries: list[Json]) -> list[Any]:
    return [pytest.param(entry, id=entry["name"]) for entry in entries]


def task_fields(task: Json) -> dict[str, Any]:
    """The fields as the protocol has them: JSON has no bytes."""
    return {**task, "server_key": bytes.fromhex(task["server_key"])}


def read(data: str) -> Any:
    """A message of the server, by its tag."""
    return decode_event(bytes.fromhex(data))


def randomizer(fields: Json) -> RandomizedResponse | DiscreteLaplace | PaperLaplace:
    return msgspec.convert(fields, RandomizedResponse | DiscreteLaplace | PaperLaplace)


def tree(fields: Json) -> BinaryTree | Quadtree:
    return msgspec.convert(fields, BinaryTree | Quadtree)


# -- the files ---------------------------------------------------------------------------------------------------


def exponentials(content: Json) -> list[float]:
    """Take out the values of e^x: those of one library or processor may differ from another's in the last place."""
    rows = (row for entry in content.get("scaled", ()) for row in entry["functions"])
    bumps = [row for row in rows if row["function"] == "gaussian_bump"]
    return [number for row in bumps for part in ("range", "values", "scaled") for number in row.pop(part)]


@pytest.mark.slow
def test_the_committed_vectors_are_what_the_generator_writes() -> None:
    built = make_vectors.build()
    assert set(built) == {path.name for path in (SPEC / "vectors").iterdir()}
    for name, text in built.items():
        committed = (SPEC / "vectors" / name).read_text(encoding="utf-8")
        found, listed = json.loads(text), json.loads(committed)
        assert lay_out(listed) + "\n" == committed, f"{name}: run python spec/make_vectors.py"
        assert exponentials(found) == pytest.approx(exponentials(listed), rel=1e-12, abs=1e-15)
        assert found == listed, f"{name}: run python spec/make_vectors.py"


def test_every_token_of_the_specification_has_a_vector_and_every_vector_a_token() -> None:
    """The tables of section 12 and 13 list exactly the tokens that the vectors use."""
    text = (SPEC / "protocol.md").read_text(encoding="utf-8")
    sections = text[text.index("## 12. The device") : text.index("## 14. The transcript")]
    listed = {line.split("`")[1] for line in sections.splitlines() if line.startswith("| `")}
    used = {entry["token"] for part in ("joining", "messages", "reports") for entry in REFUSALS[part]}
    assert listed == used


def test_every_token_in_the_machines_has_a_vector() -> None:
    source = SPEC.parent / "src" / "semilocal" / "protocol"
    quoted = set()
    for module in ("participant", "policy", "curator"):
        words = (source / f"{module}.py").read_text(encoding="utf-8").split('"')
        quoted |= {word for word in words if "-" in word and word.replace("-", "").isalpha() and word.islower()}
    files = (REFUSALS, load("values"))
    used = {entry["token"] for file in files for part in ("joining", "messages", "reports") for entry in file[part]}
    assert used == quoted


# -- tables ------------------------------------------------------------------------------------------------------


def test_numbers() -> None:
    for text, data in TABLES["integers"]:
        assert msgspec.msgpack.encode(int(text)).hex() == reference.pack(int(text)).hex() == data
    for value, data in TABLES["floats"]:
        assert msgspec.msgpack.encode(value).hex() == reference.pack(value).hex() == data


@pytest.mark.parametrize("entry", TABLES["cells"])
def test_cells(entry: Json) -> None:
    mine, theirs = tree(entry["hierarchy"]), reference.Tree(entry["hierarchy"])
    ticks = [[int(tick) for tick in row] for row in entry["ticks"]]
    codes = [int(code) for code in entry["codes"]]
    assert mine.tick_bits == theirs.tick_bits == entry["tick_bits"]
    assert mine.ticks(entry["points"]).tolist() == [theirs.ticks(point) for point in entry["points"]] == ticks
    assert mine.codes(entry["points"]).tolist() == [theirs.code(row) for row in ticks] == codes
    assert mine.boxes(np.array(codes, dtype=np.uint64)).tolist() == entry["boxes"]
    for code, (lower, upper), point in zip(codes, entry["boxes"], entry["points"], strict=True):
        for axis, (first, last) in enumerate(theirs.bounds(code)):
            assert theirs.edge(axis, first) == lower[axis]
            at_end = last + 1 == 2**theirs.tick_bits
            assert (theirs.upper[axis] if at_end else theirs.edge(axis, last + 1)) == upper[axis]
            assert lower[axis] <= point[axis] <= upper[axis]


@pytest.mark.parametrize("entry", TABLES["trees"])
def test_trees_that_are_no_boxes(entry: Json) -> None:
    mine, theirs = msgspec.convert(entry["hierarchy"], AnyTree), reference.tree_of(entry["hierarchy"])
    points, codes = entry["points"], [int(code) for code in entry["codes"]]
    array = np.array(codes, dtype=np.uint64)
    assert mine.codes(points).tolist() == [theirs.code_of(point) for point in points] == codes
    assert mine.middles(array) == pytest.approx(np.array(entry["middles"]), abs=1e-8)
    assert np.array([theirs.middle(code) for code in codes]) == pytest.approx(np.array(entry["middles"]), abs=1e-8)
    for depth, (children, cells, fanouts) in enumerate(
        zip(entry["children"], entry["cells"], entry["fanouts"], strict=True)
    ):
        named = [int(cell) for cell in cells]
        assert mine.child_of(array, depth).tolist() == [theirs.child(code, depth) for code in codes] == children
        assert mine.ancestors(array, depth).tolist() == named
        assert [theirs.width(cell) for cell in named] == mine.fanouts(named).tolist() == fanouts
        assert all(theirs.has_depth(cell, depth) and not theirs.has_depth(cell, depth + 1) for cell in named)
        if depth:
            above = [int(cell) for cell in entry["cells"][depth - 1]]
            steps = zip(above, entry["children"][depth - 1], strict=True)
            assert [theirs.child_cell(cell, child) for cell, child in steps] == named
    deepest = [int(cell) for cell in entry["cells"][-1]]
    assert mine.sides(deepest).tolist() == [theirs.sides(cell) for cell in deepest] == entry["sides"]
    words = [int(word) for word in entry["words"]]
    for row in entry["moves"]:
        kept = np.tile(np.isin(np.arange(mine.fanout), row["kept"]), (len(words), 1))
        cells = np.full(len(words), row["cell"], dtype=np.uint64)
        moved = mine.spread(cells, kept, np.array(words, dtype=np.uint64)).tolist()
        assert moved == [theirs.move(row["cell"], row["kept"], word) for word in words]
        assert [str(code) for code in moved] == row["codes"]


@pytest.mark.parametrize("entry", TABLES["moves"])
def test_moves(entry: Json) -> None:
    mine, theirs = tree(entry["hierarchy"]), reference.Tree(entry["hierarchy"])
    words, codes = ([int(text) for text in entry[name]] for name in ("words", "codes"))
    assert [theirs.move(entry["cell"], entry["kept"], word) for word in words] == codes
    assert [theirs.middle(code) for code in codes] == entry["positions"]
    kept = np.tile(np.isin(np.arange(mine.fanout), entry["kept"]), (len(words), 1))
    cells = np.full(len(words), entry["cell"], dtype=np.uint64)
    moved = mine.spread(cells, kept, np.array(words, dtype=np.uint64))
    assert moved.tolist() == codes
    assert mine.middles(moved).tolist() == entry["positions"]
    assert mine.codes(mine.middles(moved)).tolist() == codes


def test_weights() -> None:
    for entry in TABLES["response_weights"]:
        weights = int(entry["true"]), int(entry["other"])
        assert RandomizedResponse(entry["epsilon"], entry["fanout"]).weights == weights
        assert reference.response_weights(entry["epsilon"], entry["fanout"]) == weights
        assert weights[0] + (entry["fanout"] - 1) * weights[1] == 2**64
    for entry in TABLES["laplace_weights"]:
        values, masses = DiscreteLaplace(entry["epsilon"], 2).alphabet
        listed = dict(enumerate(map(int, entry["weights"]), start=entry["smallest"]))
        assert dict(zip(values.tolist(), masses, strict=True)) == reference.laplace_weights(entry["epsilon"]) == listed
        assert sum(listed.values()) == 2**64


def test_entropy() -> None:
    entry = TABLES["entropy"]
    secret, task = bytes.fromhex(entry["secret"]), bytes.fromhex(entry["task"])
    assert keys.pseudonym(secret, task).hex() == reference.pseudonym(secret, task).hex() == entry["pseudonym"]
    for label, length, derived in entry["derive"]:
        for derive in (keys.derive, reference.derive):
            assert derive(secret, bytes.fromhex(label), length).hex() == derived
    for row in entry["reports"]:
        key = secret, task, row["round"], int(row["cell"]), row["words"]
        assert keys.report_entropy(*key).hex() == row["entropy"]
        assert b"".join(word.to_bytes(8, "big") for word in reference.report_words(*key)).hex() == row["entropy"]
    for row in entry["moves"]:
        place = secret, task, row["round"], int(row["cell"])
        assert keys.move_entropy(*place).hex() == reference.move_word(*place).to_bytes(8, "big").hex() == row["entropy"]


@pytest.mark.parametrize("entry", TABLES["answers"])
def test_answers(entry: Json) -> None:
    for words, answer in zip(entry["words"], entry["answers"], strict=True):
        numbers = [int(word) for word in words]
        entropy = b"".join(number.to_bytes(8, "big") for number in numbers)
        mine = randomizer(entry["randomizer"]).respond(entry["child"], entropy)
        assert (list(mine) if isinstance(mine, tuple) else mine) == answer
        assert reference.respond(entry["randomizer"], entry["child"], numbers) == answer


@pytest.mark.parametrize("entry", TABLES["thresholds"])
def test_thresholds(entry: Json) -> None:
    fields, k, delta = entry["randomizer"], entry["k"], entry["delta"]
    mine = randomizer(fields).threshold(entry["responders"], k=k, delta=delta).tolist()
    for size, least, listed in zip(entry["responders"], mine, entry["thresholds"], strict=True):
        if size < k:
            assert listed is None
            assert least > size
        else:
            exact = reference.threshold(fields["kind"], fields["epsilon"], fields["fanout"], size, k, delta)
            assert least == listed == exact


@pytest.mark.parametrize("entry", named(TABLES["verdicts"]))
def test_verdicts(entry: Json) -> None:
    fields = task_fields(entry["task"])
    task = decode(reference.pack(fields), Task)
    for responders, tally, trims, visitors, doubt, kept, trimmed, after, doubts in entry["verdicts"]:
        frontier = frontier_at([entry["cell"]], trims=trims, visitors=visitors, doubt=doubt)
        ruling = decide(task, frontier, [responders], [tally])
        assert np.flatnonzero(ruling.kept[0]).tolist() == kept
        found = reference.verdict(fields, responders, tally, trims, visitors, doubt, entry["cell"])
        assert found == (kept, trimmed, after, doubts)  # the visitors and the doubt to the last bit
        assert set(ruling.frontier.trims.tolist()) <= {trims + trimmed}
        assert ruling.frontier.visitors.tolist() == after
        assert ruling.frontier.doubt.tolist() == doubts


def test_the_doubt_alone_decides_about_a_crowd_and_about_a_trim_in_the_vectors() -> None:
    """A client that forgets the doubt, or computes it as 0, fails the vectors."""
    decided = set()
    for entry in TABLES["verdicts"]:
        fields = task_fields(entry["task"])
        for responders, tally, trims, visitors, doubt, kept, trimmed, *_ in entry["verdicts"]:
            sure, cut, *_ = reference.verdict(fields, responders, tally, trims, visitors, 0.0, entry["cell"])
            without, found = _kind(sure, cut, len(tally)), _kind(kept, trimmed, len(tally))
            if doubt and without != found:
                decided.add((entry["name"], without, found))
    leaves = "children with different numbers of leaves"
    assert {(name, *kinds) for name in ("trim", leaves) for kinds in (("SPLIT", "TRIM"), ("TRIM", "STOP"))} <= decided


def _kind(kept: list[int], trimmed: bool, width: int) -> str:
    return "TRIM" if trimmed else "SPLIT" if len(kept) == width else "STOP"


def test_merkle() -> None:
    for entry in TABLES["merkle"]:
        entries = [bytes.fromhex(data) for data in entry["entries"]]
        root = merkle_root([leaf_hash(data) for data in entries])
        assert root.hex() == reference.merkle_tree_hash(entries).hex() == entry["root"]


# -- plays -------------------------------------------------------------------------------------------------------


def test_the_plays_cover_rules_randomizers_trees_dimensions_and_events() -> None:
    seen = set()
    for entry in PLAYS["plays"]:
        task = entry["task"]
        kept = [children for played in entry["rounds"] for children in played["kept"]]
        trims = [task["rule"] == "trim" and 0 < len(children) < task["randomizer"]["fanout"] for children in kept]
        seen |= {task["rule"], task["randomizer"]["kind"], task["hierarchy"]["kind"], task["accounting"]}
        seen |= {f"{len(entry['participants'][0]['point'])}d", "lost" if entry["missing"] else "all there"}
        seen |= {"moved twice"} if any(person["moves"] > 1 for person in entry["participants"]) else set()
        seen |= {"trimmed"} if any(trims) else set()
        seen |= {"roll call"} if len(entry["rounds"]) > task["max_rounds"] else set()
    expected = {"all", "trim", "each", "randomized-response", "discrete-laplace", "binary", "quad", "core", "uniform"}
    expected |= {"sphere", "table"}
    assert seen == expected | {"1d", "2d", "3d", "lost", "all there", "moved twice", "trimmed", "roll call"}


@pytest.mark.parametrize("entry", named(PLAYS["plays"]))
def test_the_machines_replay_a_play(entry: Json) -> None:
    task = decode(bytes.fromhex(entry["bytes"]), Task)
    assert task.id.hex() == entry["id"]
    people = replayed(entry, task)
    ends = [(person.region, person.crowd, person.moves) for person in people]
    assert ends == [(p["region"], p["crowd"], p["moves"]) for p in entry["participants"]]
    assert [person.pseudonym.hex() for person in people] == [p["pseudonym"] for p in entry["participants"]]


def replayed(entry: Json, task: Task, plan: Plan | None = None) -> list[Participant]:
    """The participants at the end of a play in which every message has the bytes of the vector."""
    people = [
        Participant(task, p["point"], bytes.fromhex(p["secret"]), ALLOW_ALL, plan=plan, value=p.get("value"))
        for p in entry["participants"]
    ]
    curator = Curator(task, plan)
    events: list[Event] = [task]
    for played in entry["rounds"]:
        query = curator.query()
        assert query is not None
        assert encode(query).hex() == played["query"]
        events += [curator.plan] if isinstance(query, ValueQuery) and not curator.values else []
        missing = entry["missing"].get(str(played["round"]), [])
        received = {i: person.receive(query) for i, person in enumerate(people) if i not in missing}
        reports = {i: report for i, report in received.items() if report is not None}
        assert {i: encode(report).hex() for i, report in reports.items()} == {i: d for i, _, _, d in played["reports"]}
        listed = [decode_report(bytes.fromhex(data)) for _, _, _, data in played["reports"]]
        for report in listed:
            curator.check(report)
        closed = curator.close(*count_reports(curator, listed))
        assert encode(closed).hex() == played["closed"]
        for i, person in enumerate(people):
            if isinstance(closed, Closed) or i not in missing:
                person.receive(closed)
        events += [query, *listed, closed]
    assert curator.finished
    assert transcript_root(events).hex() == entry["root"]
    return people


@pytest.mark.parametrize("entry", named(PLAYS["plays"]))
def test_the_second_client_replays_a_play(entry: Json) -> None:
    """Nothing but the text of the specification, the standard library and the vectors."""
    fields = task_fields(entry["task"])
    assert reference.pack(fields).hex() == entry["bytes"]
    people = [reference.Device(fields, p["point"], bytes.fromhex(p["secret"])) for p in entry["participants"]]
    events = [reference.pack(fields)]
    for played in entry["rounds"]:
        number, missing = played["round"], entry["missing"].get(str(played["round"]), [])
        query = reference.pack(["query", people[0].id, number, played["cells"]])
        asked = [p for i, p in enumerate(people) if not (p.finished or p.lost) and i not in missing]
        reports = [reference.pack(p.report()) for p in sorted(asked, key=lambda p: p.pseudonym)]
        assert query.hex() == played["query"]
        assert [report.hex() for report in reports] == [data for _, _, _, data in played["reports"]]
        columns = played["cells"], played["responders"], played["tally"], played["kept"]
        closed = reference.pack(["closed", people[0].id, number, *columns])
        assert closed.hex() == played["closed"]
        events += [query, *reports, closed]
        for person in people:
            person.follow(*columns)
    assert reference.merkle_tree_hash(events).hex() == entry["root"]
    for person, expected in zip(people, entry["participants"], strict=True):
        assert person.pseudonym.hex() == expected["pseudonym"]
        assert (person.cell if person.finished else None, person.crowd, person.moves) == (
            expected["region"], expected["crowd"], expected["moves"],
        )  # fmt: skip


# -- refusals ----------------------------------------------------------------------------------------------------


def vector_task(name: str) -> Task:
    entry = REFUSALS["tasks"][name]
    assert reference.pack(task_fields(entry["task"])).hex() == entry["bytes"]
    return decode(bytes.fromhex(entry["bytes"]), Task)


@pytest.mark.parametrize("entry", named(REFUSALS["joining"]))
def test_a_device_refuses_to_join(entry: Json) -> None:
    task, policy = vector_task(entry["task"]), msgspec.convert(entry["policy"], Policy)
    point = [0.5] * task.box.dimensions
    with pytest.raises(ServerViolation) as caught:
        Participant(task, point, bytes(32), policy)
    assert caught.value.token == entry["token"]
    lenient = ALLOW_ALL
    assert Participant(task, point, bytes(32), lenient).state.phase == "waiting"


@pytest.mark.parametrize("entry", named(REFUSALS["messages"]))
def test_a_device_refuses_a_message_and_goes_on(entry: Json) -> None:
    assert refuses_the_message(entry, vector_task(entry["task"])).state.phase == entry["phase"]


def refuses_the_message(entry: Json, task: Task, plan: Plan | None = None) -> Participant:
    """A device refuses the message of a vector with its token, is as it was, and answers what comes then."""
    policy = msgspec.convert(entry["policy"], Policy)
    device = Participant(task, entry["point"], bytes.fromhex(entry["secret"]), policy, plan=plan)
    for data in entry["history"]:
        device.receive(read(data))
    before = device.state, device.released, device.exposure, device.spent
    for _ in range(2):  # refused once, refused always
        with pytest.raises(ServerViolation) as caught:
            device.receive(read(entry["message"]))
        assert caught.value.token == entry["token"]
        assert (device.state, device.released, device.exposure, device.spent) == before
    report = device.receive(read(entry["then"]))
    assert (None if report is None else encode(report).hex()) == entry["report"]
    return device


@pytest.mark.parametrize("entry", named(REFUSALS["reports"]))
def test_a_server_refuses_a_report_and_goes_on(entry: Json) -> None:
    refuses_the_second_report(entry, vector_task(entry["task"]))


def refuses_the_second_report(entry: Json, task: Task, plan: Plan | None = None) -> None:
    """A curator takes the first report of a vector, refuses the second with its token, and is as it was."""
    curator = Curator.replay(task, [decode_closed(bytes.fromhex(data)) for data in entry["closings"]], plan)
    first, second = (decode_report(bytes.fromhex(entry[name])) for name in ("before", "report"))
    query = curator.query()

    def take() -> None:
        for report in (first, second):
            curator.check(report)
        count_reports(curator, [first, second])

    with pytest.raises(DeviceViolation) as caught:
        take()
    assert caught.value.token == entry["token"]
    assert curator.query() == query
    curator.check(first)


@pytest.mark.parametrize("entry", named(MALFORMED["malformed"]))
def test_malformed_bytes_are_no_message(entry: Json) -> None:
    with pytest.raises(InvalidInput, match=f"a {KINDS[entry['kind']].__name__}"):
        decode(bytes.fromhex(entry["bytes"]), KINDS[entry["kind"]])


def test_the_good_messages_are_fine() -> None:
    for name, data in MALFORMED["good"].items():
        assert encode(decode(bytes.fromhex(data), KINDS[name])).hex() == data
