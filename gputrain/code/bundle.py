"""The files of a job: what of a folder travels and what stays behind, packed into one archive by its hash.

Where the folder is in a git work tree, git decides what is ignored; elsewhere, or without git, its
``.gitignore`` files are read here. ``.gputrainignore`` is read in every folder and wins.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import io
import os
import posixpath
import re
import stat
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

import attrs

from gputrain.display.table import Table, TableDisplay
from gputrain.errors import FieldError, SpecError
from gputrain.text import secret_type

MAX_BYTES = 512 * 1024**2
"""What travels with a job is code; data and weights belong in a bucket."""
MAX_FILES = 20_000
MAX_SEARCHED = 64 * 1024
"""Bytes of a file that is searched for credentials; larger ones are code or data."""

GIT_FILE, OWN_FILE, DOCKER_FILE = ".gitignore", ".gputrainignore", ".dockerignore"
NEVER, SECRET = "not uploaded", "may hold credentials"  # the reasons that people read
_LISTED, _NAMED, _SHOWN = 10, 3, 50

_NEVER = (
    ".git", ".hg/", ".svn/", ".gputrain/", "__pycache__/", "*.pyc", ".ipynb_checkpoints/", ".mypy_cache/",
    ".pytest_cache/", ".ruff_cache/", ".venv", ".DS_Store",
)  # fmt: skip
_SECRET = (
    ".env", ".env.*", "!.env.example", "!.env.sample", "!.env.template", ".envrc", ".netrc", "_netrc",
    ".npmrc", ".pypirc", ".pgpass", ".my.cnf", ".s3cfg", ".boto", ".htpasswd", ".vault-token",
    ".git-credentials",
    ".aws/", ".azure/", ".docker/", ".gnupg/", ".kube/", ".ssh/", "**/.config/gcloud/", "**/.config/gh/",
    ".terraform/", "*.tfstate", "*.tfstate.*", "*.tfvars", "kaggle.json",
    "application_default_credentials.json", "client_secret*.json", "id_rsa", "id_dsa", "id_ecdsa",
    "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore",
    "*.kdbx", "*.ppk", ".*_history",
)  # fmt: skip
_LFS = b"version https://git-lfs.github.com/spec/"
_MISSED = re.compile(r"FileNotFoundError: \[Errno 2\][^\n]*?: ['\"]([^'\"\n]{1,500})['\"]")


@attrs.frozen(kw_only=True)
class CodeFile(TableDisplay):
    """A file that travels."""

    path: str
    """From the folder that is sent, with ``/``."""
    full: str
    size: int
    """Bytes."""
    is_asked_for: bool = False
    """A line of ``.gputrainignore`` takes it back, so it travels with any content."""


@attrs.frozen(kw_only=True)
class HeldBack(TableDisplay):
    """A file or folder that stays behind."""

    path: str
    """From the folder that is sent, with ``/``; a folder ends in one."""
    reason: str
    """The line that says so: ``.gitignore: data/``."""

    def holds(self, path: str) -> bool:
        """Whether a path, from the folder that is sent, is this one or lies in it."""
        return path == self.path or (self.path.endswith("/") and f"{path}/".startswith(self.path))


@attrs.frozen(kw_only=True)
class Survey(TableDisplay):
    """A folder of code, sorted into what travels and what stays behind."""

    folder: str
    files: tuple[CodeFile, ...]
    behind: tuple[HeldBack, ...]
    warnings: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all that travels, before compression."""
        return sum(one.size for one in self.files)

    @property
    def text(self) -> str:
        """One line: ``12 files, 80.1 KiB to upload; excluded: data/ (.gitignore: data/)``."""
        s = "" if len(self.files) == 1 else "s"
        sent = f"{len(self.files):,} file{s}, {size_text(self.size)} to upload"
        held = [one for one in self.behind if not one.reason.startswith(NEVER)]
        named = ", ".join(f"{one.path} ({one.reason})" for one in held[:_NAMED])
        more = f" and {len(held) - _NAMED:,} more" if len(held) > _NAMED else ""
        return f"{sent}; excluded: {named}{more}" if held else sent

    def behind_of(self, path: str) -> HeldBack | None:
        """What stayed behind and is, or holds, a file by a relative path."""
        plain = os.path.normpath(path).replace(os.sep, "/")
        return next((one for one in self.behind if one.holds(plain)), None)

    @property
    def table(self) -> Table:
        """The biggest files that travel, and what stays behind."""
        rows = [(one.path, size_text(one.size), "travels") for one in _biggest(self.files, _SHOWN)]
        rows += [(one.path, "", f"stays: {one.reason}") for one in self.behind[:_SHOWN]]
        hidden = len(self.files) + len(self.behind) - len(rows)
        caption = f"and {hidden:,} more" if hidden else ""
        title, columns = f"Code of {self.folder}", ("path", "size", "")
        return Table(title=title, columns=columns, rows=rows, right=("size",), caption=caption)


