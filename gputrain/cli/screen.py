"""How things are written: tables for people, one JSON document for programs, errors apart from both; and what
an exit status means.
"""

from __future__ import annotations

import enum
import json
import os
import sys
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from gputrain.errors import GputrainError
from gputrain.terminal import safe, safe_json


class Exit(enum.IntEnum):
    """One status for each remedy, as errors are grouped by remedy."""

    OK = 0
    JOB = 1
    """The job failed, was cancelled, expired or is lost: look into the job."""
    REQUEST = 2
    """The command line or the spec is wrong, or nothing on offer fits it: mend the request."""
    ACCESS = 3
    """Credentials, permissions, APIs, policies, quota, or what ``doctor`` found: mend the account."""
    CAPACITY = 4
    """No place had room: try elsewhere, or later."""
    AGAIN = 5
    """A passing failure, a job that goes on after the wait for it, a look that saw little: try again."""
    UNKNOWN = 6
    """Google gave an answer that nobody foresaw: report it."""
    INTERRUPTED = 130
    """Ctrl-C; a job that was submitted goes on."""

    @classmethod
    def of(cls, error: Exception) -> Exit:
        """The status for an error of ours."""
        from gputrain import errors

        if isinstance(error, errors.NoPlacementError):
            answers = [one.error for one in error.attempts if one.error is not None]
            met = {cls.of(one) for one in answers}
            return cls.CAPACITY if not met or cls.CAPACITY in met else min(met)
        remedies = (
            ((errors.JobTimeoutError, errors.StoppedError), cls.AGAIN),
            (errors.JobError, cls.JOB),
            (errors.RequestError, cls.REQUEST),
            (errors.AccessError, cls.ACCESS),
            (errors.CapacityError, cls.CAPACITY),
            (errors.TransientError, cls.AGAIN),
        )
        return next((status for kinds, status in remedies if isinstance(error, kinds)), cls.UNKNOWN)


_PLAIN = str.maketrans({"≥": ">=", "·": "-", "─": "-", "…": "...", "×": "x"})
"""Signs of our own tables, in letters that every terminal has."""


def show(value: object) -> None:
    """A value as it shows itself: with rich in a terminal, as plain aligned text anywhere else."""
    if sys.stdout.isatty() and os.environ.get("TERM") not in ("dumb", "unknown", None):
        from rich.console import Console

        # nothing is cut or broken: what is too wide for the terminal is wrapped, and copied, by the terminal
        Console().print(value, overflow="ignore", crop=False)
    else:
        say(_in_letters_of(sys.stdout.encoding, str(value)))


def _in_letters_of(encoding: str | None, text: str) -> str:
    """A table whose signs are those of the encoding, where it lacks ours."""
    try:
        text.encode(encoding or "utf-8")
        return text
    except (UnicodeEncodeError, LookupError):
        return text.translate(_PLAIN)


def say(text: str) -> None:
    """Plain text, and the end of its line."""
    sys.stdout.write(f"{safe(text)}\n")


def remark(text: str, options: Namespace) -> None:
    """What a person should know beside what the command gives, in its place there; no part of it."""
    if not options.json:
        sys.stdout.flush()
        sys.stderr.write(f"{safe(text)}\n")


def confirmed(question: str, otherwise: str) -> bool:
    """Whether a person at a terminal says yes; where nobody sits there, it is told what does it unasked."""
    if not sys.stdin.isatty():
        sys.stderr.write(f"nothing was removed; {otherwise} does so without asking\n")
        return False
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def tell(document: Mapping[str, Any]) -> None:
    """A JSON document."""
    _write(document, indent=2)


def tell_line(document: Mapping[str, Any]) -> None:
    """A JSON document in one line, for streams of them."""
    _write(document)
    sys.stdout.flush()


def _write(document: Mapping[str, Any], indent: int | None = None) -> None:
    is_utf = (sys.stdout.encoding or "utf-8").lower().startswith("utf")  # as JSON is; nothing else is sure
    sys.stdout.write(f"{safe_json(json.dumps(document, indent=indent, ensure_ascii=not is_utf))}\n")


def tell_error(error: GputrainError, *, as_json: bool, command: str = "submit") -> None:
    """What happened, why, and what to do: on stderr for people, as a document on stdout for programs."""
    from gputrain.cli.wording import spoken

    told = spoken(error, command)
    if as_json:
        from gputrain.cli.documents import of_error

        tell(of_error(told))
    else:
        sys.stderr.write(f"{_marked('error:')} {told}\n")


def _marked(word: str) -> str:
    """A word that is to be seen first: in red at a terminal, unless ``NO_COLOR`` is set (no-color.org)."""
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") in ("dumb", "unknown", None)
    return word if is_plain or not sys.stderr.isatty() else f"\x1b[1;31m{word}\x1b[0m"
