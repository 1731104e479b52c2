"""Replays spec/vectors/: by the package, and by a second client that was written from spec/protocol.md alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import make_vectors
import msgspec
import numpy as np
import pytest
import reference_client as reference
import reference_trees
import reference_values
from vector_common import CHAIN, OPEN, lay_out, slices_of
from vector_refusals import Step, replayed

from semilocal.errors import DeviceViolation, InvalidInput, ServerViolation
from semilocal.hierarchy import AnyTree, BinaryTree, Quadtree
from semilocal.protocol import keys
from semilocal.protocol.curator import Curator
from semilocal.protocol.messages import (
    AnyReport,
    Closed,
    Event,
    Query,
    Report,
    Slice,
    ValueClosed,
    ValueQuery,
    ValueReport,
    decode,
    decode_closed,
    decode_event,
    decode_query,
    decode_report,
    encode,
    seed_of,
)  # fmt: skip
from semilocal.protocol.participant import Participant, State
from semilocal.protocol.plan import Plan, Release
from semilocal.protocol.policy import Policy
from semilocal.protocol.region import draw
from semilocal.protocol.task import Task
from semilocal.protocol.thresholds import level, threshold
from semilocal.randomizer import DiscreteLaplace, PaperLaplace, RandomizedResponse
from semilocal.randomizer.values import AnyMechanism, TwoPoint
from semilocal.transcript.checkpoints import merkle_root, transcript_root

SPEC = Path(__file__).parents[3] / "spec"
Json = Any


def load(name: str) -> Json:
    return json.loads((SPEC / "vectors" / f"{name}.json").read_text(encoding="utf-8"))


TABLES, PLAYS, REFUSALS, MALFORMED, VALUES = map(load, ("tables", "plays", "refusals", "malformed", "values"))
KINDS: dict[str, Any] = {
    "task": Task, "plan": Plan, "query": Query, "report": Report, "slice": Slice, "closed": Closed,
    "value-query": ValueQuery, "value-report": ValueReport, "value-closed": ValueClosed,
}  # fmt: skip


def named(entries: list[Json]) -> list[Any]:
    return [pytest.param(entry, id=entry["name"]) for entry in entries]


def read(data: str) -> Any:
    """A message, by its tag."""
    return decode_event(bytes.fromhex(data))


def raw(data: str) -> Any:
    """A message as the second client has it."""
    value = reference.unpack(bytes.fromhex(data))
    assert reference.pack(value).hex() == data
    return value


def numbers(texts: list[str]) -> tuple[int, ...]:
    return tuple(int(text) for text in texts)


def randomizer(fields: Json) -> RandomizedResponse | DiscreteLaplace | PaperLaplace:
    return msgspec.convert(fields, RandomizedResponse | DiscreteLaplace | PaperLaplace)


# -- the files ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_committed_vectors_are_what_the_generator_writes() -> None:
    built = make_vectors.build()
    assert set(built) == {path.name for path in (SPEC / "vectors").iterdir()}
    for name, text in built.items():
        committed = (SPEC / "vectors" / name).read_text(encoding="utf-8")
        assert lay_out(json.loads(committed)) + "\n" == committed, f"{name}: run make vectors"
        assert json.loads(text) == json.loads(committed), f"{name}: run make vectors"


def used_tokens() -> set[str]:
    return {entry["token"] for part in ("joining", "messages", "reports") for entry in REFUSALS[part]}


def test_every_token_of_the_specification_has_a_vector_and_every_vector_a_token() -> None:
    text = (SPEC / "protocol.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    assert {token for row in rows for token in row.split("`")[1::2]} == used_tokens()


def test_every_token_in_the_machines_has_a_vector() -> None:
    source = SPEC.parent / "src" / "semilocal" / "protocol"
    quoted = set()
    for module in ("participant", "region", "policy", "curator"):
        words = (source / f"{module}.py").read_text(encoding="utf-8").split('"')
        quoted |= {word for word in words if "-" in word and word.replace("-", "").isalpha() and word.islower()}
    # Devices of one process share a path; only then can there be two closings of one round. "quorum" is no refusal.
    assert used_tokens() == quoted - {"changed-closing"}


# -- tables ------------------------------------------------------------------------------------------------------


def test_numbers() -> None:
    for text, data in TABLES["integers"]:
        assert msgspec.msgpack.encode(int(text)).hex() == reference.pack(int(text)).hex() == data
        assert reference.unpack(bytes.fromhex(data)) == int(text)
    for value, data in TABLES["floats"]:
        assert msgspec.msgpack.encode(value).hex() == reference.pack(value).hex() == data


@pytest.mark.parametrize("entry", TABLES["cells"])
def test_cells(entry: Json) -> None:
    mine, theirs = msgspec.convert(entry["hierarchy"], BinaryTree | Quadtree), reference_trees.Boxes(entry["hierarchy"])
    ticks = [[int(tick) for tick in row] for row in entry["ticks"]]
    codes = [int(code) for code in entry["codes"]]
    assert mine.tick_bits == theirs.tick_bits == entry["tick_bits"]
    assert mine.ticks(entry["points"]).tolist() == [theirs.ticks(point) for point in entry["points"]] == ticks
    assert mine.codes(entry["points"]).tolist() == [theirs.code(row) for row in ticks] == codes
    assert mine.boxes(np.array(codes, dtype=np.uint64)).tolist() == entry["boxes"]
    assert [list(theirs.box(code)) for code in codes] == entry["boxes"]


@pytest.mark.parametrize("entry", TABLES["trees"])
def test_trees_that_are_no_boxes(entry: Json) -> None:
    mine, theirs = msgspec.convert(entry["hierarchy"], AnyTree), reference.tree_of(entry["hierarchy"])
    points, codes = entry["points"], [int(code) for code in entry["codes"]]
    array = np.array(codes, dtype=np.uint64)
    assert mine.codes(points).tolist() == [theirs.code_of(point) for point in points] == codes
    assert mine.middles(array) == pytest.approx(np.array(entry["middles"]), abs=1e-8)
    for depth, (children, cells, fanouts) in enumerate(
        zip(entry["children"], entry["cells"], entry["fanouts"], strict=True)
    ):
        listed = [int(cell) for cell in cells]
        below = mine.ancestors(array, depth + 1)
        assert mine.number(below).tolist() == [theirs.child(code, depth) for code in codes] == children
        assert mine.ancestors(array, depth).tolist() == listed
        assert [theirs.width(cell) for cell in listed] == mine.fanouts(listed).tolist() == fanouts
    deepest = [int(cell) for cell in entry["cells"][-1]]
    assert mine.sides(deepest).tolist() == [theirs.sides(cell) for cell in deepest] == entry["sides"]


@pytest.mark.parametrize("entry", TABLES["intervals"])
def test_intervals(entry: Json) -> None:
    mine, theirs = msgspec.convert(entry["hierarchy"], AnyTree), reference.tree_of(entry["hierarchy"])
    lower, upper = numbers(entry["region"])
    cells = list(numbers(entry["cells"]))
    assert mine.interval_cells([lower], [upper])[1].tolist() == theirs.interval_cells(lower, upper) == cells
    largest = theirs.largest_cell(lower, upper)
    assert mine.largest_cells([lower], [upper]).tolist() == [largest] == [int(entry["largest"])]
    assert theirs.has_depth(largest, entry["depth"])
    assert mine.interval_sides([lower], [upper])[0].tolist() == theirs.interval_sides(lower, upper) == entry["sides"]


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
        region, cuts = numbers(row["region"]), numbers(row["cuts"])
        assert keys.report_entropy(secret, task, row["round"], region, cuts, row["words"]).hex() == row["entropy"]  # type: ignore[arg-type]
        words = reference.report_words(secret, task, row["round"], region, list(cuts), row["words"])  # type: ignore[arg-type]
        assert b"".join(word.to_bytes(8, "big") for word in words).hex() == row["entropy"]
    for number, listed in entry["nonces"]:
        assert keys.nonce(secret, task, number).hex() == reference.nonce(secret, task, number).hex() == listed
    chain = [bytes.fromhex(value) for value in entry["chain"]]
    for link, preimage in pairwise(chain):
        assert keys.HashChain.goes_on(link, preimage)
        assert reference.before(preimage) == link


def test_draws() -> None:
    entry = TABLES["draws"]
    closed, names = read(entry["closed"]), [bytes.fromhex(name) for name in entry["names"]]
    assert seed_of(closed) == reference.seed(bytes.fromhex(entry["closed"])) == bytes.fromhex(entry["seed"])
    for size, listed in entry["draws"]:
        drawn = [bytes.fromhex(name) for name in listed]
        assert list(draw(names[:size], seed_of(closed), len(drawn))) == drawn
        assert reference.draw(names[:size][::-1], seed_of(closed), len(drawn)) == drawn


@pytest.mark.parametrize("entry", TABLES["answers"])
def test_answers(entry: Json) -> None:
    for words, answer in zip(entry["words"], entry["answers"], strict=True):
        entropy = b"".join(int(word).to_bytes(8, "big") for word in words)
        mine = randomizer(entry["randomizer"]).respond(entry["child"], entropy)
        assert (list(mine) if isinstance(mine, tuple) else mine) == answer
        assert reference.respond(entry["randomizer"], entry["child"], list(numbers(words))) == answer
        assert reference.possible(entry["randomizer"], answer)


def test_thresholds() -> None:
    """Exact fractions and the package's doubles find the same smallest t."""
    for epsilon, k, delta, askable, asked, failed, least in TABLES["thresholds"]:
        assert threshold(askable, asked, k, epsilon, level(delta, failed)) == least
        if asked <= 80:
            assert reference.holds(epsilon, askable, asked, k, least, delta, failed)
            assert not reference.holds(epsilon, askable, asked, k, least - 1, delta, failed)


