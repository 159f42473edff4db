"""The one write: a folder that appears whole, and a supervisor that lives on its own."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from gputrain.backends.local import states
from gputrain.backends.local.held import NO_FORK, Hold
from gputrain.backends.local.order import BARE, MAIN, PACKAGES, complete, creator
from gputrain.backends.local.remains import clear_drafts, clear_late_results, remove
from gputrain.errors import PermissionDeniedError, ProviderError, TransientError
from gputrain.keeper import folder
from gputrain.records.folder import ELSEWHERE, explained, make_private

_PATIENCE_S = 60.0
_STARTED_S = 0.01

GONE_WITHIN_S = 1.0
"""How long a withdrawal waits for the processes to end; without their folder they end in any case."""

_SUPERVISOR = MAIN.format("gputrain.backends.local.supervisor")


def create(root: str, job_id: str, body: Mapping[str, Any]) -> None:
    """Start the job, once: a folder of that name that is there already is the job.

    Whatever comes in between, as what a handler of signals raises: there is a job, or nothing. After a Ctrl-C
    it is there as far as it came: whoever asked takes it back, and knows whether others were told of it.
    """
    path, hold, is_undone = os.path.join(root, job_id), Hold(), False
    try:
        with explained(root):
            clear_drafts(root)
            _take_up(path, hold)
            while hold.lock is None and not os.path.lexists(path):
                _make(root, path, complete(root, body), hold)
                if hold.lock is None:
                    _take_up(path, hold)
            if hold.lock is not None:
                refuse_foreign(path)  # our own too: not every file system keeps owners and modes
                _start_supervisor(path, hold.lock)
    except BaseException as error:
        # Another that cannot be started stays. Still locked: nobody takes it for one whose maker has died.
        is_ours = hold.is_new or os.path.lexists(os.path.join(path, folder.STATE))
        if is_ours and hold.is_of(path) and not isinstance(error, KeyboardInterrupt):
            is_undone = True
            _take_back(root, path, error)
        raise
    finally:
        try:
            hold.close()
        finally:  # a Ctrl-C fell there; here, before the number is taken away, it has no moment to fall
            lock, hold.lock = hold.lock, None
            if lock is not None:
                os.close(lock)
        if is_undone:
            with contextlib.suppress(OSError):
                _still_running(root, path, within_s=0.0)


def _take_back(root: str, path: str, why: BaseException) -> None:
    try:
        _set_aside(root, path)
    except FileNotFoundError:
        return
    except OSError as error:
        if isinstance(why, Exception):  # no answer of this place: it may run, and none other is to be asked
            fix = "submit it again with the same key, which takes it up"
            raise TransientError(f"{path} may have started", why=f"{why}; then {error}", fix=fix) from why


def _take_up(path: str, hold: Hold) -> None:
    """Hold a job that is there and never began; no other."""
    try:
        if os.path.lexists(path):
            refuse_foreign(path)
            _refuse_empty(path)
            await_start(path)
            _hold_abandoned(path, hold)
    except (FileNotFoundError, PermissionDeniedError):
        if os.path.lexists(path):  # else whoever made it took it back meanwhile
            raise
        hold.close()


def await_start(path: str) -> None:
    """Let whoever is making the job come to the end of it: until then it may die, and leave a name only."""
    until = time.monotonic() + _PATIENCE_S
    while states.is_starting(path) and time.monotonic() < until:
        time.sleep(_STARTED_S)


def withdraw(root: str, job_id: str, ask: str = "") -> bool:
    """Undo a create that was interrupted, of this process or for that ask: its name is free, what it started
    ends. The answer is whether nothing of it runs any more; a job that another process made is left alone.
    """
    path = os.path.join(root, job_id)
    with explained(root):
        order = folder.read_there(os.path.join(path, folder.ORDER)) or {}
        if order.get("creator") == creator() or (ask and order.get("ask") == ask):
            with contextlib.suppress(FileNotFoundError):
                _set_aside(root, path)
        running = _still_running(root, path, GONE_WITHIN_S)
        for gone in running:  # told once: without its folder it ends in any case
            os.rename(gone, os.path.join(root, f"{folder.DRAFT}{secrets.token_hex(8)}"))
        return not running


def _set_aside(root: str, path: str) -> None:
    """Free the name of a folder: a supervisor sees it, and kills what it started."""
    os.rename(path, os.path.join(root, _aside(path) + secrets.token_hex(4)))


def _aside(path: str) -> str:
    """How the names of folders begin that this process has set aside of that name."""
    return f"{folder.DRAFT}{os.path.basename(path)}.{creator()}."


def _still_running(root: str, path: str, within_s: float) -> list[str]:
    """What runs of what this process has set aside of that name; the rest is removed."""
    until, running = time.monotonic() + within_s, list[str]()
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(root):
            if not name.startswith(_aside(path)):
                continue
            gone = os.path.join(root, name)
            while folder.is_held(gone) and time.monotonic() < until:
                time.sleep(0.02)
            if folder.is_held(gone):
                running.append(gone)
            else:
                remove(gone)
    return running


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
    if os.path.lexists(os.path.join(path, folder.ORDER)) or not os.path.lexists(path):
        return
    if clear_late_results(path):
        return
    raise PermissionDeniedError(
        f"{path} is no job's folder",
        why=f"it holds no {folder.ORDER}, and no job starts in a folder that is there already",
        fix="remove it, or submit under another key",
        permission="write",
    )


def ask_to_stop(path: str) -> None:
    """Leave the word that the supervisor looks for; twice is once."""
    with explained(path):
        os.close(os.open(os.path.join(path, folder.CANCEL), os.O_WRONLY | os.O_CREAT, folder.FILE_MODE))


def _make(root: str, path: str, order: Mapping[str, Any], hold: Hold) -> None:
    """Make the job's folder, and hold it; not where another process was quicker."""
    make_private(Path(root))
    fresh = tempfile.mkdtemp(prefix=folder.DRAFT, dir=root)
    try:
        folder.write_json(os.path.join(fresh, folder.ORDER), order)
        folder.write_whole(os.path.join(fresh, folder.TOKEN), secrets.token_hex(32).encode())
        folder.write_whole(os.path.join(fresh, folder.RESERVE), b" " * folder.RESERVE_BYTES)
        hold.is_new = hold.take(fresh)
        assert hold.is_new, "nobody else knows of this folder yet"
        os.rename(fresh, path)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        hold.close()
    finally:
        remove(fresh)


