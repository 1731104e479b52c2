"""Getting one file from its public home: checksum, resume, atomic.

Knows HTTP and checksums. A download goes to ``<file>.part`` and becomes
the file only when it is whole; a broken one goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from pathlib import Path

from ...errors import ChecksumMismatch, DownloadFailed, InvalidInput
from ...io import progress

__all__ = ["download", "sha256_of"]

CHUNK = 1 << 18
TIMEOUT = 30.0  # seconds without a byte
PARTIAL, BEYOND_END = 206, 416


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file as 64 hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def download(url: str, path: Path, *, sha256: str | None, show: bool = True, timeout: float = TIMEOUT) -> str:
    """Download one file, and return its SHA-256.

    Parameters
    ----------
    url : str
        Where the file lives; http or https.
    path : Path
        Where it goes. A file that is there and has the checksum is left alone, and nothing is sent.
    sha256 : str or None
        What it must have. None where nobody published one: then the caller records what came.
    show : bool
        Whether to show progress on stderr.

    Raises
    ------
    DownloadFailed
        In one sentence. What has arrived stays in ``<path>.part``, and the next call asks for the rest only.
    ChecksumMismatch
        The file is complete but another one; it is deleted.
    """
    if not url.startswith(("https://", "http://")):
        raise InvalidInput(f"the address must begin with https:// or http://; got {url!r}")
    if path.exists():
        present = sha256_of(path)
        if sha256 in (None, present):
            return present
        raise ChecksumMismatch(
            f"{path}: is there but is not the expected file (SHA-256 {present}, expected {sha256}); move it "
            "away and fetch again"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    try:
        _receive(url, part, show=show, timeout=timeout)
    except urllib.error.HTTPError as error:
        raise DownloadFailed(
            f"{url} answered {error.code} {error.reason}; try again later, or download it by hand to {path}"
        ) from None
    except (OSError, http.client.HTTPException) as error:
        kept = f"; {part.stat().st_size:,} bytes are kept and the next try goes on from there" if part.exists() else ""
        reason = getattr(error, "reason", error)
        raise DownloadFailed(
            f"cannot reach {url} ({reason}); check the network or download it by hand to {path}{kept}"
        ) from None
    received = sha256_of(part)
    if sha256 not in (None, received):
        part.unlink()
        raise ChecksumMismatch(
            f"{url} gave another file than expected: SHA-256 {received}, expected {sha256}; it was deleted"
        )
    os.replace(part, path)
    return received


def _receive(url: str, part: Path, *, show: bool, timeout: float) -> None:
    """Append to `part` until it is as long as the server says; start over if the server cannot resume."""
    have = part.stat().st_size if part.exists() else 0
    # Compression by the server would make byte ranges and lengths mean something else.
    headers = {"User-Agent": "semilocal", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    try:
        # An opener of its own: urlopen's shared one keeps the proxy settings of its first use.
        opener = urllib.request.build_opener()
        answer = opener.open(urllib.request.Request(url, headers=headers), timeout=timeout)
    except urllib.error.HTTPError as error:
        # 416 with the length of the file: everything had arrived, only the rename was missing.
        if error.code == BEYOND_END and error.headers.get("Content-Range", "") == f"bytes */{have}":
            return
        if error.code == BEYOND_END:
            part.unlink()
            _receive(url, part, show=show, timeout=timeout)
            return
        raise
    with answer:
        resumed = answer.status == PARTIAL and answer.headers.get("Content-Range", "").startswith(f"bytes {have}-")
        length = answer.headers.get("Content-Length")
        start = have if resumed else 0
        total = start + int(length) if length is not None else None
        with part.open("ab" if resumed else "wb") as stream, _bar(total, start, part, show) as bar:
            while chunk := answer.read(CHUNK):
                stream.write(chunk)
                bar.advance(len(chunk))
    arrived = part.stat().st_size
    if total is not None and arrived != total:
        raise http.client.IncompleteRead(b"", total - arrived)


def _bar(total: int | None, start: int, part: Path, show: bool) -> progress.Progress:
    return progress.Progress(total, part.name.removesuffix(".part"), done=start, unit="bytes", show=show)
