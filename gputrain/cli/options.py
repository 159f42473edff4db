"""The options that commands share, and how help is laid out."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
OPTIONS, PLACES, SPEC, OUTPUT = "Options", "Where it runs", "The job", "Output"
"""Sections of a command's help."""
GROUPS = {
    "Prepare": ("gpus", "quotas", "plan", "doctor", "build", "catalog", "completion"),
    "Run": ("demo", "submit", "map"),
    "Watch": ("jobs", "show", "logs", "wait", "metrics", "stacks", "ssh", "download"),
    "Stop": ("cancel", "clean-up"),
}
"""The commands, by what people do."""
ALIASES = {
    "run": "submit", "launch": "submit", "ls": "jobs", "list": "jobs", "ps": "jobs", "status": "show",
    "attach": "wait", "kill": "cancel", "stop": "cancel",
}  # fmt: skip
_SYNONYMS = {"--lines": "--tail", "-n": "--tail", "--cloud": "--backend", "--backends": "--backend",
             "--nprocs": "--nproc-per-node"}  # fmt: skip
STATES = ("queued", "provisioning", "running", "interrupted", "stopping", "succeeded", "failed", "cancelled",
          "expired")  # fmt: skip


def synonym(option: str) -> str:
    """Our option for what other launchers call it; empty where it is none of theirs."""
    from gputrain.spec.types import synonyms  # only after a slip: it takes long to load

    name, equals, value = synonyms().get(option.strip("-").replace("-", "_"), "").partition("=")
    if not name:
        return _SYNONYMS.get(option, "")
    flag = "--" + name.partition(" ")[0].replace("_", "-")
    return f"{flag} {value.partition(',')[0].strip(chr(39))}" if equals and " " not in name else flag


def pair(text: str) -> tuple[str, str]:
    """``NAME=VALUE``, read."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise click.BadParameter(f"{text!r}: expected NAME=VALUE")
    return name, value


def _backends(_ctx: object, _param: object, begun: str) -> list[str]:
    from gputrain.backends import registry

    return [name for name in registry.names() if name.startswith(begun)]


def _jobs_here(_ctx: object, _param: object, begun: str) -> list[str]:
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    home = os.environ.get("GPUTRAIN_HOME") or os.path.join(state, "gputrain")
    try:
        names = sorted(os.listdir(os.path.join(os.path.expanduser(home), "jobs")))
    except OSError:
        return []
    return [name for name in names if name[0].isalpha() and name.startswith(begun)]


class Option(click.Option):
    """An option in a section of the help."""

    def __init__(self, *names: Any, section: str = OPTIONS, **how: Any) -> None:
        super().__init__(*names, **how)
        self.section = section


class Command(click.Command):
    """A command whose help lists its own options; those of a job and a place are listed by ``submit``."""

    takes_rest = False
    """Whether words may follow ``--``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        own, ctx.meta["rest"] = args[:at], args[at + 1 :]
        if ctx.meta["rest"] and not self.takes_rest:
            raise click.UsageError(f"{ctx.command_path} takes nothing after --", ctx)
        return super().parse_args(ctx, own)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for one in self.get_params(ctx):
            if isinstance(one, click.Option) and (record := one.get_help_record(ctx)):
                sections.setdefault(getattr(one, "section", OPTIONS), []).append(record)
        left_out = [] if self.name == "submit" else [one for one in (PLACES, SPEC) if sections.pop(one, None)]
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows, col_max=formatter.width // 3)
        if left_out:
            titles = " and ".join(f'"{one}"' for one in left_out)
            formatter.write_paragraph()
            formatter.write_text(f"Also takes the options under {titles} of gputrain submit --help.")


class ScriptCommand(Command):
    """A command that takes a script, a module or, after ``--``, a command."""

    takes_rest = True


class Group(click.Group):
    """All commands; their help is grouped by what people do."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, ALIASES.get(cmd_name, cmd_name))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        rows = [
            (f"{title if n == 0 else '':8} {name}", self.commands[name].get_short_help_str(200))
            for title, names in GROUPS.items()
            for n, name in enumerate(names)
        ]
        formatter.write_dl(rows, col_max=19)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        formatter.write_text(self.epilog or "")  # without an empty line: all of it fits 24


FLAGS = {"backend": "--backend", "region": "--region"}
"""What a field is called on the command line; `option` adds its own."""


def option(flag: str, *names: str, **how: Any) -> Callable[[F], F]:
    """A decorator for one of our options."""
    FLAGS[names[0] if names and names[0][0] != "-" else flag[2:].replace("-", "_")] = flag
    return click.option(flag, *names, cls=Option, **how)


def all_of(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Several decorators as one, the first on top."""

    def decorate(function: F) -> F:
        for one in reversed(decorators):
            function = one(function)
        return function

    return decorate


def _place(flag: str, metavar: str, text: str, name: str = "", **how: Any) -> Callable[[F], F]:
    name = name or flag[2:].replace("-", "_")
    variable = f"GPUTRAIN_{name.upper()}"
    return option(flag, name, metavar=metavar, help=text, envvar=variable, section=PLACES, **how)