@attrs.frozen(kw_only=True)
class Archive:
    """A gzipped tarball in memory: the same bytes for the same files."""

    data: bytes = attrs.field(repr=False)
    sha256: str

    @property
    def name(self) -> str:
        """Its content-addressed name."""
        return f"{self.sha256}.tar.gz"


@attrs.frozen
class IgnoreFile:
    """The lines of an ignore file, as pathspec reads them."""

    name: str
    """As people read it: ``exp/.gitignore``."""
    lines: tuple[str, ...]
    base: str = ""
    """The folder that it lies in, from the folder that is sent: ``""`` or ``"exp/"``."""

    def check(self, path: str) -> tuple[bool | None, int, str]:
        """Whether it holds a path back (None: no line matches), by which line; a folder's path ends in /."""
        if not path.startswith(self.base):
            return None, -1, ""
        found = _matcher(self.lines).check_file(path[len(self.base) :])
        line = "" if found.index is None else self.lines[found.index]
        return found.include, -1 if found.index is None else found.index, f"{self.name}: {line.strip()}"

    def asks_for(self, path: str) -> bool:
        """Whether a line takes back this very file, and not a folder around it."""
        is_held, line, _ = self.check(path)
        folder = path.rpartition("/")[0]
        return is_held is False and not (folder and self.check(f"{folder}/")[1] == line)


@attrs.frozen
class DockerIgnore:
    """The lines of a ``.dockerignore``, as docker reads them: from the folder's top, the last one wins."""

    name: str = DOCKER_FILE
    lines: tuple[str, ...] = ()
    sent: Mapping[str, bytes] = MappingProxyType({})
    """A file to send, so that the build reads the same lines."""

    def holds(self, path: str) -> str:
        """The line that holds a path back, a folder's with / at its end; empty where it travels."""
        if path.endswith("/") and any(one.startswith("!") for one in self.lines):
            return ""  # a line may take back something inside
        found = _docker_matcher(self.lines).check_file(path.rstrip("/"))
        return f"{self.name}: {self.lines[found.index // 2]}" if found.include else ""


ALL = DockerIgnore()
"""Holds nothing back."""


def read_dockerignore(dockerfile: str, folder: str) -> DockerIgnore:
    """The lines for a Dockerfile: of the file beside it named after it, or the folder's. Raises OSError."""
    own = os.path.expanduser(dockerfile) + DOCKER_FILE
    is_own = os.path.isfile(own)
    path = own if is_own else os.path.join(folder, DOCKER_FILE)
    if not os.path.isfile(path):
        return ALL
    with open(path, "rb") as file:
        content = file.read()
    lines = [one.strip() for one in content.decode("utf-8-sig", "surrogateescape").split("\n")]
    kept = tuple(one for one in lines if one.strip("! ") and not one.startswith("#"))
    try:
        _docker_matcher(kept)
    except ValueError as error:  # docker builds nothing with it, and what it meant might be sent
        refuse(folder, f"{os.path.basename(path)} has a line that is no pattern ({error})", "fix that line")
    return DockerIgnore(os.path.basename(path), kept, {DOCKER_FILE: content} if is_own else {})