@pytest.mark.parametrize("entry", TABLES["thresholds_all"])
def test_thresholds_of_rule_all(entry: Json) -> None:
    fields, k, delta = entry["randomizer"], entry["k"], entry["delta"]
    mine = randomizer(fields).threshold(entry["responders"], k=k, delta=delta).tolist()
    for size, least, listed in zip(entry["responders"], mine, entry["thresholds"], strict=True):
        assert least > size if listed is None else least == listed
        if size <= 200 and listed is not None:
            given = fields["kind"], fields["epsilon"], fields["fanout"], size, k, delta
            assert reference.passes(*given, listed)
            assert not reference.passes(*given, listed - 1)


def test_merkle() -> None:
    for entry in TABLES["merkle"]:
        entries = [bytes.fromhex(data) for data in entry["entries"]]
        root = merkle_root(entries)
        assert root.hex() == reference.merkle_tree_hash(entries).hex() == entry["root"]


# -- tables of values --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", VALUES["functions"])
def test_functions_and_clipped_values(entry: Json) -> None:
    box, points = [entry["box"]["lower"], entry["box"]["upper"]], entry["points"]
    for row in entry["functions"]:
        name, given = row["function"], row["parameters"]
        f = Release("values", TwoPoint(1.0), name, tuple(given)).build()
        # The machine's e^x may differ from the correctly rounded one in the last place; nothing else may.
        for got, listed in ((f.range_over(np.array([box]))[0], row["range"]), (f(np.array(points)), row["values"])):
            assert got.tolist() == (listed if name != "gaussian_bump" else pytest.approx(listed, rel=1e-12, abs=1e-15))
        assert list(reference_values.function_range(name, given, *box)) == row["range"]
        assert [reference_values.function_value(name, given, point) for point in points] == row["values"]
        release = [None, None, name, given]
        scaled = [reference_values.clipped_value(release, point, None, *row["clip"]) for point in points]
        assert scaled == row["scaled"]


