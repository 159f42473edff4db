"""``gputrain``: the calls of a trainer, for people at a terminal and for shell scripts.

::

    gputrain gpus | quotas | plan | doctor | submit | jobs | show | wait | metrics | logs | cancel | clean-up

There is no logic here: a command reads its words, makes one call and shows what came back, as a table or,
with ``--json``, as one JSON document. What an exit status means is in `Exit`.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # as typing's, which takes long to load
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from gputrain.cli.hints import Slip
    from gputrain.cli.screen import Exit


def main(words: Sequence[str] | None = None) -> int:
    """Run one command; its exit status.

    Args:
        words: the command line without the program's name; that of this process unless given.
    """
    try:
        from gputrain.cli import streams

        with streams.guarded():
            try:
                try:
                    return _main(words)
                finally:
                    sys.stdout.flush()  # here, and not at the process's end, where nothing can be told
            except streams.Unwritten as error:
                return streams.given_up(error)
    except KeyboardInterrupt as stop:  # while modules are loaded, too, which is most of a short command
        return _interrupted(stop)


def _main(words: Sequence[str] | None) -> int:
    from gputrain.cli.hints import Slip
    from gputrain.cli.parser import read

    said = list(sys.argv[1:] if words is None else words)
    try:
        options = read(said)
    except Slip as slip:
        return _refused(slip, said)
    if options.command == "completion":
        from gputrain.cli.completion import complete

        return complete(options)
    if options.debug:
        import logging

        logging.basicConfig(level=logging.DEBUG, format="%(asctime)s %(name)s %(message)s")
        logging.getLogger("urllib3").setLevel(logging.INFO)
    return _run(options)


def _run(options: argparse.Namespace) -> int:
    """Run what was read; every end of it as an exit status."""
    from gputrain.cli import streams
    from gputrain.cli.commands import run
    from gputrain.cli.screen import Exit, tell_error
    from gputrain.errors import GputrainError, RequestError

    try:
        with streams.not_in_silence(lambda: _asked(options)):
            return run(options)
    except GputrainError as error:
        if options.debug:
            raise
        tell_error(error, as_json=options.json, command=options.command)
        return Exit.of(error)
    except FileNotFoundError:
        if _is_anywhere():
            raise
        fix = "change to a folder that is there"
        tell_error(RequestError("the current folder is gone", fix=fix), as_json=options.json)
        return Exit.REQUEST


def _asked(options: argparse.Namespace) -> str:
    """Who is asked, in words; nobody where a document is wanted."""
    from gputrain.cli import settings
    from gputrain.errors import GputrainError

    if options.json or "backends" not in options:
        return ""
    try:
        return " and ".join(settings.read(options).backends)
    except GputrainError:  # the command itself tells it
        return ""


def _is_anywhere() -> bool:
    """Whether the current folder still is; a shell stands in one that was removed until it leaves."""
    import os

    try:
        return bool(os.getcwd())
    except FileNotFoundError:
        return False


def _interrupted(stop: KeyboardInterrupt) -> int:
    """Say how to take up what goes on, if anything does."""
    told = str(stop)
    if told:
        from gputrain.cli.wording import words as spoken

        told = spoken(told)
    sys.stderr.write(f"\n{told}\n" if told else "\n")
    return 130  # Exit.INTERRUPTED, whose module may be what was being loaded


def _refused(slip: Slip, words: Sequence[str]) -> Exit:
    from gputrain.cli.screen import Exit, tell_error
    from gputrain.errors import RequestError

    mine = words[: words.index("--")] if "--" in words else words
    tell_error(RequestError(slip.what, fix=slip.fix), as_json="--json" in mine)
    return Exit.REQUEST
