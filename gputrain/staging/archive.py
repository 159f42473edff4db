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

from gputrain.staging.dockerignore import NOTHING, DockerIgnore
from gputrain.staging.fitness import MAX_BYTES, check_size, credential_in, refuse_credentials
from gputrain.staging.survey import reading, survey

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
    holding: DockerIgnore = NOTHING,
) -> Archive:
    """Pack a folder, without what its ignore files name.

    Args:
        folder: an existing folder.
        made: further files by their path in the archive; they win over files of the same path.
        companions: the same of files that go with every folder: they are compressed once a process.
        max_bytes: refuse more content than this.
        holding: as of `survey`.

    Raises:
        SpecError: too large (the ten biggest files are named), something in it cannot travel or be read, or a
            small file holds a private key or a token.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as empty:
    ...     pack(empty, made={"a.py": b"pass"}).files
    1
    """
    seen = survey(folder, holding)
    found = {one.path: one for one in seen.files if one.path not in {*made, *companions}}
    check_size(seen, max_bytes)
    secrets = []

    def written(into: io.BufferedIOBase) -> None:
        for path in sorted({*found, *made}):
            content, is_program = (made[path], False) if path in made else _read(found[path].full)
            if path in found and (form := credential_in(found[path], content)):
                secrets.append((path, form))
            _write(into, path, content, is_program)
        into.write(_END)

    with reading(seen.folder):
        data = _companions(tuple(companions.items())) + _gzipped(written)
    refuse_credentials(seen.folder, secrets)
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
        content, mode = file.read(), os.fstat(file.fileno()).st_mode
    return content, is_program(content, mode)


def is_program(content: bytes, mode: int, *, has_modes: bool = os.name == "posix") -> bool:
    """Whether a file may be run there: Windows, which keeps no such mode, is told by how a script begins."""
    return bool(mode & stat.S_IXUSR) if has_modes else content.startswith(b"#!")