def test_own_values_are_taken_or_refused() -> None:
    entry = VALUES["own"]
    task, plan = decode(bytes.fromhex(entry["task"]), Task), decode(bytes.fromhex(entry["plan"]), Plan)
    for value in entry["values"]:
        assert reference_values.takes_value(raw(entry["plan"]), value)
        assert Participant(task, [0.3], bytes(32), OPEN, plan=plan, value=value).state == State()
    for row in entry["refused"]:
        assert not reference_values.takes_value(raw(row["plan"]), row["value"])
        with pytest.raises(InvalidInput, match="value"):
            Participant(task, [0.3], bytes(32), OPEN, plan=decode(bytes.fromhex(row["plan"]), Plan), value=row["value"])


@pytest.mark.parametrize(
    "entry", VALUES["mechanisms"], ids=lambda entry: "-".join(map(str, entry["mechanism"].values()))
)
def test_outputs_of_mechanisms(entry: Json) -> None:
    fields = entry["mechanism"]
    mechanism: AnyMechanism = msgspec.convert(fields, AnyMechanism)
    ends = entry["smallest"], entry["largest"]
    last = reference_values.window_of(fields).outputs - 1
    assert (mechanism.alphabet.start, mechanism.alphabet.stop - 1) == (0, last) == ends
    for step, text, listed in entry["outputs"]:
        assert mechanism.release_one(step / 2**20, int(text).to_bytes(8, "big")) == listed
        assert reference_values.output(fields, step / 2**20, int(text)) == listed


