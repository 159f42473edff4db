"""A folder as one tarball: the same bytes for the same files, named by their hash.

Times, owners and the order of the disk leave no trace in it, so unchanged code has the same name everywhere
and travels once. Links, devices and names that another machine could misread are refused, not followed.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType

import attrs

from gputrain.secrets import form_of
from gputrain.staging.ignore import OWN_FILE
from gputrain.staging.survey import Survey, biggest, refuse, size_text, survey

MAX_BYTES = 512 * 1024**2
"""What travels with a job is code; data and weights belong in a bucket."""

MAX_SEARCHED = 64 * 1024
"""Bytes of a file that may be one of keys; larger ones are code or data."""
_NAMED = 10
_END = bytes(2 * tarfile.BLOCKSIZE)


@attrs.frozen(kw_only=True)
class Archive:
    """A gzipped tarball in memory."""

    data: bytes = attrs.field(repr=False)
    sha256: str
    files: int
    """How many files are in it."""

    @property
    def name(self) -> str:
        """Its content-addressed name."""
        return f"{self.sha256}.tar.gz"


def pack(
    folder: str,
    *,
    made: Mapping[str, bytes] = MappingProxyType({}),
    companions: Mapping[str, bytes] = MappingProxyType({}),
    max_bytes: int = MAX_BYTES,
) -> Archive:
    """Pack a folder, without what its ignore files name.

    Args:
        folder: an existing folder.
        made: further files by their path in the archive; they win over files of the same path.
        companions: the same of files that go with every folder: they are compressed once a process.
        max_bytes: refuse more content than this.

    Raises:
        SpecError: too large (the ten biggest files are named), something in it cannot travel, or a small file
            holds a private key or a token.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as empty:
    ...     pack(empty, made={"a.py": b"pass"}).files
    1
    """
    seen = survey(folder)
    found = {one.path: one for one in seen.files if one.path not in {*made, *companions}}
    _check_size(seen, max_bytes)
    secrets = []

    def written(into: io.BufferedIOBase) -> None:
        for path in sorted({*found, *made}):
            content, is_program = (made[path], False) if path in made else _read(found[path].full)
            if path in found and not found[path].is_asked_for and (form := _secret_in(content)):
                secrets.append((path, form))
            _write(into, path, content, is_program)
        into.write(_END)

    data = _companions(tuple(companions.items())) + _gzipped(written)
    _check_secrets(seen.folder, secrets)
    files = len(found) + len(made) + len(companions)
    return Archive(data=data, sha256=hashlib.sha256(data).hexdigest(), files=files)


@lru_cache(maxsize=1)
def _companions(files: tuple[tuple[str, bytes], ...]) -> bytes:
    """The archive's beginning. A gzip may have several parts, each compressed for itself (RFC 1952, 2.2)."""

    def written(into: io.BufferedIOBase) -> None:
        for path, content in files:
            _write(into, path, content, False)

    return _gzipped(written)


def _gzipped(write: Callable[[gzip.GzipFile], None]) -> bytes:
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=0, compresslevel=6) as packed:
        write(packed)
    return buffer.getvalue()


def _write(into: io.BufferedIOBase, path: str, content: bytes, is_program: bool) -> None:
    entry = tarfile.TarInfo(path)
    entry.size = len(content)
    entry.mode = 0o755 if is_program else 0o644
    entry.mtime = 0
    into.write(entry.tobuf(tarfile.PAX_FORMAT))
    into.write(content)
    into.write(bytes(-len(content) % tarfile.BLOCKSIZE))


def _read(full: str) -> tuple[bytes, bool]:
    with open(full, "rb") as file:
        return file.read(), bool(os.fstat(file.fileno()).st_mode & stat.S_IXUSR)


def _secret_in(content: bytes) -> str:
    """What kind of credential a small text holds; empty where it holds none."""
    if len(content) > MAX_SEARCHED or b"\0" in content:
        return ""
    return form_of(content.decode("utf-8", "replace"))


def _check_secrets(root: str, secrets: list[tuple[str, str]]) -> None:
    if not secrets:
        return
    named = ", ".join(f"{path} ({form})" for path, form in secrets[:_NAMED])
    more = f" and {len(secrets) - _NAMED} more" if len(secrets) > _NAMED else ""
    first = secrets[0][0]
    refuse(
        root,
        f"what looks like a credential is in {named}{more}; everybody who may read the bucket could read it",
        f"list {first} in {OWN_FILE} and give it by reference, secrets={{'NAME': 'secret://projects/P/secrets/"
        f"S/versions/V'}}; where it is none, !{first} in {OWN_FILE} takes it along",
    )


def _check_size(seen: Survey, max_bytes: int) -> None:
    if seen.size > max_bytes:
        refuse(
            seen.folder,
            f"it holds {size_text(seen.size)}, more than {size_text(max_bytes)}; the biggest files: "
            f"{biggest(seen.files, _NAMED)}",
            f"list what is not code in {OWN_FILE}, and read data from a bucket",
        )