@cache
def _docker_matcher(lines: tuple[str, ...]) -> Any:
    from pathspec import PathSpec

    signs = [("!", one[1:].strip()) if one.startswith("!") else ("", one) for one in lines]
    globs = [f"{sign}/{posixpath.normpath(glob).lstrip('/')}" for sign, glob in signs]
    return PathSpec.from_lines("gitignore", [glob + end for glob in globs for end in ("", "/**")])


def survey(folder: str, docker: DockerIgnore = ALL) -> Survey:
    """Look at a folder as it would be sent; a link that stays inside travels as what it names.

    Raises SpecError for links that lead out, devices, names that another machine could misread, files that
    cannot be read, or too many files.
    """
    root = os.path.abspath(folder)
    with reading(root):
        return _Walk(root, docker).survey()


class _Walk:
    """One look at a folder."""

    def __init__(self, root: str, docker: DockerIgnore) -> None:
        self.root, self.docker = root, docker
        self.files: dict[str, CodeFile] = {}
        self.behind: list[HeldBack] = []
        self.links: list[str] = []
        self.problems: list[str] = []

    def survey(self) -> Survey:
        git = _GitTree.of(self.root)
        self._folder("", git, (), ())
        for path in self.links:
            self._follow(path)
        if self.problems:
            more = f"; and {len(self.problems) - _LISTED} more" * (len(self.problems) > _LISTED)
            fix = f"list them in {OWN_FILE}, or put the files themselves there"
            refuse(self.root, "; ".join(self.problems[:_LISTED]) + more, fix)
        files = tuple(sorted(self.files.values(), key=lambda one: one.path))
        behind = tuple(sorted(self.behind, key=lambda one: one.path))
        return Survey(folder=self.root, files=files, behind=behind)

    def _folder(
        self, base: str, git: _GitTree | None, ignored: Sequence[IgnoreFile], own: Sequence[IgnoreFile]
    ) -> None:
        folder = os.path.join(self.root, base)
        if base and os.path.exists(os.path.join(folder, ".git")):
            git = _GitTree.of(folder, base)  # a submodule, or a repository of its own
        own = (*own, *_ignore_file(folder, OWN_FILE, base))
        if git is None:
            ignored = (*ignored, *_ignore_file(folder, GIT_FILE, base))
        entries = {
            base + one.name + "/" * one.is_dir(follow_symlinks=False): one
            for one in sorted(os.scandir(folder), key=lambda one: one.name)
        }
        lines = git.lines([path for path in entries if not git.has(path)]) if git else {}
        for path, entry in entries.items():
            if reason := self._reason(path, entry.path, lines, ignored, own):
                self.behind.append(HeldBack(path=path, reason=reason))
            elif path.endswith("/"):
                self._folder(path, git, ignored, own)
            else:
                self._file(path, entry, any(one.asks_for(path) for one in own))

    def _reason(
        self, path: str, full: str, lines: Mapping[str, str], ignored: Sequence[IgnoreFile],
        own: Sequence[IgnoreFile],
    ) -> str:  # fmt: skip
        """Why a path stays behind; empty where it travels. Ours win, then secrets, then git."""
        for rules in (own, (IgnoreFile(SECRET, _SECRET),), ignored, (IgnoreFile(NEVER, _NEVER),)):
            for one in reversed(rules):
                is_held, _, reason = one.check(path)
                if is_held:
                    return reason
                if is_held is False and one.name != SECRET:
                    return self.docker.holds(path)
            if rules is ignored and path in lines:
                return lines[path]
        if path.endswith("/") and os.path.exists(os.path.join(full, "pyvenv.cfg")):
            return f"{NEVER}: a virtual environment"
        return self.docker.holds(path)

    def _file(self, path: str, entry: os.DirEntry[str], is_asked_for: bool) -> None:
        if not path.isprintable() or "\\" in path:
            self.problems.append(f"{path!r} is a name that another machine may misread")
        elif entry.is_symlink():
            self.links.append(path)
        elif not entry.is_file():
            self.problems.append(f"{path} is neither a file nor a folder")
        else:
            self._add(
                CodeFile(path=path, full=entry.path, size=entry.stat().st_size, is_asked_for=is_asked_for)
            )

    def _add(self, file: CodeFile) -> None:
        self.files[file.path] = file
        if len(self.files) > MAX_FILES:
            refuse(
                self.root, f"it holds more than {MAX_FILES:,} files", f"list what is not code in {OWN_FILE}"
            )

    def _follow(self, path: str) -> None:
        """Let a link travel as the files that it names, where these travel themselves."""
        real, top = os.path.realpath(os.path.join(self.root, path)), os.path.realpath(self.root)
        target = os.path.relpath(real, top).replace(os.sep, "/")
        named = [one for one in self.files.values() if f"{one.path}/".startswith(f"{target}/")]
        if not named or f"{path}/".startswith(f"{target}/"):
            there = os.readlink(os.path.join(self.root, path))
            self.problems.append(f"{path} is a link to {there}, which is not uploaded")
        for one in named:
            self._add(attrs.evolve(one, path=path + one.path[len(target) :]))