def test_entropy_of_values() -> None:
    entry = VALUES["entropy"]
    secret, task, plan = (bytes.fromhex(entry[name]) for name in ("secret", "task", "plan"))
    for row in entry["values"]:
        lower, upper = numbers(row["region"])
        key = secret, task, plan, row["index"], (lower, upper)
        assert keys.value_entropy(*key).hex() == row["entropy"]
        assert reference_values.value_word(*key).to_bytes(8, "big").hex() == row["entropy"]


# -- plays -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", named(PLAYS["plays"]))
def test_the_machines_replay_a_play(entry: Json) -> None:
    """Every message has the bytes of the vector; so has the report of a device that begins anew with what it kept."""
    task, plan = decode(bytes.fromhex(entry["bytes"]), Task), decode(bytes.fromhex(entry["plan"]), Plan)
    assert task.id.hex() == entry["id"]

    def begin(number: int, state: State | None = None) -> Participant:
        person = entry["participants"][number]
        key = bytes.fromhex(person["secret"])
        return Participant(task, person["point"], key, OPEN, plan=plan, value=person.get("value"), state=state)

    people = [begin(number) for number in range(len(entry["participants"]))]
    curator = Curator(task, plan, chain=CHAIN)
    events: list[Event] = [task]
    log: list[tuple[Query, Closed, dict[Any, Slice]]] = []
    for played in entry["rounds"]:
        query = curator.query()
        assert query is not None
        assert encode(query).hex() == played["query"]
        events += [curator.plan] if isinstance(query, ValueQuery) and not curator.values else []
        away, lost = (entry[name].get(str(played["round"]), []) for name in ("away", "lost"))
        received: dict[int, AnyReport] = {}
        for number, person in enumerate(people):
            if number in away:
                if isinstance(query, Query):
                    person.observe(query)
                continue
            if number == played["round"] % len(people):  # one that reads the log from round 1
                again = begin(number, person.state)
                for asked, closing, rows in log:
                    again.observe(asked)
                    again.close(closing, rows.get(again.log.region))
                assert again.receive(query) == person.receive(query)
                assert again.state == person.state
            report = person.receive(query)
            assert person.receive(query) == report
            if report is not None and number not in lost:
                received[number] = report
        listed = [decode_report(bytes.fromhex(data)) for _, data in played["reports"]]
        assert {i: encode(report).hex() for i, report in received.items()} == dict(played["reports"])
        closed = curator.close(listed)
        assert encode(closed).hex() == played["closed"]
        if isinstance(closed, Closed) and isinstance(query, Query):
            slices = slices_of(report for report in listed if isinstance(report, Report))
            for person in people:
                person.close(closed, slices.get(person.log.region))
            log.append((query, closed, slices))
        events += [query, *listed, closed]
    assert curator.finished
    assert transcript_root(events).hex() == entry["root"]
    for person, expected in zip(people, entry["participants"], strict=True):
        assert person.pseudonym.hex() == expected["pseudonym"]
        assert person.region == (expected["region"] and numbers(expected["region"]))
        assert (person.members, person.answered) == (expected["members"], expected["answered"])
        assert (person.lines, bool(person.state.stopped)) == (numbers(expected["lines"]), expected["stopped"])
        assert person.inside <= task.answers


