"""The one write: a folder that appears whole, and a supervisor that lives on its own."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from gputrain.backends.base import Bundle
from gputrain.backends.local import states
from gputrain.backends.local.held import HELD
from gputrain.backends.local.order import BARE, MAIN, PACKAGES, complete, creator
from gputrain.errors import PermissionDeniedError, ProviderError
from gputrain.interrupts import sleep
from gputrain.keeper import folder
from gputrain.records.folder import ELSEWHERE, explained, make_private
from gputrain.staging import CodeSource

_FUNCTIONS = ".functions"
_PATIENCE_S = 60.0
_STARTED_S = 0.01
DRAFT_S = 60.0
"""After how long a folder that never got its name is taken for one whose maker has died."""

GONE_WITHIN_S = 1.0
"""How long a withdrawal waits for the processes to end; without their folder they end in any case."""

_SUPERVISOR = MAIN.format("gputrain.backends.local.supervisor")


def stage(source: CodeSource, root: Path) -> Bundle:
    """The code as it lies; a function's script will lie beside the jobs, under a name of its content."""
    if not source.made_files:
        return Bundle(location=source.folder, argv=source.argv)
    name, text = next(iter(source.made_files.items()))
    digest = hashlib.sha256(text.encode()).hexdigest()
    path = root / _FUNCTIONS / digest[:16] / name
    argv = (str(path), *source.argv[1:])
    return Bundle(location=source.folder, argv=argv, sha256=digest, content=text.encode())


def send(bundle: Bundle, root: Path) -> None:
    """Write a function's script; other code lies where it is."""
    if bundle.content:
        path = Path(bundle.argv[0])
        with explained(str(root)):
            make_private(path.parent)
            folder.write_whole(str(path), bundle.content)


def create(root: str, job_id: str, body: Mapping[str, Any]) -> None:
    """Start the job, once: a folder of that name that is there already is the job."""
    path = os.path.join(root, job_id)
    with explained(root):
        _clear_drafts(root)
        made, lock = None, _taken_up(path)
        while lock is None and not os.path.lexists(path):
            made = _make(root, path, complete(root, body))
            lock = made if made is not None else _taken_up(path)
        if lock is None:
            return
        try:
            refuse_foreign(path)  # our own too: not every file system keeps owners and modes
            _start_supervisor(path, lock)
        except BaseException:  # whatever came in between, there is either a job or nothing
            if made is not None and folder.read_json(os.path.join(path, folder.STATE)) is None:
                with contextlib.suppress(FileNotFoundError):
                    shutil.rmtree(_set_aside(root, path), ignore_errors=True)
            raise
        finally:
            HELD.close(lock)


def _taken_up(path: str) -> int | None:
    """The lock of a job that is there and never began; None for every other, and where there is none."""
    try:
        if os.path.lexists(path):
            refuse_foreign(path)
            _refuse_empty(path)
            await_start(path)
            return _abandoned(path)
    except (FileNotFoundError, PermissionDeniedError):
        if os.path.lexists(path):  # else whoever made it took it back meanwhile
            raise
    return None


def await_start(path: str) -> None:
    """Let whoever is making the job come to the end of it: until then it may die, and leave a name only."""
    until = time.monotonic() + _PATIENCE_S
    while states.is_starting(path) and time.monotonic() < until:
        sleep(_STARTED_S)


def withdraw(root: str, job_id: str, ask: str = "") -> bool:
    """Undo a create that was interrupted, of this process or for that ask: its name is free, what it started
    ends. The answer is whether nothing of it runs any more; a job that another process made is left alone.
    """
    path = os.path.join(root, job_id)
    order = folder.read_json(os.path.join(path, folder.ORDER))
    if order is not None and order.get("creator") != creator() and (not ask or order.get("ask") != ask):
        return True
    with explained(root):
        try:
            gone = _set_aside(root, path)
        except FileNotFoundError:
            return True
        until = time.monotonic() + GONE_WITHIN_S
        while folder.is_held(gone):
            if time.monotonic() > until:
                return False
            sleep(0.02)
        shutil.rmtree(gone, ignore_errors=True)
    return True


def _set_aside(root: str, path: str) -> str:
    """Where the folder is now, its name free again: a supervisor sees it, and kills what it started."""
    gone = os.path.join(root, f"{folder.DRAFT}{secrets.token_hex(8)}")
    os.rename(path, gone)
    return gone


