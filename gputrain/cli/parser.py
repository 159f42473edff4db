"""The words of the command line. Nothing but argparse is loaded here, so that ``--help`` comes at once.

A library made for command lines costs more (typer takes 44 ms to load where argparse takes 5; 2026-11-22),
and what strangers need is said by `hints` in either case.
"""

from __future__ import annotations

import argparse
import os
import sys

from gputrain import __version__
from gputrain.cli.hints import Slip, check_command, check_words, in_plain_words, normal

TYPE_CHECKING = False  # as typing's, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, NoReturn

_EXITS = (
    "exit status: 0 well, 1 the job failed, 2 bad request, 3 no access or quota, 4 no capacity, "
    "5 try again, 6 unknown answer, 130 interrupted"
)
Row = tuple[str, str, str, type]
"""Flag, the word for its value, what it means, and its type; whoever is called checks the values."""

SPEC_FLAGS: tuple[Row, ...] = (
    ("--gpu", "KIND:COUNT", "GPUs per node; repeat it in order of preference", list),
    ("--num-nodes", "N", "machines", int),
    ("--nproc-per-node", "N", "ranks on each; one per GPU unless said", int),
    (
        "--provisioning-model",
        "MODEL",
        "standard, spot, flex-start, reservation-bound; repeat it in order",
        list,
    ),
    ("--reservation", "NAME", "the reservation to use", str),
    ("--machine-type", "TYPE", "Google's machine type", str),
    ("--image", "IMAGE", "container image to run in", str),
    ("--env", "NAME=VALUE", "environment of the ranks, never secrets; repeat it", list),
    ("--secrets", "NAME=secret://...", "a variable from Secret Manager; repeat it", list),
    ("--labels", "NAME=VALUE", "put on everything that is made; repeat it", list),
    ("--source-dir", "FOLDER", "what travels with the job; the script's folder unless said", str),
    ("--requirements", "REQ", "a pip requirement, or requirements.txt; repeat it", list),
    ("--checkpoint-dir", "PLACE", "where state lives between attempts", str),
    ("--output-dir", "PLACE", "where results go", str),
    ("--keep-outputs", "", "copy what the ranks write beside the code to where results go", bool),
    ("--max-run-duration", "TIME", "hard limit on running: 90m, 12h, 1d", str),
    ("--max-wait-duration", "TIME", "hard limit on waiting for capacity", str),
    ("--hang-timeout", "TIME", "end it with the stacks of all ranks after so long a silence", str),
    ("--max-cost", "USD", "hard limit on the cost of the whole job", float),
    ("--max-restarts", "N", "restarts after preemption", int),
    ("--min-nodes", "N", "go on with as few machines after losing one", int),
    ("--name", "NAME", "the job's name", str),
    ("--launcher", "WORD", "torchrun-env, tensorflow or none", str),
)
PAIRS = ("env", "secrets", "labels")
SHELLS = ("bash", "zsh", "fish")
FLAGS: Mapping[str, str] = {
    **{flag[2:].replace("-", "_"): flag for flag, *_ in SPEC_FLAGS},
    "backends": "--backend", "backend": "--backend", "project": "--project", "regions": "--region",
    "region": "--region", "bucket": "--bucket", "image_repository": "--image-repository",
    "service_account": "--service-account",
    "base": "--base", "dockerfile": "", "context": "--context", "builder": "--builder",
    "idempotency_key": "--idempotency-key", "script": "", "job": "", "module": "-m",
    "command": "--", "args": "--",
    "grid": "--grid", "over": "--grid", "max_parallel": "--max-parallel", "state": "--state",
    "grep": "--grep", "rank": "--rank", "tail": "--tail", "since": "--since", "timeout": "--timeout",
}  # fmt: skip
"""How a command line says what Python calls so; a script is a word without a flag."""