def raw_slices(reports: list[Json]) -> dict[Any, Any]:
    """The slices of a round as the second client has them."""
    out: dict[Any, Any] = {}
    for _, task, number, name, lower, upper, answer, nonce in sorted(reports, key=lambda report: report[3]):
        out.setdefault((lower, upper), ["slice", task, number, lower, upper, []])[5].append([name, answer, nonce])
    return out


@pytest.mark.parametrize("entry", named(PLAYS["plays"]))
def test_the_second_client_replays_a_play(entry: Json) -> None:
    """Nothing but the text of the specification, the standard library and the vectors."""
    task, plan = raw(entry["bytes"]), raw(entry["plan"])
    people = [reference.Device(task, p["point"], bytes.fromhex(p["secret"])) for p in entry["participants"]]
    events = [bytes.fromhex(entry["bytes"])]
    for played in entry["rounds"]:
        query, closed, reports = raw(played["query"]), raw(played["closed"]), {}
        away, lost = (entry[name].get(str(played["round"]), []) for name in ("away", "lost"))
        if query[0] == "value-query" and not any(event[1:13] == b"\xabvalue-query" for event in events):
            events.append(bytes.fromhex(entry["plan"]))
        for number, (person, listed) in enumerate(zip(people, entry["participants"], strict=True)):
            if number in away:
                if query[0] == "query":
                    person.observe(query)
                continue
            if query[0] == "query":
                report = person.answer(query)
            else:
                report = reference_values.value_report(person, plan, query, listed.get("value"))
            if report is not None and number not in lost:
                reports[number] = report
        assert {i: reference.pack(report).hex() for i, report in reports.items()} == dict(played["reports"])
        events += [bytes.fromhex(played["query"]), *(bytes.fromhex(data) for _, data in played["reports"])]
        events.append(bytes.fromhex(played["closed"]))
        if query[0] == "query":
            slices = raw_slices(list(reports.values()))
            for person in people:
                person.close(closed, slices.get(person.log.region))
    assert reference.merkle_tree_hash(events).hex() == entry["root"]
    for person, expected in zip(people, entry["participants"], strict=True):
        assert person.pseudonym.hex() == expected["pseudonym"]
        assert person.region == (expected["region"] and numbers(expected["region"]))
        assert (len(person.book), person.stopped) == (expected["answered"], expected["stopped"])


# -- refusals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", named(REFUSALS["joining"]))
def test_a_device_refuses_to_join(entry: Json) -> None:
    task = decode(bytes.fromhex(REFUSALS["tasks"][entry["task"]]["bytes"]), Task)
    plan, policy = decode(bytes.fromhex(entry["plan"]), Plan), msgspec.convert(entry["policy"], Policy)
    with pytest.raises(ServerViolation) as caught:
        Participant(task, [0.3], bytes(32), policy, plan=plan)
    assert caught.value.token == entry["token"]


def step_of(told: Json) -> Step:
    kind, data, reports = told
    message = decode_closed(bytes.fromhex(data)) if kind in ("close", "counted") else decode_query(bytes.fromhex(data))
    return Step(kind, message, None if reports is None else decode(bytes.fromhex(reports), Slice))


def told_before(entry: Json) -> Iterator[Json]:
    """The steps of the story; a device with a state of its own only reads them."""
    for kind, *rest in REFUSALS["stories"][entry["story"]]["steps"][: entry["after"]]:
        yield ["observe" if entry["state"] and kind == "answer" else kind, *rest]


