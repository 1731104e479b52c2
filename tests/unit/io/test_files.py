"""No output overwrites an input, nothing is half written, and a bad name is refused before the work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from semilocal.errors import InvalidInput
from semilocal.io.files import check_folder, check_outputs, replacing, write_text


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    path.write_text("x,y\n1,2\n")
    return path


def same_file(data: Path, how: str) -> Path:
    other = data.with_name("other.csv")
    if how == "symlink":
        other.symlink_to(data)
        return other
    if how == "hard link":
        os.link(data, other)
        return other
    if how == "relative":
        return Path(os.path.relpath(data))
    if how == "dots":
        return data.parent / ".." / data.parent.name / data.name
    return data


@pytest.mark.parametrize("how", ["same", "symlink", "hard link", "relative", "dots"])
def test_an_output_that_is_an_input_is_refused_under_any_name(data: Path, how: str) -> None:
    with pytest.raises(InvalidInput, match="same file as the input"):
        check_outputs({"--out": (same_file(data, how), (".csv",))}, inputs=[None, data])


@pytest.mark.parametrize("given", ["rows", "rows/*.parquet", "rows/**/*.parquet", "rows/part/b.parquet"])
def test_files_of_an_input_folder_or_pattern_are_not_overwritten(tmp_path: Path, given: str) -> None:
    (tmp_path / "rows" / "part").mkdir(parents=True)
    for name in ("a.parquet", "part/b.parquet"):
        (tmp_path / "rows" / name).write_text("positions")
    taken = "rows/a.parquet" if given == "rows/*.parquet" else "rows/part/b.parquet"
    (tmp_path / "linked.parquet").hardlink_to(tmp_path / taken)
    for output in (taken, "linked.parquet"):
        with pytest.raises(InvalidInput, match="is the same file as the input"):
            check_outputs({"--out": (tmp_path / output, ())}, inputs=[tmp_path / given])
    check_outputs({"--out": (tmp_path / "regions.parquet", ())}, inputs=[tmp_path / given])


def test_two_outputs_must_differ(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="same file as --out"):
        check_outputs({"--out": (tmp_path / "a.csv", ()), "--plot": (tmp_path / "a.csv", ())})


def test_bad_outputs_are_refused_beforehand(tmp_path: Path, data: Path) -> None:
    for path, words in (
        (tmp_path / "a.shp", "must end in .csv"),
        (tmp_path / "none" / "a.csv", "there is no folder"),
        (tmp_path, "must end in"),
    ):
        with pytest.raises(InvalidInput, match=words):
            check_outputs({"--out": (path, (".csv",))})
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InvalidInput, match="is a folder"):
        check_outputs({"--out": (tmp_path / "folder.csv", (".csv",))})
    with pytest.raises(InvalidInput, match="is a file, not a folder"):
        check_folder("--out", data)
    check_folder("--out", tmp_path / "new" / "deeper")
    check_outputs({"--out": (tmp_path / "A.CSV", (".csv",)), "--plot": (None, ())}, inputs=[data])


def test_a_folder_without_rights_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", refuse)  # root may write everywhere
    with pytest.raises(InvalidInput, match="cannot be written"):
        check_outputs({"--out": (tmp_path / "a.csv", ())})


def test_a_failure_on_the_way_changes_nothing(data: Path) -> None:
    before = data.read_text()

    def fail() -> None:
        with replacing(data) as stream:
            stream.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert data.read_text() == before
    assert os.listdir(data.parent) == [data.name]


def test_text_replaces_a_file_through_a_link_and_keeps_its_rights(tmp_path: Path, data: Path) -> None:
    data.chmod(0o640)
    link = tmp_path / "link.csv"
    link.symlink_to(data)
    write_text(link, "ü")
    assert link.is_symlink()
    assert data.read_bytes() == "ü".encode()
    assert data.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("linked", [False, True])
def test_a_pipe_or_a_device_is_refused_and_stays(tmp_path: Path, *, linked: bool) -> None:
    pipe = path = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    if linked:
        path = tmp_path / "link.csv"
        path.symlink_to(pipe)
    with pytest.raises(InvalidInput, match=r"--out .*is a device, a pipe or a folder"):
        check_outputs({"--out": (path, (".csv",))})
    with pytest.raises(InvalidInput, match="is a device, a pipe or a folder"):
        write_text(path, "rows")
    assert pipe.is_fifo()


def test_a_link_that_leads_to_itself_is_no_input_and_no_output(tmp_path: Path) -> None:
    loop = tmp_path / "loop.csv"
    loop.symlink_to(loop)
    check_outputs({"--out": (tmp_path / "new.csv", ())}, inputs=[loop])  # reading it says what is wrong
    with pytest.raises(InvalidInput, match=r"--out .*leads to itself"):
        check_outputs({"--out": (loop, ())})
    with pytest.raises(InvalidInput, match="leads to itself"):
        write_text(loop, "rows")


END = "stream.write(b'half'); stream.flush(); os.kill(os.getpid(), signal.SIGTERM)"
WRITERS = {
    "output": f"with replacing(path) as stream: {END}",
    "two outputs": f"with replacing(path.with_name('first')), replacing(path) as stream: {END}",
    "transcript": f"""
def half(get, campaign, stream): {END}
download.download = half
download.save_transcript("http://127.0.0.1:1", "name", path)""",
    "rows": f"with new_file(path) as part, part.open('wb') as stream: {END}",
}


@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)
def test_a_process_that_is_told_to_end_leaves_no_part_of_a_file(tmp_path: Path, writer: str) -> None:
    script = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom semilocal.engines.arrow import new_file\n"
        "from semilocal.io.files import replacing\nfrom semilocal.device import download\n"
        f"path = Path(sys.argv[1])\n{writer}\n"
    )
    ended = subprocess.run([sys.executable, "-c", script, str(tmp_path / "out.csv")], check=False)
    assert ended.returncode == -signal.SIGTERM
    assert list(tmp_path.iterdir()) == []