@attrs.frozen(eq=False)
class _GitTree:
    """What git says about the files of a work tree below a folder."""

    folder: str
    base: str
    files: frozenset[str]
    """What it tracks, and what is new and not ignored."""
    folders: frozenset[str]

    @classmethod
    def of(cls, folder: str, base: str = "") -> _GitTree | None:
        """None: no repository, no git, or the folder itself is ignored."""
        if not any((one / ".git").exists() for one in (Path(folder), *Path(folder).parents)):
            return None  # so no process is started
        listed = _git(folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        if listed is None or (not listed and _git(folder, "check-ignore", "--stdin", "-z", given=".\0")):
            return None
        files = frozenset(base + one.rstrip("/") for one in listed)
        folders = {base + one[:at] for one in listed for at, letter in enumerate(one) if letter == "/"}
        return cls(folder, base, files, frozenset(folders))

    def has(self, path: str) -> bool:
        plain = path.rstrip("/")
        return plain in self.files or (path.endswith("/") and plain in self.folders)

    def lines(self, paths: Sequence[str]) -> dict[str, str]:
        """The line of an ignore file that holds each of some paths back."""
        given = "".join(f"{path[len(self.base) :]}\0" for path in paths)
        lines = _git(self.folder, "check-ignore", "-v", "-z", "--stdin", given=given) if paths else []
        if lines is None:
            return dict.fromkeys(paths, "git")
        found = zip(lines[3::4], lines[::4], lines[2::4])
        return {self.base + path: f"{name}: {line}" for path, name, line in found if line[:1] != "!"}


def _git(folder: str, *words: str, given: str = "") -> list[str] | None:
    """What git prints, cut at its NULs; None where it fails or is not there."""
    command = ["git", "-C", folder, "-c", "core.fsmonitor=false", *words]  # which could run a program
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}  # of a hook
    try:
        done = subprocess.run(
            command, input=os.fsencode(given), capture_output=True, env=kept, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if done.returncode > 1 else os.fsdecode(done.stdout).split("\0")[:-1]


def _ignore_file(folder: str, name: str, base: str) -> Iterator[IgnoreFile]:
    path = os.path.join(folder, name)
    if os.path.isfile(path):
        with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
            lines = tuple(line for line in file.read().split("\n") if _is_pattern(line))
        yield IgnoreFile(f"{base}{name}", lines, base)


def _is_pattern(line: str) -> bool:
    """Git takes a line that is no pattern for one that matches nothing."""
    try:
        return bool(line.strip()) and bool(_matcher((line,)))
    except ValueError:
        return False


@cache
def _matcher(lines: tuple[str, ...]) -> Any:
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(lines)


def check(seen: Survey, max_bytes: int = MAX_BYTES) -> Survey:
    """The same with warnings, where it may travel; its small files are read. Raises SpecError where it is too
    large, or a small file holds what looks like a credential.
    """
    if seen.size > max_bytes:
        named = ", ".join(f"{one.path} ({size_text(one.size)})" for one in _biggest(seen.files, _LISTED))
        why = f"it holds {size_text(seen.size)}, more than {size_text(max_bytes)}; the biggest files: {named}"
        refuse(seen.folder, why, f"list what is not code in {OWN_FILE}, and read data from a bucket")
    found, warnings = [], [*seen.warnings]
    for one in (one for one in seen.files if one.size <= MAX_SEARCHED):
        with reading(seen.folder), open(one.full, "rb") as file:
            content = file.read()
        if content.startswith(_LFS):
            warnings.append(f"{one.path} is a pointer of Git LFS, not the file: git lfs pull")
        if one.is_asked_for or b"\0" in content:
            continue
        if form := secret_type(content.decode("utf-8", "replace")):
            found.append((one.path, form))
    if found:
        named = ", ".join(f"{path} ({form})" for path, form in found[:_LISTED])
        more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
        first = found[0][0]
        refuse(
            seen.folder,
            f"what looks like a credential is in {named}{more}; everybody who may read the bucket could read "
            "it",
            f"list {first} in {OWN_FILE} and give it by reference, secrets={{'NAME': 'secret://projects/P/"
            f"secrets/S/versions/V'}}; where it is none, !{first} in {OWN_FILE} takes it along",
        )
    return attrs.evolve(seen, warnings=tuple(warnings))


def missed(folder: str, traceback: str) -> str:
    """What a rank looked for in vain and had stayed behind, as a sentence; empty where that is not so."""
    found = _MISSED.search(traceback)
    if found is None or os.path.isabs(found[1]) or not os.path.isdir(folder):
        return ""
    with suppress(SpecError):
        if one := survey(folder).behind_of(found[1]):
            fix = f"put !/{one.path} into {OWN_FILE}, or data into a bucket"
            return f"{one.path} stayed behind ({one.reason}): {fix}"
    return ""


def pack(
    folder: str, *, made: Mapping[str, bytes] = MappingProxyType({}), docker: DockerIgnore = ALL
) -> Archive:
    """Pack what of a folder travels, and first of all files that are `made`, which win; times, owners and the
    order of the disk leave no trace. Raises SpecError as `survey` and `check`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as empty:
    ...     pack(empty, made={"a.py": b"pass"}) == pack(empty, made={"a.py": b"pass"})
    True
    """
    found = {one.path: one.full for one in (check(survey(folder, docker)).files if folder else ())}
    buffer = io.BytesIO()
    for path, content in sorted(made.items()):
        buffer.write(_member(path, content))
    with (
        reading(folder),
        gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=0, compresslevel=6) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in sorted(found.keys() - made.keys()):
            content, is_executable = _read(found[path])
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), 0o755 if is_executable else 0o644
            tar.addfile(entry, io.BytesIO(content))
    data = buffer.getvalue()
    return Archive(data=data, sha256=hashlib.sha256(data).hexdigest())