@pytest.mark.parametrize("entry", named(REFUSALS["messages"]))
def test_a_device_refuses_a_message_and_goes_on(entry: Json) -> None:
    story, policy = REFUSALS["stories"][entry["story"]], msgspec.convert(entry["policy"], Policy)
    state = entry["state"]
    if state is not None:
        state = State(region=numbers(state["region"]), round=state["round"], question=bytes.fromhex(state["question"]))  # type: ignore[arg-type]
    device = Participant(
        decode(bytes.fromhex(story["bytes"]), Task), story["point"], bytes.fromhex(story["secret"]), policy,
        plan=decode(bytes.fromhex(story["plan"]), Plan), state=state,
    )  # fmt: skip
    last: AnyReport | None = None
    for told in told_before(entry):
        last = step_of(told).give(device, last) or last
    before = device.state, device.spent, device.round
    for _ in range(1 if entry["stops"] else 2):  # refused once, refused always
        with pytest.raises(ServerViolation) as caught:
            step_of(entry["step"]).give(device, last)
        assert caught.value.token == entry["token"]
        assert entry["stops"] or (device.state, device.spent, device.round) == before
    if entry["stops"]:
        assert device.state.stopped
        assert step_of(entry["step"]).give(device, last) is None
    elif state is None:
        report = step_of(story["steps"][entry["after"]]).give(device, last)
        assert (None if report is None else encode(report).hex()) == entry["then"]


@pytest.mark.parametrize("entry", named([row for row in REFUSALS["messages"] if not row["stops"]]))
def test_the_second_client_refuses_it_too(entry: Json) -> None:
    story = REFUSALS["stories"][entry["story"]]
    plan = raw(story["plan"])
    device = reference.Device(raw(story["bytes"]), story["point"], bytes.fromhex(story["secret"]))
    if (state := entry["state"]) is not None:
        device.region, device.reported = numbers(state["region"]), state["round"]  # type: ignore[assignment]
        device.digest = bytes.fromhex(state["question"])

    def give(told: Json) -> Any:
        kind, message, reports = told[0], raw(told[1]), told[2] and raw(told[2])
        if kind == "close":
            return device.close(message, reports)
        if kind == "counted":
            return None
        if kind == "value":
            return reference_values.value_report(device, plan, message)
        return device.observe(message) if kind == "observe" else device.answer(message)

    for told in told_before(entry):
        give(told)
    if entry["step"][0] != "counted":
        with pytest.raises(reference.Refused) as caught:
            give(entry["step"])
        assert caught.value.token == entry["token"]
    if state is None:
        report = give(story["steps"][entry["after"]])
        assert (None if report is None else reference.pack(report).hex()) == entry["then"]


@pytest.mark.parametrize("entry", named([row for row in REFUSALS["messages"] if "larger-crowd" in row["name"]]))
def test_a_client_that_takes_liars_for_a_larger_crowd_is_caught(entry: Json) -> None:
    """The planted bug: a test for k + L in place of L answers more takes what is to be refused."""
    story = REFUSALS["stories"][entry["story"]]
    for planted in (False, True):
        device = reference.Device(raw(story["bytes"]), story["point"], bytes.fromhex(story["secret"]))
        if planted:
            device.task = device.task | {"k": device.task["k"] + device.task["tolerate_liars"], "tolerate_liars": 0}
        for kind, data, reports in told_before(entry):
            device.close(raw(data), reports and raw(reports)) if kind == "close" else device.answer(raw(data))
        if planted:
            device.answer(raw(entry["step"][1]))
            return
        with pytest.raises(reference.Refused, match="weak-threshold"):
            device.answer(raw(entry["step"][1]))


@pytest.mark.parametrize("entry", named(REFUSALS["reports"]))
def test_a_server_refuses_a_report_and_goes_on(entry: Json) -> None:
    play = next(play for play in PLAYS["plays"] if play["name"] == entry["play"])
    curator = replayed(play, entry["round"])
    legal, bad = (decode_report(bytes.fromhex(entry[name])) for name in ("legal", "report"))
    query = curator.query()
    curator.check(legal)

    def take() -> None:
        curator.check(bad)
        curator.close([legal, bad])

    with pytest.raises(DeviceViolation) as caught:
        take()
    assert caught.value.token == entry["token"]
    assert curator.query() == query
    curator.check(legal)


@pytest.mark.parametrize("entry", named(MALFORMED["malformed"]))
def test_malformed_bytes_are_no_message(entry: Json) -> None:
    with pytest.raises(InvalidInput, match=f"a {KINDS[entry['kind']].__name__}"):
        decode(bytes.fromhex(entry["bytes"]), KINDS[entry["kind"]])


def test_the_good_messages_are_fine() -> None:
    for name, data in MALFORMED["good"].items():
        assert encode(decode(bytes.fromhex(data), KINDS[name])).hex() == data