def refuse_foreign(path: str) -> None:
    """Look whose folder it is before anything in it is believed.

    Raises:
        PermissionDeniedError: another user's, or one that others may write.
    """
    if not folder.is_own(path):
        raise PermissionDeniedError(
            f"{path} is not a folder of this user alone",
            why="whoever can write into it could have this user run anything",
            fix=f"look at what lies there and remove it, or keep jobs in a folder of your own: {ELSEWHERE}",
            permission="own",
        )


def _refuse_empty(path: str) -> None:
    """A job's folder has its order from the first moment on; another folder of that name is somebody's."""
    if not os.path.lexists(os.path.join(path, folder.ORDER)) and os.path.lexists(path):
        raise PermissionDeniedError(
            f"{path} is no job's folder",
            why=f"it holds no {folder.ORDER}, and no job starts in a folder that is there already",
            fix="remove it, or submit under another key",
            permission="write",
        )


def _clear_drafts(root: str) -> None:
    """Remove what clients left that died in the midst of a write."""
    with contextlib.suppress(OSError):
        for name in os.listdir(root):
            path = os.path.join(root, name)
            if not name.startswith(folder.DRAFT) or not folder.is_own(path):
                continue
            with contextlib.suppress(OSError):
                if os.lstat(path).st_mtime < folder.now() - DRAFT_S and not folder.is_held(path):
                    shutil.rmtree(path, ignore_errors=True)


def ask_to_stop(path: str) -> None:
    """Leave the word that the supervisor looks for; twice is once."""
    with explained(path):
        os.close(os.open(os.path.join(path, folder.CANCEL), os.O_WRONLY | os.O_CREAT, folder.FILE_MODE))


def _make(root: str, path: str, order: Mapping[str, Any]) -> int | None:
    """Make the job's folder, already locked; None where another process was quicker."""
    make_private(Path(root))
    fresh = tempfile.mkdtemp(prefix=folder.DRAFT, dir=root)
    try:
        folder.write_json(os.path.join(fresh, folder.ORDER), order)
        folder.write_whole(os.path.join(fresh, folder.TOKEN), secrets.token_hex(32).encode())
        folder.write_whole(os.path.join(fresh, folder.RESERVE), b" " * folder.RESERVE_BYTES)
        lock = HELD.take(fresh)
        assert lock is not None, "nobody else knows of this folder yet"
        try:
            os.rename(fresh, path)
        except OSError as error:
            HELD.close(lock)
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return None
            raise
        return lock
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _abandoned(path: str) -> int | None:
    """The lock of a job whose creator died before it could start it; None for every other job."""
    if not states.is_abandoned(path):
        return None
    lock = HELD.take(path)
    if lock is not None and os.path.lexists(os.path.join(path, folder.STATE)):  # started meanwhile, and over
        HELD.close(lock)
        return None
    if lock is not None:  # its time to wait for GPUs begins now, not when a creator died
        order = os.path.join(path, folder.ORDER)
        folder.write_json(order, {**(folder.read_json(order) or {}), "created_at": folder.now()})
    return lock


def _start_supervisor(path: str, lock: int) -> None:
    argv = [sys.executable, *BARE, _SUPERVISOR, PACKAGES, path, str(lock)]
    log = os.path.join(path, folder.SUPERVISOR_LOG)
    with open(
        os.open(log, os.O_RDWR | os.O_CREAT | os.O_APPEND, folder.FILE_MODE), "r+b", buffering=0
    ) as out:
        try:
            started = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd="/",
                pass_fds=(lock,),
                start_new_session=True,
                timeout=_PATIENCE_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            _refuse_start(path, f"it was not up within {_PATIENCE_S:g} s")
        if started.returncode:
            out.seek(0)
            said = out.read().decode(errors="replace").strip()
            _refuse_start(path, said, started.returncode)


def _refuse_start(path: str, said: str, status: int = 0) -> NoReturn:
    last = said.splitlines()[-1] if said else "it said nothing"
    if status in (errno.ENOSPC, errno.EDQUOT):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
    raise ProviderError(
        "the job's supervisor did not start",
        why=last,
        fix=f"try `{sys.executable} -I -S -c pass`; where that works, report this with its raw text",
        raw=said,
    )
