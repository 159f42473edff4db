"""What a command writes: tables for people, JSON for programs, errors, and its exit status."""

from __future__ import annotations

import enum
import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import click

from gputrain.cli.options import FLAGS

if TYPE_CHECKING:
    from gputrain.errors import GputrainError

Json = Mapping[str, Any]


class Exit(enum.IntEnum):
    """Exit statuses, one for each thing that a caller can do about it."""

    OK = 0
    JOB = 1
    """The job failed, was cancelled, expired or is lost: look into the job."""
    REQUEST = 2
    """The command line or the spec is wrong, or nothing on offer fits it: fix the request."""
    ACCESS = 3
    """Credentials, permissions, APIs, policies, quota, or what ``doctor`` found: fix the account."""
    CAPACITY = 4
    """No place had room: try elsewhere, or later."""
    AGAIN = 5
    """A temporary failure, a job that outlasts the wait for it, a partial answer: try again."""
    UNKNOWN = 6
    """Google gave an answer that gputrain does not know: report it."""
    INTERRUPTED = 130
    """Ctrl-C; a job that was submitted keeps running."""

    @classmethod
    def of(cls, error: BaseException) -> Exit:
        """The status for a gputrain error."""
        from gputrain import errors

        if isinstance(error, errors.NoPlacementError):
            answers = {cls.of(one.error) for one in error.attempts if one.error is not None}
            return cls.CAPACITY if not answers or cls.CAPACITY in answers else min(answers)
        statuses = (
            ((errors.JobTimeoutError, errors.StoppedError), cls.AGAIN),
            (errors.JobError, cls.JOB),
            (errors.RequestError, cls.REQUEST),
            (errors.AccessError, cls.ACCESS),
            (errors.CapacityError, cls.CAPACITY),
            (errors.TransientError, cls.AGAIN),
        )
        return next((status for kinds, status in statuses if isinstance(error, kinds)), cls.UNKNOWN)


def is_json() -> bool:
    """Whether the command that runs was called with ``--json``."""
    context = click.get_current_context(silent=True)
    return bool(context and context.meta.get("json"))


def result(value: object, document: Callable[[], Json] | Json) -> Exit:
    """Show what a command found: the value to people, the document to programs."""
    if is_json():
        print_json(document() if callable(document) else document)
    else:
        show(value)
    return Exit.OK


def show(value: object) -> None:
    """A value as it shows itself: with rich in a terminal, as plain aligned text anywhere else."""
    if sys.stdout.isatty() and os.environ.get("TERM") not in ("dumb", None):
        from rich.console import Console

        # a line that is too wide is wrapped by the terminal, so that it is copied in one piece
        Console().print(value, overflow="ignore", crop=False)
    else:
        click.echo(str(value))


def note(text: str) -> None:
    """What a person should know beside the result: on stderr, and not with ``--json``."""
    from gputrain.text import sanitize

    if not is_json():
        click.echo(sanitize(text), err=True)


def waiting(text: str) -> AbstractContextManager[object]:
    """A spinner at a terminal that says what a slow command waits for."""
    if is_json() or not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(text)


def print_json(document: Json, *, indent: int | None = 2) -> None:
    """A JSON document; without ``indent`` in one line, for streams of them."""
    click.echo(json.dumps(document, indent=indent))  # other letters as \\u, so that none moves a terminal


def print_error(error: GputrainError, *, as_json: bool) -> Exit:
    """Write an error, to stderr for people or as the document for programs; its exit status."""
    import attrs

    from gputrain.text import sanitize

    if as_json:
        print_json(error_document(error))
        return Exit.of(error)
    text = str(error)
    for fault in getattr(error, "faults", ()):
        flag = FLAGS.get(fault.field, fault.field)
        text = text.replace(str(fault), str(attrs.evolve(fault, field=flag, fix=in_flags(fault.fix))))
    text = text.replace(fix := sanitize(error.fix), in_flags(fix))
    is_coloured = sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    word = click.style("error:", fg="red", bold=True) if is_coloured else "error:"
    click.echo(f"{word} {text}", err=True)
    return Exit.of(error)


def error_document(error: GputrainError) -> Json:
    """An error, in the place of a command's own document."""
    from gputrain.times import picked, plain

    facts = {"type": type(error).__name__, **picked(error, "kind what why fix")}
    return {"error": {**facts, "faults": plain(list(getattr(error, "faults", ())))}}


def in_flags(fix: str) -> str:
    """A fix as it is typed here: ``--num-nodes 2`` for ``num_nodes=2``."""
    fix = re.sub(rf"\b({'|'.join(FLAGS)})=(?=['\w])", lambda found: f"{FLAGS[found[1]]} ", fix)
    return re.sub(r"(--source-dir '[^']*'), script='([^']*)'", r"\1 \2", fix)
