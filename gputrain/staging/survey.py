"""What of a folder travels, and what stays behind and by which rule: names and sizes, nothing is sent."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

import attrs

from gputrain.errors import Fault, SpecError
from gputrain.staging.dockerignore import NOTHING, DockerIgnore
from gputrain.staging.ignore import NEVER, OWN_FILE, IgnoreRules, above
from gputrain.tables import Shown, Table

MAX_FILES = 20_000
_SHOWN = 50
_NAMED = 3
_MISSED = re.compile(r"FileNotFoundError: \[Errno 2\][^\n]*?: ['\"]([^'\"\n]{1,500})['\"]")


@attrs.frozen(kw_only=True)
class Travelling(Shown):
    """One file that travels."""

    path: str
    """From the folder that is sent, with ``/``."""
    full: str
    size: int
    """Bytes."""
    is_asked_for: bool
    """A line of ``.gputrainignore`` takes it back, so it travels whatever it holds."""


@attrs.frozen(kw_only=True)
class Behind(Shown):
    """One file or folder that stays behind."""

    path: str
    """From the folder that is sent, with ``/``; a folder ends in one."""
    told_by: str
    """The line that says so: ``.gitignore: data/``."""

    @property
    def is_somebodys(self) -> bool:
        """Whether a rule that somebody may change holds it back; caches and repositories never travel."""
        return not self.told_by.startswith(NEVER)

    def holds(self, path: str) -> bool:
        """Whether a path, from the folder that is sent, is this one or lies in it."""
        return path == self.path or (self.path.endswith("/") and f"{path}/".startswith(self.path))


@attrs.frozen(kw_only=True)
class Survey(Shown):
    """A folder of code, sorted into what travels and what stays behind."""

    folder: str
    files: tuple[Travelling, ...]
    behind: tuple[Behind, ...]

    @property
    def size(self) -> int:
        """Bytes of all that travels, before compression."""
        return sum(one.size for one in self.files)

    @property
    def text(self) -> str:
        """One line of it: ``12 files, 80.1 KiB travel; held back: data/ (.gitignore: data/)``."""
        counted = f"{len(self.files):,} file{'' if len(self.files) == 1 else 's'}"
        told = f"{counted}, {size_text(self.size)} travel{'s' if len(self.files) == 1 else ''}"
        held = [one for one in self.behind if one.is_somebodys]
        named = ", ".join(f"{one.path} ({one.told_by})" for one in held[:_NAMED])
        more = f" and {len(held) - _NAMED:,} more" if len(held) > _NAMED else ""
        return f"{told}; held back: {named}{more}" if held else told

    def behind_of(self, path: str) -> Behind | None:
        """What stayed behind and is, or holds, a file that somebody looked for by a relative path."""
        plain = os.path.normpath(path).replace(os.sep, "/")
        return next((one for one in self.behind if one.holds(plain)), None)

    @property
    def table(self) -> Table:
        """The biggest of what travels, and what stays behind."""
        biggest = sorted(self.files, key=lambda one: (-one.size, one.path))[:_SHOWN]
        rows = [(one.path, size_text(one.size), "travels") for one in biggest]
        rows += [(one.path, "", f"stays: {one.told_by}") for one in self.behind[:_SHOWN]]
        hidden = len(self.files) + len(self.behind) - len(rows)
        return Table(
            title=f"Code of {self.folder}",
            columns=("path", "size", ""),
            rows=rows,
            right=("size",),
            caption=f"and {hidden:,} more" if hidden else "",
        )


def survey(folder: str, holding: DockerIgnore = NOTHING) -> Survey:
    """Look at a folder as it would be sent.

    Args:
        holding: what is held back besides, of a folder that a Dockerfile reads.

    Raises:
        SpecError: a link, a device, a name that another machine could misread or what may not be read is in
            it, or too many files.
    """
    root = os.path.abspath(folder)
    files: list[Travelling] = []
    behind: list[Behind] = []
    with reading(root):
        for one in _walk(root, *above(root), holding):
            if isinstance(one, Behind):
                behind.append(one)
            else:
                files.append(one)
            if len(files) > MAX_FILES:
                fix = f"list what is not code in {OWN_FILE}"
                refuse(root, f"it holds more than {MAX_FILES:,} files", fix)
    return Survey(folder=root, files=tuple(files), behind=tuple(behind))


def missed(folder: str, traceback: str) -> str:
    """What a rank looked for in vain and had stayed behind, as a sentence; empty where that is not so.

    Args:
        folder: the code, as it lies on this machine.
        traceback: of the rank.
    """
    found = _MISSED.search(traceback)
    if found is None or os.path.isabs(found[1]) or not os.path.isdir(folder):
        return ""
    try:
        behind = survey(folder).behind_of(found[1])
    except SpecError:
        return ""
    if behind is None:
        return ""
    way = f"put !/{behind.path} into {OWN_FILE}, or data into a bucket"
    return f"{behind.path} stayed behind ({behind.told_by}): {way}"


def _walk(root: str, inside: str, rules: IgnoreRules, holding: DockerIgnore) -> Iterator[Travelling | Behind]:
    folders = [(inside, rules)]
    while folders:
        base, rules = folders.pop()
        folder = os.path.join(root, base[len(inside) :])
        rules = rules.within(folder, base)
        for entry in sorted(os.scandir(folder), key=lambda one: one.name):
            path, is_folder = base + entry.name, entry.is_dir(follow_symlinks=False)
            shown = path[len(inside) :]
            held = rules.holding(path, is_folder=is_folder)
            told_by = held.told_by if held else holding.holding(shown, is_folder=is_folder)
            if told_by:
                yield Behind(path=f"{shown}/" if is_folder else shown, told_by=told_by)
                continue
            _check_entry(root, shown, entry)
            if not is_folder:
                size = entry.stat(follow_symlinks=False).st_size
                yield Travelling(path=shown, full=entry.path, size=size, is_asked_for=rules.takes_back(path))
            elif os.path.exists(os.path.join(entry.path, "pyvenv.cfg")):
                yield Behind(path=f"{shown}/", told_by=f"{NEVER}: a virtual environment")
            else:
                folders.append((f"{path}/", rules))


def _check_entry(root: str, path: str, entry: os.DirEntry[str]) -> None:
    if entry.is_symlink():
        target = os.readlink(entry.path)
        fix = f"put the file itself there, or list {path} in {OWN_FILE}"
        refuse(root, f"{path} is a link to {target}", fix)
    if not entry.is_dir(follow_symlinks=False) and not entry.is_file(follow_symlinks=False):
        refuse(root, f"{path} is neither a file nor a folder", f"list {path} in {OWN_FILE}")
    if not path.isprintable() or "\\" in path:
        refuse(root, f"{path!r} is a name that another machine may misread", "rename it")


@contextmanager
def reading(root: str) -> Iterator[None]:
    """Let what of a folder cannot be read, as another user's or gone since, come out as SpecError."""
    try:
        yield
    except OSError as error:
        path = str(error.filename or root).removeprefix(os.path.join(root, "")).rstrip(os.sep) or root
        fix = "make it readable" + ("" if path == root else f", or list {path} in {OWN_FILE}")
        if isinstance(error, FileNotFoundError):
            fix = "try again when nothing else writes there"
        refuse(root, f"{path} cannot be read ({error.strerror or error})", fix)


def refuse(root: str, why: str, fix: str) -> NoReturn:
    """Raise SpecError: the folder cannot travel."""
    fault = Fault(field="source_dir", value=repr(root), allowed=why, fix=fix)
    raise SpecError(f"{root} cannot travel: {why}", fix=fix, faults=(fault,))


def size_text(size: int) -> str:
    """Bytes as a person reads them.

    >>> size_text(75_000)
    '73.2 KiB'
    """
    for unit, least in (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if size >= least:
            return f"{size / least:,.1f} {unit}"
    return f"{size} bytes"


def biggest(files: Sequence[Travelling], count: int) -> str:
    """The biggest files, by name and size, in one line."""
    ones = sorted(files, key=lambda one: (-one.size, one.path))[:count]
    return ", ".join(f"{one.path} ({size_text(one.size)})" for one in ones)