def _spec(flag: str, metavar: str | None, text: str, **how: Any) -> Callable[[F], F]:
    return option(flag, metavar=metavar, help=text, section=SPEC, **how)


def _start_logging(_ctx: object, _param: object, value: bool) -> None:
    if value:
        import logging

        logging.basicConfig(level=logging.DEBUG, format="%(asctime)s %(name)s %(message)s")
        logging.getLogger("urllib3").setLevel(logging.INFO)


_MODELS = click.Choice(["standard", "spot", "flex-start", "reservation-bound"])
_LAUNCHERS = click.Choice(["torchrun-env", "tensorflow", "none"])
_SEVERAL: dict[str, Any] = {"multiple": True}
_PAIRS: dict[str, Any] = {"multiple": True, "type": pair}
places = all_of(
    _place("--backend", "NAME", "local (default), vertex, compute or an installed one; repeat in order of "
           "preference", name="backends", multiple=True, shell_complete=_backends),
    _place("--project", "ID", "Google Cloud project"),
    _place("--region", "REGION", "repeat in order of preference", name="regions", multiple=True),
    _place("--bucket", "gs://BUCKET", "for code, logs and checkpoints"),
    _place("--image-repository", "NAME", "Artifact Registry repository for images that are built"),
    _place("--service-account", "EMAIL", "account that jobs run as"),
    _place("--endpoint", "URL", "an emulator on this machine instead of Google Cloud"),
)  # fmt: skip
"""Each is also a variable, ``GPUTRAIN_PROJECT``, and a key of ``gputrain.toml``."""
gpu = _spec("--gpu", "KIND:COUNT", "GPUs per node, H100:8; repeat in order of preference", **_SEVERAL)
num_nodes = _spec("--num-nodes", "N", "nodes (default: 1)", type=int)
provisioning_model = _spec("--provisioning-model", "MODEL", "standard, spot, flex-start, reservation-bound; "
                           "repeat in order of preference", multiple=True, type=_MODELS)  # fmt: skip
spec = all_of(
    gpu,
    num_nodes,
    _spec("--nproc-per-node", "N", "ranks per node (default: one per GPU)", type=int),
    provisioning_model,
    _spec("--reservation", "NAME", "reservation to use"),
    _spec("--machine-type", "TYPE", "Google Cloud machine type"),
    _spec("--image", "IMAGE", "container image, or a Dockerfile to build it from"),
    _spec("--env", "NAME=VALUE", "environment variable of the ranks, no secrets; repeatable", **_PAIRS),
    _spec("--secrets", "NAME=secret://...", "variable from Secret Manager; repeatable", **_PAIRS),
    _spec("--labels", "NAME=VALUE", "label on everything created; repeatable", **_PAIRS),
    _spec("--source-dir", "FOLDER", "folder to upload (default: the script's)"),
    _spec("--requirements", "REQ", "pip requirement or requirements.txt; repeatable", **_SEVERAL),
    _spec("--checkpoint-dir", "PLACE", "where checkpoints are kept between attempts"),
    _spec("--output-dir", "PLACE", "where results go"),
    _spec("--keep-outputs", None, "copy files written beside the code to the results", is_flag=True),
    _spec("--max-run-duration", "TIME", "limit of the run time: 90m, 12h, 1d"),
    _spec("--max-wait-duration", "TIME", "limit of the wait for capacity"),
    _spec("--hang-timeout", "TIME", "end a job that is silent for so long, with all stacks"),
    _spec("--max-cost", "USD", "limit of the whole job's cost", type=float),
    _spec("--price-per-hour", "USD", "what a machine costs, where no price is known", type=float),
    _spec("--max-restarts", "N", "restarts after preemption", type=int),
    _spec("--min-nodes", "N", "continue with as few nodes after losing some", type=int),
    _spec("--name", "NAME", "name of the job"),
    _spec("--launcher", "NAME", "torchrun-env, tensorflow or none", type=_LAUNCHERS),
)  # fmt: skip
job = click.argument("name", metavar="JOB", shell_complete=_jobs_here)
script = all_of(
    click.argument("script", metavar="[SCRIPT | -m MODULE] [-- ARGUMENTS]", required=False),
    option("--module", "-m", metavar="MODULE", help="run a module instead of a script"),
)
from_gcloud = option("--from-gcloud", metavar="FILE", help="take the job from a gcloud config.yaml")
key = option("--idempotency-key", metavar="TEXT", help="the same key always names the same job")
output = all_of(
    option("--json", is_flag=True, expose_value=False, section=OUTPUT,
           callback=lambda ctx, _, value: ctx.meta.update(json=value),
           help="print one JSON document"),
    option("--debug", is_flag=True, expose_value=False, callback=_start_logging, section=OUTPUT,
           help="log each step; show errors with their traceback"),
)  # fmt: skip