_PLACES: tuple[Row, ...] = (
    ("--backend", "NAME", "local (unless said), vertex, compute, or one that is installed; repeat it", list),
    ("--project", "ID", "", str),
    ("--region", "REGION", "repeat in order of preference", list),
    ("--bucket", "gs://BUCKET", "", str),
    ("--image-repository", "NAME", "where images that are built are kept", str),
    ("--service-account", "EMAIL", "the account that jobs run as", str),
    ("--endpoint", "URL", "an emulator on this machine, for all of Google's APIs", str),
)  # fmt: skip
_OUTPUT: tuple[Row, ...] = (
    ("--json", "", "one JSON document instead of a table", bool),
    ("--debug", "", "log every step, and errors with their traceback", bool),
)
_KEY: Row = ("--idempotency-key", "TEXT", "the same key gives the same job", str)
COMMANDS: Mapping[str, tuple[str, str, tuple[Row, ...]]] = {
    "gpus": ("GPUs on Google Cloud, or the machines that carry one", "gpu", (
        ("--region", "REGION", "only machines that this region has", str),
    )),
    "quotas": ("what the project's quotas carry", "", (
        ("--gpu", "KIND:COUNT", "only these, in these counts", list),
        ("--num-nodes", "N", "machines a job", int),
        ("--provisioning-model", "MODEL", "only these", list),
    )),
    "plan": ("every way a spec could run, best first; nothing is made", "script", (
        ("--explain", "", "in plain words", bool),
    )),
    "doctor": ("look at all that jobs need, or this one, and say what mends it", "script", (_KEY,)),
    "submit": ("start a job and show its log until it ends", "script", (
        ("--detach", "", "return as soon as it is made", bool), _KEY,
    )),
    "map": ("one job a point of a grid; the same words again go on where it was", "script", (
        ("--grid", "NAME=VALUE,VALUE", "values of a name, which the script gets as --NAME; repeat it", list),
        ("--max-parallel", "N", "jobs at a time", int),
    )),
    "jobs": ("jobs that exist, newest first", "", (
        ("--name", "PREFIX", "those whose name starts with it", str),
        ("--state", "STATE", "those in this state; repeat it", list),
        ("--since", "WHEN", "those made since then, or so long ago: 2h, 1d", str),
    )),
    "show": ("one job: its state, its attempts, and why it failed", "job", ()),
    "wait": ("show a job's log until it ends, and end as it does", "job", (
        ("--timeout", "TIME", "stop waiting after it: 90m, 12h; the job goes on", str),
    )),
    "stacks": ("where every rank of a job stands, and which hold up the others", "job", (
        ("--timeout", "TIME", "wait so long for all nodes", str),
    )),
    "metrics": ("what the script of a job reported", "job", (
        ("--gpu", "", "what its GPUs and ranks did instead, every 15 s", bool),
    )),
    "logs": ("what the ranks of a job wrote", "job", (
        ("--follow -f", "", "go on until the job ends", bool),
        ("--rank", "N", "only this rank's lines", int),
        ("--tail", "N", "only the last so many lines", int),
        ("--since", "WHEN", "only since then, or so long ago: 10m, 2h", str),
        ("--grep", "REGEX", "only lines in which it is found", str),
        ("--timestamps", "", "each line's time before it", bool),
    )),
    "cancel": ("ask a job to stop; twice is once", "job", ()),
    "build": ("build and push a container image, once for the same content", "dockerfile", (
        ("--context", "FOLDER", "what it reads; its own folder unless said", str),
        ("--base", "IMAGE", "an image to begin with, instead of a Dockerfile", str),
        ("--requirements", "REQ", "to put on the base; repeat it", list),
        ("--builder", "WORD", "cloud-build, docker, podman", str),
        ("--create-repository", "", "make it where there is none", bool),
    )),
    "clean-up": ("show what has no living job, and ask to remove it", "", (
        ("--yes", "", "remove it without asking", bool),
    )),
    "completion": ("what a shell needs to complete our words", "shell", ()),
}  # fmt: skip
"""Command -> what it does, the word that it takes without a flag, and its own options."""
_COMPLETED = 'bash, zsh or fish: eval "$(gputrain completion bash)"'
_WORDS: Mapping[str, Mapping[str, Any]] = {
    "gpu": {"nargs": "?", "metavar": "KIND[:COUNT]", "help": "any name of a GPU"},
    "script": {"nargs": "?", "help": "a Python file; its arguments follow --"},
    "job": {"metavar": "JOB", "help": "the job's uri, or its name"},
    "dockerfile": {"nargs": "?", "metavar": "DOCKERFILE", "help": "of the image; or name a --base"},
    "shell": {"choices": (*SHELLS, "words"), "metavar": "SHELL", "help": _COMPLETED},
}
_USAGES: Mapping[str, str] = {
    "script": "[SCRIPT | -m MODULE] [-- WORDS]", "gpu": "[KIND[:COUNT]]", "job": "JOB",
    "dockerfile": "[DOCKERFILE]", "shell": "SHELL",
}  # fmt: skip
"""How the same words stand in a command's first line of help."""
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "quotas": {"num_nodes": 1}, "jobs": {"name": ""}, "stacks": {"timeout": "60s"},
    "build": {"builder": "cloud-build"},
}  # fmt: skip
"""What an option is that is not given, where that is not None."""


