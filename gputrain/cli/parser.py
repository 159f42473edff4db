"""The words of the command line. Nothing but argparse is loaded here, so that ``--help`` comes at once.

A library made for command lines costs more (typer takes 44 ms to load where argparse takes 5; 2026-11-22),
and what strangers need is said by `strangers` in either case.
"""

from __future__ import annotations

import argparse

from gputrain import __version__
from gputrain.cli.strangers import Slip, check_command, check_words, normal

TYPE_CHECKING = False  # as typing's, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import NoReturn

_EXITS = (
    "exit status: 0 well, 1 the job failed, 2 bad request, 3 no access or quota, 4 no capacity, "
    "5 try again, 6 unknown answer, 130 interrupted"
)
SPEC_FLAGS: tuple[tuple[str, str, str, type], ...] = (
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
"""Flag, the word for its value, what it means, and its type; the spec itself checks the values."""
PAIRS = ("env", "secrets", "labels")
SHELLS = ("bash", "zsh", "fish")
FLAGS: Mapping[str, str] = {
    **{flag[2:].replace("-", "_"): flag for flag, *_ in SPEC_FLAGS},
    "backends": "--backend", "backend": "--backend", "project": "--project", "regions": "--region",
    "region": "--region", "bucket": "--bucket", "image_repository": "--image-repository",
    "service_account": "--service-account",
    "idempotency_key": "--idempotency-key", "script": "", "job": "", "module": "-m",
    "command": "--", "args": "--",
    "grep": "--grep", "rank": "--rank", "tail": "--tail", "since": "--since", "timeout": "--timeout",
}  # fmt: skip
"""How a command line says what Python calls so; a script is a word without a flag."""


class Parser(argparse.ArgumentParser):
    """Raises `Slip` where argparse would end the process, and takes no flag that is cut short.

    A shortened flag could as well be the script's, and would be taken from it without a word.
    """

    def __init__(self, **how: object) -> None:
        super().__init__(allow_abbrev=False, **how)  # type: ignore[arg-type]  # handed on as they come

    def error(self, message: str) -> NoReturn:
        """Raise it, with the command whose help tells more."""
        raise Slip(message, f"{self.prog} --help tells what it takes")


def read(words: Sequence[str]) -> argparse.Namespace:
    """The command and its options; ``options.rest`` holds what follows ``--``.

    Raises:
        Slip: the words are no command of ours.
    """
    mine, rest = _split(normal(words))
    parser, commands = parsers()
    check_command(mine, commands)
    command = mine[0]
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


def parsers() -> tuple[Parser, Mapping[str, Parser]]:
    """The parser, and that of each command by its name."""
    parser = Parser(
        prog="gputrain",
        description="Multi-GPU PyTorch jobs on this machine, Vertex AI and Compute Engine.",
        epilog=_EXITS,
    )
    parser.add_argument("--version", action="version", version=f"gputrain {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    common, places = _common(), _places()
    spec = _spec()

    def add(name: str, text: str, *more: Parser) -> Parser:
        usage = f"gputrain {name} [options] [SCRIPT | -m MODULE] [-- WORDS]" if spec in more else None
        parents = [*more, common]
        made: Parser = commands.add_parser(
            name, help=text, description=text, parents=parents, epilog=_EXITS, usage=usage
        )
        made.set_defaults(takes_script=spec in more, takes_rest=spec in more)
        return made

    _gpus(add("gpus", "GPUs on Google Cloud, or the machines that carry one"))
    _quotas(add("quotas", "what the project's quotas carry", places))
    plan = add("plan", "every way a spec could run, best first; nothing is made", places, spec)
    plan.add_argument("--explain", action="store_true", help="in plain words")
    doctor = add("doctor", "look at all that jobs need, or this one, and say what mends it", places, spec)
    submit = add("submit", "start a job and show its log until it ends", places, spec)
    submit.add_argument("--detach", action="store_true", help="return as soon as it is made")
    for one in (doctor, submit):
        one.add_argument("--idempotency-key", metavar="TEXT", help="the same key gives the same job")
    jobs = add("jobs", "jobs that exist, newest first", places)
    jobs.add_argument("--name", default="", metavar="PREFIX", help="those whose name starts with it")
    jobs.add_argument("--state", action="append", metavar="STATE", help="those in this state; repeat it")
    jobs.add_argument("--since", metavar="WHEN", help="those made since then, or so long ago: 2h, 1d")
    _of_one_job(add, places)
    _build(add("build", "build and push a container image, once for the same content", places))
    clean_up = add("clean-up", "show what has no living job, and ask to remove it", places)
    clean_up.add_argument("--yes", action="store_true", help="remove it without asking")
    completion = add("completion", "what a shell needs to complete our words")
    completion.add_argument("shell", choices=(*SHELLS, "words"), help='eval "$(gputrain completion bash)"')
    completion.set_defaults(takes_rest=True)
    return parser, commands.choices


def _of_one_job(add_any: Callable[..., Parser], places: Parser) -> None:
    def add(name: str, text: str, *more: Parser) -> Parser:
        made = add_any(name, text, *more)
        made.add_argument("job", metavar="JOB", help="the job's uri, or its name")
        return made

    add("show", "one job: its state, its attempts, and why it failed", places)
    wait = add("wait", "show a job's log until it ends, and end as it does", places)
    wait.add_argument("--timeout", metavar="TIME", help="stop waiting after it: 90m, 12h; the job goes on")
    stacks = add("stacks", "where every rank of a job stands, and which hold up the others", places)
    stacks.add_argument("--timeout", default="60s", metavar="TIME", help="wait so long for all nodes")
    metrics = add("metrics", "what the script of a job reported", places)
    metrics.add_argument("--gpu", action="store_true", help="what its GPUs and ranks did instead, every 15 s")
    logs = add("logs", "what the ranks of a job wrote", places)
    logs.add_argument("--follow", "-f", action="store_true", help="go on until the job ends")
    logs.add_argument("--rank", type=int, metavar="N", help="only this rank's lines")
    logs.add_argument("--tail", type=int, metavar="N", help="only the last so many lines")
    logs.add_argument("--since", metavar="WHEN", help="only since then, or so long ago: 10m, 2h")
    logs.add_argument("--grep", metavar="REGEX", help="only lines in which it is found")
    logs.add_argument("--timestamps", action="store_true", help="each line's time before it")
    add("cancel", "ask a job to stop; twice is once", places)


def _common() -> Parser:
    parser = Parser(add_help=False)
    shown = parser.add_argument_group("output")
    shown.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    shown.add_argument("--debug", action="store_true", help="log every step, and errors with their traceback")
    return parser


def _places() -> Parser:
    parser = Parser(add_help=False)
    group = parser.add_argument_group(
        "where", "also as $GPUTRAIN_BACKENDS, $GPUTRAIN_PROJECT, ..., or in gputrain.toml"
    )
    group.add_argument("--backend", action="append", dest="backends", metavar="NAME",
                       help="local (unless said), vertex, compute, or another that is installed; "
                       "repeat in order of preference")  # fmt: skip
    group.add_argument("--project", metavar="ID")
    group.add_argument("--region", action="append", dest="regions", metavar="REGION",
                       help="repeat in order of preference")  # fmt: skip
    group.add_argument("--bucket", metavar="gs://BUCKET")
    group.add_argument("--image-repository", metavar="NAME", help="where images that are built are kept")
    group.add_argument("--service-account", metavar="EMAIL", help="the account that jobs run as")
    group.add_argument(
        "--endpoint", metavar="URL", help="an emulator on this machine, for all of Google's APIs"
    )
    return parser


def _spec() -> Parser:
    parser = Parser(add_help=False)
    parser.add_argument("script", nargs="?", help="a Python file; its arguments follow --")
    parser.add_argument("-m", "--module", metavar="MODULE",
                        help="a module instead; without either, what follows -- is a command")  # fmt: skip
    group = parser.add_argument_group("spec")
    for flag, word, text, kind in SPEC_FLAGS:
        if kind is list:
            group.add_argument(flag, metavar=word, help=text, action="append")
        elif kind is bool:
            group.add_argument(flag, help=text, action="store_true", default=None)
        else:
            group.add_argument(flag, metavar=word, help=text, type=kind)
    return parser


def _gpus(parser: Parser) -> None:
    parser.add_argument("gpu", nargs="?", metavar="KIND[:COUNT]", help="any name of a GPU")
    parser.add_argument("--region", metavar="REGION", help="only machines that this region has")


def _build(parser: Parser) -> None:
    parser.add_argument("dockerfile", nargs="?", metavar="DOCKERFILE", help="of the image; or name a --base")
    parser.add_argument("--context", metavar="FOLDER", help="what it reads; its own folder unless said")
    parser.add_argument("--base", metavar="IMAGE", help="an image to begin with, instead of a Dockerfile")
    parser.add_argument(
        "--requirements", metavar="REQ", action="append", help="to put on the base; repeat it"
    )
    parser.add_argument(
        "--builder", metavar="WORD", default="cloud-build", help="cloud-build, docker, podman"
    )
    parser.add_argument("--create-repository", action="store_true", help="make it where there is none")


def _quotas(parser: Parser) -> None:
    parser.add_argument("--gpu", action="append", metavar="KIND:COUNT", help="only these, in these counts")
    parser.add_argument("--num-nodes", type=int, default=1, metavar="N", help="machines a job")
    parser.add_argument("--provisioning-model", action="append", metavar="MODEL", help="only these")