@functools.lru_cache(maxsize=4)
def _member(path: str, content: bytes) -> bytes:
    """A file of a tarball as a member of a gzip file, which others follow: the agent is compressed once."""
    entry = tarfile.TarInfo(path)
    entry.size = len(content)
    return gzip.compress(entry.tobuf() + content + bytes(-len(content) % tarfile.BLOCKSIZE), mtime=0)


def _read(full: str) -> tuple[bytes, bool]:
    """A file's content, and whether it is a program: Windows has no such mode, but scripts begin with #!."""
    with open(full, "rb") as file:
        content, mode = file.read(), os.fstat(file.fileno()).st_mode
    return content, bool(mode & stat.S_IXUSR) if os.name == "posix" else content.startswith(b"#!")


@contextmanager
def reading(root: str) -> Iterator[None]:
    """Turn a file of a folder that cannot be read, as another user's or gone since, into a SpecError."""
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
    fault = FieldError(field="source_dir", value=repr(root), expected=why, fix=fix)
    raise SpecError(f"{root} cannot be uploaded: {why}", fix=fix, faults=(fault,))


def size_text(size: int) -> str:
    """Bytes as a person reads them.

    >>> size_text(75_000)
    '73.2 KiB'
    """
    for unit, least in (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if size >= least:
            return f"{size / least:,.1f} {unit}"
    return f"{size} bytes"


def _biggest(files: Sequence[CodeFile], count: int) -> list[CodeFile]:
    return sorted(files, key=lambda one: (-one.size, one.path))[:count]