class _Layout(argparse.HelpFormatter):
    """Help as wide as the terminal; shutil, which argparse asks for it, loads all kinds of archives."""

    def __init__(self, prog: str, **how: object) -> None:
        super().__init__(prog, width=_columns() - 2, **how)  # type: ignore[arg-type]  # handed on as they come

    def add_usage(self, usage: str | None, actions: Any, groups: Any, prefix: str | None = None) -> None:
        """As argparse has it; one that is written out is wrapped, too."""
        if usage:
            import textwrap

            margin, width = " " * len("usage: "), max(self._width, 11)
            usage = textwrap.fill(margin + usage, width, subsequent_indent=margin, break_on_hyphens=False)
            usage = usage.lstrip()
        super().add_usage(usage, actions, groups, prefix)


def _columns() -> int:
    """As `shutil.get_terminal_size` has it."""
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said):
        return int(said)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1).columns or 80
    except (ValueError, OSError):  # stdout is closed, or no terminal
        return 80


class Parser(argparse.ArgumentParser):
    """Raises `Slip` where argparse would end the process, and takes no flag that is cut short.

    A shortened flag could as well be the script's, and would be taken from it without a word.
    """

    def __init__(self, **how: object) -> None:
        super().__init__(allow_abbrev=False, formatter_class=_Layout, **how)  # type: ignore[arg-type]  # handed on as they come

    def error(self, message: str) -> NoReturn:
        """Raise it, with the command whose help tells more."""
        raise Slip(in_plain_words(message), f"{self.prog} --help tells what it takes")


def read(words: Sequence[str]) -> argparse.Namespace:
    """The command and its options; ``options.rest`` holds what follows ``--``.

    Raises:
        Slip: the words are no command of ours.
    """
    own, rest = _split(list(words))
    mine = normal(own)  # what follows -- is the script's, in its own spelling
    check_command(mine, COMMANDS)
    command = mine[0]
    parser, commands = parsers(command)
    if command in commands and not {"-h", "--help"} & set(mine):
        check_words(command, mine[1:], rest, commands[command])
        if rest and not commands[command].get_default("takes_rest"):
            raise Slip(f"gputrain {command} takes nothing after --", f"gputrain {command} --help")
    options = parser.parse_args(mine)
    options.rest = rest
    return options


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    if "--" not in words:
        return words, []
    at = words.index("--")
    return words[:at], words[at + 1 :]


def parsers(only: str = "") -> tuple[Parser, Mapping[str, Parser]]:
    """The parser, and that of each command by its name; where one alone is asked for, others are empty."""
    parser = Parser(
        prog="gputrain",
        description="Multi-GPU PyTorch jobs on this machine, Vertex AI and Compute Engine.",
        epilog=_EXITS,
    )
    parser.add_argument("--version", action="version", version=f"gputrain {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (text, word, _) in COMMANDS.items():
        takes_script = word == "script"
        usage = f"gputrain {name} [options] {_USAGES.get(word, '')}".rstrip()
        is_asked = only in ("", name)
        made: Parser = commands.add_parser(
            name, help=text, description=text, epilog=_EXITS, usage=usage, add_help=is_asked
        )
        made.set_defaults(takes_script=takes_script, takes_rest=takes_script or name == "completion")
        if is_asked:
            _fill(made, name)
    return parser, commands.choices


def _fill(parser: Parser, command: str) -> None:
    """Give a command's parser what it takes."""
    _, word, options = COMMANDS[command]
    if word:
        parser.add_argument(word, **_WORDS[word])
    if word == "script":
        text = "a module instead; without either, what follows -- is a command"
        parser.add_argument("-m", "--module", metavar="MODULE", help=text)
    _add(parser, options)
    if command not in ("gpus", "completion"):
        places = "also as $GPUTRAIN_BACKENDS, $GPUTRAIN_PROJECT, ..., or in gputrain.toml"
        _add(parser.add_argument_group("where", places), _PLACES)
    if word == "script":
        _add(parser.add_argument_group("spec"), SPEC_FLAGS)
    _add(parser.add_argument_group("output"), _OUTPUT)
    parser.set_defaults(**_DEFAULTS.get(command, {}))


def _add(group: argparse._ActionsContainer, rows: Sequence[Row]) -> None:
    for flags, word, text, kind in rows:
        how: dict[str, Any] = {"help": text or None}
        if kind is bool:
            how |= {"action": "store_true"}
        elif kind is list:
            how |= {"action": "append", "metavar": word}
        else:
            how |= {"type": kind, "metavar": word}
        if rows is _PLACES and kind is list:
            how["dest"] = f"{flags[2:]}s"
        group.add_argument(*flags.split(), **how)
