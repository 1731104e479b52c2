"""What is typed or stands in the environment: one grammar, what wins, and what no list of processes shows."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from semilocal import Box
from semilocal.cli.main import main
from semilocal.cli.options import describe_position, parse_function, parse_position, parse_release, read_hidden
from semilocal.errors import InvalidInput, OutsideDomain
from semilocal.hierarchy.tables import from_labels
from semilocal.protocol.plan import named_function
from tests.helpers.commands import UNIT, Terminal, crowd, refused, run_json, write_people

LON_LAT = Box((-123, 37), (-121, 38), names=("longitude", "latitude"))
LAT_LON = Box((37, -123), (38, -121), names=("lat", "lon"))
PLAIN = Box((0, 10), (1, 11), names=("x", "y"))
METRES = Box((400_000, 3_600_000), (900_000, 4_600_000), names=("easting", "northing"))
LINE = Box((0,), (1,), names=("height",))


@pytest.mark.parametrize(
    ("text", "box", "expected"),
    [
        ("37.77,-122.42", LON_LAT, (-122.42, 37.77)),
        ("37.77, -122.42", LAT_LON, (37.77, -122.42)),
        ("longitude=-122.42,latitude=37.77", LON_LAT, (-122.42, 37.77)),
        ("latitude=37.77, longitude=-122.42", LON_LAT, (-122.42, 37.77)),
        ("0.5,10.5", PLAIN, (0.5, 10.5)),
        ("y=10.5,x=0.5", PLAIN, (0.5, 10.5)),
        ("0.25", LINE, (0.25,)),
    ],
)
def test_numbers_go_to_the_axes_that_people_mean(text: str, box: Box, expected: tuple[float, ...]) -> None:
    assert parse_position(text, box) == expected


@pytest.mark.parametrize("text", ["", "1", "1,2,3", "a,b", "x=0.5,z=10.5", "x=0.5,x=0.6", "x=0.5,10.5", "0.5;10.5"])
def test_positions_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="position must"):
        parse_position(text, PLAIN)


@pytest.mark.parametrize(
    ("text", "box", "words"),
    [
        ("-122.4271,37.7712", LON_LAT, "longitude and latitude are not in that range. The axes look swapped"),
        ("nan,0", LON_LAT, "longitude and latitude"),
        ("10.5,0.5", PLAIN, "of the two. Then name them: --position x=…,y=…"),
        ("0.5,77.25", PLAIN, "its y is not in that range"),
        ("4550000,-13600000", LON_LAT, "look like metres of a map projection, and the box like degrees. Convert"),
        ("37.7712,-122.4271", METRES, "look like degrees, and the box like metres"),
    ],
)
def test_a_position_outside_names_the_axis_and_the_fix_but_not_the_position(text: str, box: Box, words: str) -> None:
    with pytest.raises(OutsideDomain) as caught:
        parse_position(text, box)
    assert words in str(caught.value)
    for part in text.split(","):
        assert part not in str(caught.value).replace(str(box), "")


def test_errors_about_positions_do_not_repeat_them() -> None:
    for text in ("37.7712;-122.4271", "37.7712", "longitude=-122.4271,height=37.7712"):
        with pytest.raises(InvalidInput) as caught:
            parse_position(text, LON_LAT)
        assert "7712" not in str(caught.value)
        assert "4271" not in str(caught.value)


CODES = from_labels("ICD-10", [("heart", "I21"), ("heart", "I25"), ("lung", "J18"), ("lung", "1.5")])


@pytest.mark.parametrize(("text", "leaf"), [("J18", 2.5), (" I21 ", 0.5), ("ICD-10=J18", 2.5), ("1.5", 3.5)])
def test_a_label_stands_for_its_leaf(text: str, leaf: float) -> None:
    position = parse_position(text, CODES.box, leaves=CODES.leaves)
    assert position == (leaf,)
    label = text.strip().removeprefix("ICD-10=")
    assert describe_position(position, CODES.box, leaves=CODES.leaves) == f"ICD-10 = {label}"


@pytest.mark.parametrize("text", ["J19", "heart", "2.5", "j18", "", "x=J18", "I25,J18"])
def test_what_is_no_leaf_is_refused_and_only_its_owner_sees_labels_like_it(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_position(text, CODES.box, leaves=CODES.leaves)
    message = str(caught.value)
    assert message == ("the position must be the label of a leaf of 'ICD-10', which it is not; it has 4, such as I21")
    with pytest.raises(InvalidInput) as caught:
        parse_position("J19", CODES.box, leaves=CODES.leaves, hints=True)
    assert str(caught.value).endswith("did you mean J18?")


def test_what_was_understood_is_shown_to_its_owner() -> None:
    assert describe_position((-122.42, 37.77), LON_LAT) == "longitude = -122.42, latitude = 37.77"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("coordinate:y", ("coordinate", (1.0,))),
        ("coordinate:1", ("coordinate", (1.0,))),
        ("COORDINATE:x", ("coordinate", (0.0,))),
        ("squared-norm", ("squared_norm", ())),
        ("squared_norm:1,-2", ("squared_norm", (1.0, -2.0))),
        ("gaussian-bump:2", ("gaussian_bump", (2.0,))),
        ("gaussian_bump:2,0,0", ("gaussian_bump", (2.0, 0.0, 0.0))),
        ("linear:1,-2", ("linear", (0.0, 1.0, -2.0))),
        ("linear:5,1,-2", ("linear", (5.0, 1.0, -2.0))),
        ("indicator:0,0,1,1", ("indicator", (0.0, 0.0, 1.0, 1.0))),
    ],
)
def test_functions_have_one_grammar_in_all_commands(text: str, expected: tuple[str, tuple[float, ...]]) -> None:
    names = ("x", "y")
    assert parse_function(text, names) == expected
    release = parse_release(f"mean:{text}:0.5", names)
    assert (release.kind, (release.function, release.parameters), release.epsilon) == ("mean", expected, 0.5)
    assert named_function(*parse_function(text, names)).name


@pytest.mark.parametrize(
    "text",
    ["", "norm", "coordinate:z", "coordinate", "coordinate:2", "gaussian-bump", "gaussian-bump:a", "linear:1",
     "indicator:0,0,1", "linear:nan,1", "squared-norm(1,2)"],
)  # fmt: skip
def test_functions_that_are_none_are_refused_with_what_there_is(text: str) -> None:
    with pytest.raises(InvalidInput, match="function"):
        parse_function(text, ("x", "y"))


@pytest.mark.parametrize("text", ["median:x:1", "mean:coordinate", "mean", "mean:coordinate:0:much", "count", ""])
def test_releases_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="--release"):
        parse_release(text, ("x", "y"))
    assert parse_release("counts", ("x", "y")).epsilon is None


def read(given: str | None) -> str:
    return read_hidden(given, option="--token", variable="SEMILOCAL_TEST_TOKEN")


def test_a_value_comes_from_the_command_line_a_file_a_prompt_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert read(None) == ""
    monkeypatch.setenv("SEMILOCAL_TEST_TOKEN", " from-the-environment\n")
    assert read(None) == "from-the-environment"
    assert read("plain") == "plain"
    file = tmp_path / "token"
    file.write_text("\n  from-a-file \n")
    file.chmod(0o600)
    assert read(f"@{file}") == "from-a-file"
    assert capsys.readouterr().err == ""
    file.chmod(0o644)
    assert read(f"@{file}") == "from-a-file"
    assert "can be read by others" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdin", io.StringIO("from-a-pipe\n"))
    assert read("-") == "from-a-pipe"

    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("getpass.getpass", lambda prompt: f"typed at {prompt}")
    assert read("-") == "typed at token:"


@pytest.mark.parametrize("text", ["", "a\nb\n"])
def test_a_file_without_exactly_one_line_is_refused_without_showing_it(tmp_path: Path, text: str) -> None:
    (tmp_path / "token").write_text(text)
    with pytest.raises(InvalidInput, match="must hold one line"):
        read(f"@{tmp_path / 'token'}")
    with pytest.raises(InvalidInput, match="cannot read"):
        read(f"@{tmp_path / 'nothing'}")


@pytest.mark.parametrize("text", ["", " "])
def test_an_empty_text_is_no_value(text: str) -> None:
    with pytest.raises(InvalidInput, match="--token: is empty; give it, or leave --token out"):
        read(text)


JOB = (*UNIT, "--trust", "curator", "--seed", "1")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_people(tmp_path / "people.csv", crowd(200))


def test_what_is_typed_wins_over_the_environment(
    capsys: pytest.CaptureFixture[str], table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEMILOCAL_PARTITION_EPSILON", "2.5")
    monkeypatch.setenv("SEMILOCAL_COUNTS_EPSILON", "9")
    monkeypatch.setenv("SEMILOCAL_REQUIRE_ALL", "1")  # of another program
    for more, expected in (((), 2.5), (("--epsilon", "3.5"), 3.5)):
        assert run_json(capsys, "partition", table, *JOB, *more)["privacy"]["epsilon"] == expected
    monkeypatch.setenv("SEMILOCAL_PARTITION_EPSILON", "0")
    said = refused(capsys, "partition", table, *JOB)
    assert 'Invalid value "0.0" for SEMILOCAL_PARTITION_EPSILON provided by env. Must be > 0' in said


def test_a_variable_that_fits_no_option_is_refused(
    capsys: pytest.CaptureFixture[str], table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEMILOCAL_PARTITION_EPSILOM", "1")
    words = refused(capsys, "partition", table, *JOB, "--epsilon", "1")
    assert "did you mean SEMILOCAL_PARTITION_EPSILON?" in words


def test_words_that_may_be_a_position_are_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ("--position", "37.7712,", "-122.4271"), ("--positoin=37.7712,-122.4271",), ("37.7712,-122.4271",),
        ("-37.7712,-122.4271",),
    ):  # fmt: skip
        text = refused(capsys, "join", "http://127.0.0.1:9", "--yes", *words)
        assert "7712" not in text
        assert "4271" not in text


def test_without_the_extra_one_line_says_what_to_install() -> None:
    program = (
        "import sys\nsys.modules['cyclopts'] = None\nfrom semilocal.cli.main import main\nsys.exit(main(['--help']))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "semilocal: error: this needs cyclopts; install it with: pip install 'semilocal[cli]'\n"


def test_a_shell_learns_commands_and_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    script = tmp_path / "completion.bash"
    assert main(["--install-completion", "--shell", "bash", "--output", str(script)]) == 0
    text = script.read_text()
    for word in ("partition", "campaign", "confirm", "--epsilon", "--rows-are-people"):
        assert word in text
    assert str(script) in (tmp_path / ".bashrc").read_text()
