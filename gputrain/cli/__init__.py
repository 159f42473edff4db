"""``gputrain``: the calls of a trainer as commands.

A command reads its options, makes one call and shows the result: as a table, or with ``--json`` as one JSON
document. `gputrain.cli.output.Exit` lists the exit statuses.
"""

from __future__ import annotations

import errno
import io
import logging
import os
import shutil
import sys
from collections.abc import Sequence

TYPE_CHECKING = False  # as typing's, which takes long to load
if TYPE_CHECKING:
    import click

    from gputrain.errors import GputrainError


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    Args:
        words: the command line without the program's name; default: that of this process.
    """
    try:
        return _run(list(sys.argv[1:] if words is None else words))
    except KeyboardInterrupt:  # while modules load, which is most of a short command
        return 130


def _run(words: list[str]) -> int:
    import click

    from gputrain.cli.commands import gputrain
    from gputrain.cli.output import Exit, print_error

    if "_GPUTRAIN_COMPLETE" in os.environ:
        gputrain.main(prog_name="gputrain")  # answers the shell, and exits
    _prepare_streams()
    own = words[: words.index("--")] if "--" in words else words
    width = min(shutil.get_terminal_size().columns, 100) - 2
    try:
        try:
            with gputrain.make_context("gputrain", list(words), terminal_width=width) as context:
                return int(gputrain.invoke(context) or Exit.OK)
        finally:
            sys.stdout.flush()
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.UsageError as error:
        return print_error(_request_error(error, words), as_json="--json" in own)
    except KeyboardInterrupt as stop:
        click.echo(f"\n{stop}".rstrip(), err=True)
        return Exit.INTERRUPTED
    except OSError as error:
        if error.errno != errno.EPIPE:  # as in `gputrain jobs | head`
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that nothing fails at the exit
        return Exit.OK
    except Exception as error:
        from gputrain.errors import GputrainError

        if not isinstance(error, GputrainError) or "--debug" in own:
            raise
        return print_error(error, as_json="--json" in own)


def _prepare_streams() -> None:
    """Let a closed stream be the null device, and a letter that a stream lacks be a number; log warnings."""
    if logging.lastResort is not None:
        logging.getLogger("gputrain").addHandler(logging.lastResort)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  # until the process ends
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _request_error(error: click.UsageError, words: list[str]) -> GputrainError:
    """A slip on the command line as a gputrain error, with what to type instead."""
    import shlex

    import click

    from gputrain.cli.options import ScriptCommand, synonym
    from gputrain.errors import RequestError

    path = error.ctx.command_path if error.ctx else "gputrain"
    unknown = ""
    if isinstance(error, click.NoSuchOption):
        unknown = error.option_name
        near = [one for one in error.possibilities or () if one != "--help" and not synonym(unknown)]
        error = click.NoSuchOption(unknown, possibilities=near, ctx=error.ctx)
    fixes = [f"{path} --help"]
    if isinstance(error, click.exceptions.NoSuchCommand) and error.command_name.endswith(".py"):
        fixes = [shlex.join(["gputrain", "submit", *words])]
    elif isinstance(error.cmd, ScriptCommand) and not isinstance(error, click.BadParameter):
        at = next((n for n, word in enumerate(words) if word.partition("=")[0] == unknown), None)
        line = f"{path} train.py -- ..."
        if unknown and at is not None and "--" not in words:
            line = shlex.join(["gputrain", *words[:at], "--", *words[at:]])
        fixes = [f"what the script gets follows --: {line}"]
    if meant := synonym(unknown):
        fixes.insert(0, f"did you mean {meant}?")
    return RequestError(error.format_message().rstrip("."), fix="; or ".join(fixes))
