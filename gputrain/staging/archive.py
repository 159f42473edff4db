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
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import attrs

from gputrain.errors import Fault, SpecError
from gputrain.staging.ignore import DEFAULT_RULES, IGNORE_FILES, IgnoreRule, is_ignored, read_rules

MAX_BYTES = 512 * 1024**2
"""What travels with a job is code; data and weights belong in a bucket."""

MAX_FILES = 20_000
_NAMED = 10


@attrs.frozen(kw_only=True)
class Archive:
    """A gzipped tarball in memory."""

    data: bytes = attrs.field(repr=False)
    sha256: str
    files: int
    """How many files are in it."""
    content_bytes: int
    """Their size before compression."""

    @property
    def name(self) -> str:
        """Its content-addressed name."""
        return f"{self.sha256}.tar.gz"


def pack(
    folder: str,
    *,
    made: Mapping[str, bytes] = MappingProxyType({}),
    max_bytes: int = MAX_BYTES,
) -> Archive:
    """Pack a folder, without what its ignore files name.

    Args:
        folder: an existing folder.
        made: further files by their path in the archive; they win over files of the same path.
        max_bytes: refuse more content than this.

    Raises:
        SpecError: too large (the ten biggest files are named), or something in it cannot travel.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as empty:
    ...     pack(empty, made={"a.py": b"pass"}).files
    1
    """
    root = os.path.abspath(folder)
    found = {path: full for path, full in _files(root) if path not in made}
    _check_size(root, found, max_bytes)
    buffer = io.BytesIO()
    total = 0
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=0, compresslevel=6) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in sorted({*found, *made}):
            content, is_program = (made[path], False) if path in made else _read(found[path])
            total += len(content)
            tar.addfile(_entry(path, len(content), is_program), io.BytesIO(content))
    data = buffer.getvalue()
    return Archive(
        data=data, sha256=hashlib.sha256(data).hexdigest(), files=len(found) + len(made), content_bytes=total
    )


def _entry(path: str, size: int, is_program: bool) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path)
    entry.size = size
    entry.mode = 0o755 if is_program else 0o644
    entry.mtime = 0
    return entry


def _read(full: str) -> tuple[bytes, bool]:
    with open(full, "rb") as file:
        return file.read(), bool(os.fstat(file.fileno()).st_mode & stat.S_IXUSR)


def _files(root: str) -> Iterator[tuple[str, str]]:
    """Relative path (with ``/``) and full path of every file that travels; links are refused."""
    folders: list[tuple[str, tuple[IgnoreRule, ...]]] = [("", DEFAULT_RULES)]
    count = 0
    while folders:
        base, rules = folders.pop()
        rules = (*rules, *_rules_in(os.path.join(root, base), base))
        for entry in sorted(os.scandir(os.path.join(root, base)), key=lambda one: one.name):
            path = base + entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if is_ignored(path, is_folder, rules):
                continue
            _check_entry(root, path, entry)
            if is_folder:
                if not os.path.exists(os.path.join(entry.path, "pyvenv.cfg")):  # a virtual environment
                    folders.append((path + "/", rules))
                continue
            count += 1
            if count > MAX_FILES:
                _refuse(
                    root,
                    f"it holds more than {MAX_FILES:,} files",
                    "list what is not code in .gputrainignore",
                )
            yield path, entry.path


def _rules_in(folder: str, base: str) -> Iterator[IgnoreRule]:
    for name in IGNORE_FILES:
        full = os.path.join(folder, name)
        if os.path.isfile(full):
            with open(full, encoding="utf-8", errors="replace") as file:
                yield from read_rules(file, base)


def _check_entry(root: str, path: str, entry: os.DirEntry[str]) -> None:
    if entry.is_symlink():
        target = os.readlink(entry.path)
        _refuse(
            root,
            f"{path} is a link to {target}",
            f"put the file itself there, or list {path} in .gputrainignore",
        )
    if not entry.is_dir(follow_symlinks=False) and not entry.is_file(follow_symlinks=False):
        _refuse(root, f"{path} is neither a file nor a folder", f"list {path} in .gputrainignore")
    if not path.isprintable() or "\\" in path:
        _refuse(root, f"{path!r} is a name that another machine may misread", "rename it")


def _check_size(root: str, found: Mapping[str, str], max_bytes: int) -> None:
    sizes = {path: os.stat(full).st_size for path, full in found.items()}
    total = sum(sizes.values())
    if total <= max_bytes:
        return
    biggest = sorted(sizes.items(), key=lambda one: -one[1])[:_NAMED]
    named = ", ".join(f"{path} ({_mib(size)})" for path, size in biggest)
    _refuse(
        root,
        f"it holds {_mib(total)}, more than {_mib(max_bytes)}; the biggest files: {named}",
        "list what is not code in .gputrainignore, and read data from a bucket",
    )


def _mib(size: int) -> str:
    return f"{size / 1024**2:,.1f} MiB"


def _refuse(root: str, why: str, fix: str) -> None:
    fault = Fault(field="source_dir", value=repr(root), allowed=why, fix=fix)
    raise SpecError(f"{root} cannot travel: {why}", fix=fix, faults=(fault,))
