"""Downloads from a real HTTP server in this process: whole, broken, wrong, unreachable."""

from __future__ import annotations

import hashlib
import http.server
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from semilocal.errors import ChecksumMismatch, DownloadFailed, InvalidInput
from semilocal.lab.experiments.data import download

pytest.importorskip("pooch")

CONTENT = bytes(range(256)) * 5000
SHA = hashlib.sha256(CONTENT).hexdigest()


class Home(http.server.ThreadingHTTPServer):
    """A file server whose faults are settable."""

    content = CONTENT
    cut_after: int | None = None  # bytes of the body after which the connection breaks
    asked = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/file.bin"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Home

    def do_GET(self) -> None:
        home = self.server
        home.asked += 1
        if self.path != "/file.bin":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(home.content)))
        self.end_headers()
        self.wfile.write(home.content[: home.cut_after])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def home() -> Iterator[Home]:
    server = Home(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def get(home: Home, path: Path, *, sha256: str | None = SHA) -> str:
    return download(home.url, path, sha256=sha256, show=False)


def test_a_whole_download_is_checked_and_not_repeated(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.bin"
    assert get(home, path) == SHA
    assert path.read_bytes() == CONTENT
    assert get(home, path) == SHA
    assert home.asked == 1
    assert list(path.parent.iterdir()) == [path]


def test_a_broken_download_leaves_nothing_behind(home: Home, tmp_path: Path) -> None:
    home.cut_after = 700_000
    with pytest.raises(DownloadFailed, match="try again later"):
        get(home, tmp_path / "file.bin")
    assert list(tmp_path.iterdir()) == []
    home.cut_after = None
    assert get(home, tmp_path / "file.bin") == SHA


def test_another_file_is_refused_and_not_kept(home: Home, tmp_path: Path) -> None:
    home.content = CONTENT[:-1] + b"!"
    with pytest.raises(ChecksumMismatch, match="another file"):
        get(home, tmp_path / "file.bin")
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_file_on_disk_is_not_overwritten(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "file.bin"
    path.write_text("mine")
    with pytest.raises(ChecksumMismatch, match="move it away"):
        get(home, path)
    assert path.read_text() == "mine"
    assert home.asked == 0


def test_without_a_known_checksum_what_came_is_returned(home: Home, tmp_path: Path) -> None:
    assert get(home, tmp_path / "file.bin", sha256=None) == SHA


def test_no_network_is_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: the connection is refused
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/file.bin"
        with pytest.raises(DownloadFailed) as caught:
            download(url, tmp_path / "file.bin", sha256=SHA, show=False)
    assert str(caught.value).startswith(f"cannot get {url} (")
    assert "\n" not in str(caught.value)
    assert "by hand" in str(caught.value)


def test_a_missing_file_names_the_answer(home: Home, tmp_path: Path) -> None:
    with pytest.raises(DownloadFailed, match="404"):
        download(home.url + "x", tmp_path / "file.bin", sha256=SHA, show=False)


def test_only_the_web_is_asked(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="https://"):
        download("file:///etc/passwd", tmp_path / "x", sha256=None)