def _hold_abandoned(path: str, hold: Hold) -> None:
    """Hold a job whose creator died before it could start it; no other."""
    if not states.is_abandoned(path) or not hold.take(path):
        return
    if os.path.lexists(os.path.join(path, folder.STATE)):  # started meanwhile, and over
        hold.close()
        return
    order = os.path.join(path, folder.ORDER)  # its time to wait for GPUs begins now, not when a creator died
    folder.write_json(order, {**(folder.read_json(order) or {}), "created_at": folder.now()})


def _start_supervisor(path: str, lock: int) -> None:
    argv = [sys.executable, *BARE, _SUPERVISOR, PACKAGES, path, str(lock)]
    log = os.path.join(path, folder.SUPERVISOR_LOG)
    with open(
        os.open(log, os.O_RDWR | os.O_CREAT | os.O_APPEND, folder.FILE_MODE), "r+b", buffering=0
    ) as out:
        with NO_FORK:
            started = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd="/",
                pass_fds=(lock,),
                start_new_session=True,
            )
        try:
            status = _exit_code(started, _PATIENCE_S)
        finally:
            if started.returncode is None:
                started.kill()
                _exit_code(started, GONE_WITHIN_S)
        if status is None:
            _refuse_start(path, f"it was not up within {_PATIENCE_S:g} s")
        # Where the caller ignores the ends of its children, Python knows no status, and says 0.
        if status or not os.path.lexists(os.path.join(path, folder.STATE)):
            out.seek(0)
            said = out.read().decode(errors="replace").strip()
            _refuse_start(path, said, status)


def _exit_code(started: subprocess.Popen[bytes], within_s: float) -> int | None:
    """As `Popen.wait`, which takes a lock that a Ctrl-C may leave shut; None where it runs on so long."""
    until, pause_s = time.monotonic() + within_s, 0.001
    while started.returncode is None and time.monotonic() < until:
        pid, status = started.pid, 0
        with contextlib.suppress(ChildProcessError):  # the caller ignores the ends of its children
            pid, status = os.waitpid(started.pid, os.WNOHANG)
        if pid:
            started.returncode = os.waitstatus_to_exitcode(status)
        else:
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.05)
    return started.returncode


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
