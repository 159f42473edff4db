"""The commands: each makes one call of a trainer, a job or the catalog, and shows the result.

What a command needs of the library is imported inside it, so that help and completion are quick.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

from gputrain import __version__
from gputrain.cli.options import (
    SPEC,
    STATES,
    Command,
    Group,
    ScriptCommand,
    all_of,
    from_gcloud,
    gpu,
    job,
    key,
    num_nodes,
    option,
    output,
    places,
    provisioning_model,
    script,
    spec,
)
from gputrain.cli.output import Exit, in_flags, is_json, note, print_json, result, show, waiting

if TYPE_CHECKING:
    from gputrain.cli.settings import Settings
    from gputrain.job import Job
    from gputrain.spec import TrainingSpec
    from gputrain.trainer import Trainer

EXITS = "Exit: 0 ok, 1 job failed, 2 request, 3 access, 4 capacity, 5 retry, 6 other."


@click.group(
    cls=Group,
    options_metavar="[--version] [--help]",
    subcommand_metavar="COMMAND [--help] ...",
    epilog=EXITS,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "token_normalize_func": lambda name: name.replace("_", "-"),  # as torchrun spells: --nproc_per_node
    },
)
@click.version_option(__version__, message="gputrain %(version)s")
def gputrain() -> None:
    """Run PyTorch scripts on multiple GPUs: here, on Vertex AI or Compute Engine."""


def command(
    name: str, *decorators: Callable[[Any], Any], group: click.Group = gputrain, cls: Any = Command
) -> Callable[[Callable[..., Any]], click.Command]:
    """A command that also takes the options of where it runs, which its function gets as `Settings`."""

    def decorate(function: Callable[..., Any]) -> click.Command:
        @functools.wraps(function)
        def run(**given: Any) -> Any:
            from gputrain.cli.settings import SHARED, Settings

            place = {one: given.pop(one) for one in SHARED}
            return function(Settings.of(place, "vertex" if given.get("from_gcloud") else "local"), **given)

        decorated: click.Command = group.command(name, cls=cls)(all_of(*decorators, places, output)(run))
        return decorated

    return decorate


@gputrain.command("gpus", cls=Command)
@click.argument("kind", metavar="[KIND[:COUNT]]", required=False)
@option("--prices", is_flag=True, help="prices of all regions, cheapest first; needs no project")
@option("--spot", is_flag=True, help="with --prices: only Spot")
@option("--all", "everything", is_flag=True, help="with --prices: all rows, not only the first 15")
@option("--region", "regions", metavar="REGION", multiple=True, help="only this region; repeatable")
@output
def gpus(**given: Any) -> Exit:
    """List GPUs, the machines that have one, or their prices."""
    from gputrain.cli.gpus import run

    return run(**given)


@gputrain.group("catalog", cls=click.Group)
def catalog() -> None:
    """Update the prices and zones that plans use."""


@command(
    "refresh",
    option("--dry-run", is_flag=True, help="show what changed, and write nothing"),
    option("--folder", metavar="FOLDER", help="write prices.csv and places.csv here instead"),
    group=catalog,
)
def refresh_catalog(settings: Settings, dry_run: bool, folder: str | None) -> Exit:
    """Read today's prices and zones from Google's lists."""
    from gputrain.catalog.refresh import refresh
    from gputrain.errors import RequestError
    from gputrain.google import GoogleClient

    project = settings.shared.get("project")
    if not project:
        raise RequestError("no project is named", fix="--project my-project")
    with waiting("waiting for Google's lists"):
        client = GoogleClient(project=project, **settings.emulator())
        found = refresh(client, dry_run=dry_run, folder=folder)
    return result(found, found.to_dict)


@command("quotas", gpu, num_nodes, provisioning_model)
def quotas(settings: Settings, **given: Any) -> Exit:
    """Show the project's GPU quotas. Says whether they are enough."""
    with _waiting(settings):
        found = _trainer(settings).quotas(
            given["gpu"] or None,
            num_nodes=1 if given["num_nodes"] is None else given["num_nodes"],
            provisioning_model=given["provisioning_model"] or None,
        )
    result(found, lambda: {"quotas": found.to_dicts(), "unread": list(found.unread)})
    return Exit.AGAIN if found.is_blind else Exit.OK


@command(
    "plan",
    script,
    from_gcloud,
    option("--explain", is_flag=True, help="explain the plan in sentences"),
    option("--sort", metavar="BY", type=click.Choice(["order", "price"]), default="order",
           help="order in which places are tried (default), or price"),
    option("--all", "everything", is_flag=True, help="all rows, not only the first 12"),
    spec,
    cls=ScriptCommand,
)  # fmt: skip
def plan(settings: Settings, explain: bool, sort: str, everything: bool, **given: Any) -> Exit:
    """Show where a job could run, and at what price. Creates nothing."""
    import attrs

    with _waiting(settings):
        planned = _trainer(settings, plans=True).plan(*_entry(given), **_fields(given))
    refusals = tuple(attrs.evolve(one, fix=in_flags(one.fix)) for one in planned.refusals)
    shown = attrs.evolve(planned, sorted_by=sort, shows_all=everything, refusals=refusals)
    result(shown.explain() if explain else shown, planned.to_dict)
    return Exit.OK if planned.candidates and not planned.faults else Exit.REQUEST


@command("doctor", script, key, spec, cls=ScriptCommand)
def doctor(settings: Settings, idempotency_key: str | None, **given: Any) -> Exit:
    """Check the setup and show how to fix each problem.

    With a script, it checks what that job needs.
    """
    from gputrain.times import picked

    with _waiting(settings):
        checks = _trainer(settings).doctor(idempotency_key=idempotency_key, **_fields(given))
    rows = [picked(one, "backend subject finding why fix") for one in checks]
    result(checks, {"is_ok": checks.is_ok, "checks": rows})
    if not checks.is_ok:
        return Exit.ACCESS
    return Exit.AGAIN if checks.is_blind else Exit.OK


@command(
    "build",
    click.argument("dockerfile", metavar="[DOCKERFILE]", required=False),
    option("--context", metavar="FOLDER", help="build context (default: the Dockerfile's folder)"),
    option("--base", metavar="IMAGE", help="image to start from, instead of a Dockerfile"),
    option("--requirements", metavar="REQ", multiple=True, help="pip requirement to add to the base; "
           "repeatable"),
    option("--builder", metavar="NAME", help="cloud-build (default), docker or podman",
           type=click.Choice(["cloud-build", "docker", "podman"]), default="cloud-build"),
    option("--create-repository", is_flag=True, help="create the repository if it is missing"),
)  # fmt: skip
def build(settings: Settings, create_repository: bool, **image: Any) -> Exit:
    """Build and push a container image. The same content is built once."""
    from gputrain.spec import Image

    built = _trainer(settings).build(Image(**image), on_line=note, create_repository=create_repository)
    return result(built.reference, built.to_dict)


_CANCELS = option("--cancel-on-interrupt", "cancels", is_flag=True, help="cancel the job on Ctrl-C")


@command(
    "submit",
    script,
    from_gcloud,
    option("--detach", is_flag=True, help="return as soon as the job is created"),
    _CANCELS,
    key,
    spec,
    cls=ScriptCommand,
)
def submit(
    settings: Settings, detach: bool, cancels: bool, idempotency_key: str | None, **given: Any
) -> Exit:
    """Start a job and follow its log until it ends.

    What follows -- goes to the script, or is the command to run. Where it runs is also set by variables
    (GPUTRAIN_PROJECT, ...) and by gputrain.toml.
    """
    with _waiting(settings):
        job = _trainer(settings).submit(*_entry(given), idempotency_key=idempotency_key, **_fields(given))
    if detach:
        return result(job.table, job.to_dict)
    note(job.uri)
    return _follow(job, cancels=cancels)


def _follow(job: Job, *, timeout: str | None = None, cancels: bool = False) -> Exit:
    """Show a job's log until it ends; raise what it failed with."""
    from gputrain.errors import JobFailedError
    from gputrain.lifecycle import State

    is_piped = not (sys.stdout.isatty() and sys.stderr.isatty())
    is_plain = is_piped and "GPUTRAIN_PROGRESS" not in os.environ
    with _interruptible(job, cancels=cancels):
        job.wait(timeout, progress="none" if is_json() else "plain" if is_plain else None)
    if is_json():
        print_json(job.to_dict())
        return Exit.OK if job.state is State.SUCCEEDED else Exit.JOB
    try:
        job.result()
    except JobFailedError as error:
        if not is_piped:  # the log above ends with them
            error.traceback, error.last_lines = "", ()
        raise
    if is_piped:
        note(str(job.table))
    else:
        show(job.table)
    return Exit.OK


@contextmanager
def _interruptible(job: Job, *, cancels: bool = False) -> Iterator[None]:
    """On Ctrl-C the job keeps running, or is cancelled; either way it says how to reattach or cancel."""
    try:
        yield
    except KeyboardInterrupt:
        follow, cancel = f"gputrain wait {job.uri}", f"gputrain cancel {job.uri}"
        text = f"The job keeps running. To follow it again:\n{follow}\nTo cancel it:\n{cancel}"
        if cancels:
            job.cancel()
            text = f"The job is being cancelled. To see its end:\n{follow}"
        raise KeyboardInterrupt(text) from None


@command(
    "map",
    script,
    option("--grid", metavar="NAME=V,V", multiple=True, help="values that the script gets as --NAME; "
           "repeatable"),
    option("--max-parallel", metavar="N", type=int, help="jobs at a time"),
    spec,
    cls=ScriptCommand,
)  # fmt: skip
def map_(settings: Settings, grid: tuple[str, ...], max_parallel: int | None, **given: Any) -> Exit:
    """Run a script over a parameter grid; repeat to resume."""
    from gputrain.cli import grids

    return grids.run(_trainer(settings), _fields(given), grid, max_parallel)


@gputrain.command("demo", cls=Command)
def demo() -> Exit:
    """Train on 4 CPU ranks here, stop half way, resume. Takes about a minute."""
    from gputrain.cli.demo import run

    try:
        run()
    except KeyboardInterrupt as stopped:
        raise KeyboardInterrupt(str(stopped) or "stopped; see `gputrain jobs`") from None
    return Exit.OK


@command(
    "jobs",
    option("--name", metavar="PREFIX", default="", help="only jobs whose name starts so"),
    option("--state", metavar="STATE", multiple=True, type=click.Choice(STATES), help="only in this state; "
           "repeatable"),
    option("--since", metavar="WHEN", help="created since then, or so long ago: 2h, 1d"),
)  # fmt: skip
def jobs(settings: Settings, name: str, state: tuple[str, ...], since: str | None) -> Exit:
    """List jobs, newest first."""
    with _waiting(settings):
        found = _trainer(settings).jobs(name=name, state=state or None, since=since)
    looked = {"backends": settings.backends, "left_out": list(found.left_out)}
    result(found.table, lambda: {**looked, "jobs": [one.to_dict() for one in found]})
    note(settings.scope)
    return Exit.OK


@command("show", job)
def show_job(settings: Settings, name: str) -> Exit:
    """Show a job's state, cost, attempts and error."""
    from gputrain.errors import JobError
    from gputrain.lifecycle import State

    job = _job(name, settings)
    result(job.table, job.to_dict)
    if is_json():
        return Exit.OK
    if len(job.attempts) > 1:
        show(job.attempts)
    if job.state.is_terminal and job.state is not State.SUCCEEDED:
        try:
            job.result()
        except JobError as error:
            click.echo(f"\n{error}")
    return Exit.OK


@command(
    "wait",
    job,
    option("--timeout", metavar="TIME", help="stop waiting after this: 90m, 12h; the job keeps running"),
    _CANCELS,
)
def wait(settings: Settings, name: str, timeout: str | None, cancels: bool) -> Exit:
    """Follow a job until it ends; exit with its status."""
    return _follow(_job(name, settings), timeout=timeout, cancels=cancels)


@command("metrics", job, option("--gpu", is_flag=True, help="use of GPUs and memory instead, every 15 s"))
def metrics(settings: Settings, name: str, gpu: bool) -> Exit:
    """Show the metrics that the script reported."""
    from gputrain.times import picked

    found = _job(name, settings).metrics("gpu" if gpu else "script")
    return result(found, lambda: picked(found, "count last rows progress"))


@command(
    "stacks",
    job,
    option("--timeout", metavar="TIME", default="60s", help="how long to wait for all nodes (default: 60s)"),
)
def stacks(settings: Settings, name: str, timeout: str) -> Exit:
    """Show each rank's Python stack, and who blocks whom."""
    from gputrain.times import plain

    found = _job(name, settings).stacks(timeout)
    document = {"story": found.story, "missing_nodes": list(found.missing), "ranks": plain(found.ranks)}
    result(found, document)
    for trace, ranks in {} if is_json() else found.traces.items():
        click.echo(f"\nrank {', '.join(map(str, ranks))}, most recent call first:\n{trace}")
    return Exit.OK


@command(
    "logs",
    job,
    option("--follow", "-f", is_flag=True, help="continue until the job ends"),
    option("--rank", metavar="N", type=int, help="only this rank's lines"),
    option("--tail", metavar="N", type=int, help="only the last N lines"),
    option("--since", metavar="WHEN", help="only since then, or so long ago: 10m, 2h"),
    option("--grep", metavar="REGEX", help="only lines that match"),
    option("--timestamps", is_flag=True, help="put the time before each line"),
)
def logs(settings: Settings, name: str, timestamps: bool, **wanted: Any) -> Exit:
    """Print what a job's ranks wrote."""
    from gputrain.display.live import PlainLines
    from gputrain.times import picked

    job = _job(name, settings)
    view, line = PlainLines(sys.stdout, timestamps=timestamps), None
    with _interruptible(job):
        for line in job.logs(**wanted):
            if is_json():
                print_json(picked(line, "time node_rank rank severity message"), indent=None)
            else:
                view.lines([line])
    if line is None:
        note("no matching log lines")
    return Exit.OK


@command(
    "download",
    job,
    click.argument("folder", metavar="[FOLDER]", required=False),
    option("--checkpoints", is_flag=True, help="the checkpoints instead of the outputs"),
)
def download(settings: Settings, name: str, folder: str | None, checkpoints: bool) -> Exit:
    """Copy a job's outputs here.

    FOLDER is made where it is missing; by default it is called as the job.
    """
    job = _job(name, settings)
    files, to = job.checkpoints if checkpoints else job.outputs, folder or job.id
    total = sum(one.size for one in files.list())
    is_shown = sys.stderr.isatty() and not is_json()
    with click.progressbar(length=total, label=files.uri, file=sys.stderr, hidden=not is_shown) as bar:
        written = files.download(to, progress=lambda done, _: bar.update(done - bar.pos))
    count = "1 file" if len(written) == 1 else f"{len(written)} files"
    document = {"uri": files.uri, "folder": os.path.abspath(to), "files": list(map(str, written))}
    return result(f"{count}, {total:,} bytes, from {files.uri} in {to}", document)


@command("ssh", job, click.argument("node", metavar="[NODE]", type=int, default=0))
def ssh(settings: Settings, name: str, node: int) -> Exit | int:
    """Open a shell on a node of a job (default: node 0)."""
    import shlex
    import subprocess

    from gputrain.errors import RequestError

    line = _job(name, settings).ssh_command(node)
    if is_json():
        return result(line, {"command": line})
    note(line)
    try:
        return subprocess.call(shlex.split(line))
    except FileNotFoundError as error:
        fix = "install the Google Cloud CLI, or run the command where it is"
        raise RequestError("gcloud is not installed here", fix=fix) from error


@command("cancel", job)
def cancel(settings: Settings, name: str) -> Exit:
    """Stop a job."""
    job = _job(name, settings)
    job.cancel()
    return result(job.table, job.to_dict)


@command("clean-up", option("--yes", is_flag=True, help="remove them without asking"))
def clean_up(settings: Settings, yes: bool) -> Exit:
    """Remove VMs that no running job needs. Asks first."""
    import attrs

    from gputrain.times import picked

    trainer = _trainer(settings)
    with _waiting(settings):
        found = trainer.orphans()
    note(settings.scope)
    if not yes and not is_json():
        show(attrs.evolve(found.table, title="Would be removed"))
        is_asked = bool(found) and sys.stdin is not None and sys.stdin.isatty()
        if not is_asked or not click.confirm(f"Remove {len(found)}?", err=True):
            if found:
                note("nothing was removed; gputrain clean-up --yes removes without asking")
            return Exit.AGAIN if found.left_out else Exit.OK
    removes = yes or not is_json()
    gone = trainer.clean_up(found) if removes else found
    gone.left_out = tuple(dict.fromkeys((*found.left_out, *gone.left_out)))
    rows = [
        {**picked(one, "name place status"), "job": one.job_id, "price_usd_h": one.price and one.price.usd_h}
        for one in gone
    ]
    document = {"removed": removes, "backends": settings.backends, "left_out": list(gone.left_out)}
    result(attrs.evolve(gone.table, title="Removed"), {**document, "orphans": rows})
    return Exit.AGAIN if gone.left_out else Exit.OK


@gputrain.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> Exit:
    """Print a shell's completion script.

    bash and zsh: eval "$(gputrain completion bash)"; fish: gputrain completion fish | source
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None  # the three shells are click's own
    click.echo(kind(gputrain, {}, "gputrain", "_GPUTRAIN_COMPLETE").source())
    return Exit.OK


def _waiting(settings: Settings) -> Any:
    return waiting(f"waiting for {' and '.join(settings.backends)}")


def _trainer(settings: Settings, *, plans: bool = False) -> Trainer:
    from gputrain.trainer import Trainer

    return Trainer(settings.make(plans=plans))


def _entry(given: Mapping[str, Any]) -> tuple[TrainingSpec, ...]:
    """The spec of a gcloud config, where one is given; options win over it."""
    if (path := given["from_gcloud"]) is None:
        return ()
    from pathlib import Path

    from gputrain.spec import TrainingSpec

    return (TrainingSpec.from_gcloud(Path(path)),)


def _fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a spec that a command line gives."""
    context = click.get_current_context()
    names = {one.name for one in context.command.params if getattr(one, "section", "") == SPEC}
    names |= {"script", "module"}
    found = {name: given[name] for name in names if given[name] not in (None, ())}
    found = {name: value for name, value in found.items() if value is not False}  # 0 is a value
    found |= {name: dict(found[name]) for name in ("env", "secrets", "labels") if name in found}
    if rest := context.meta["rest"]:
        found["args" if {"script", "module"} & set(found) else "command"] = rest
    return found


def _job(name: str, settings: Settings) -> Job:
    """The job of a URI, or of a name among the jobs of these backends."""
    from gputrain.errors import RequestError

    with _waiting(settings):
        is_uri = name.startswith("gputrain://")
        job = _job_of_uri(name, settings) if is_uri else _job_of_name(name, settings)
        if job is None:
            fix = "gputrain jobs lists them"
            raise RequestError(f"there is no job {name!r}", why=settings.scope, fix=fix)
        job.refresh()
        return job


def _job_of_uri(uri: str, settings: Settings) -> Job:
    """With the backends that are set up, where the job is theirs; else with those that its record names."""
    from gputrain.errors import SpecError
    from gputrain.jobstore import JobRef
    from gputrain.trainer.jobs import by_name

    JobRef.parse(uri)
    with suppress(SpecError):
        return _trainer(settings).attach(uri)
    return by_name(uri, **settings.emulator())


def _job_of_name(name: str, settings: Settings) -> Job | None:
    from gputrain.errors import RequestError
    from gputrain.trainer.jobs import listed

    if not name:  # an unset $JOB names none
        return None
    # by the names that there are: no other job is taken for one that cannot be looked at now
    found, refused = listed(_trainer(settings).planner, name)
    exact = [job for job in found if job.id == name]
    if refused and not exact:
        raise next(iter(refused.values()))
    jobs = exact or found
    if len(jobs) > 1:
        there = ", ".join([job.uri for job in jobs][:5])
        raise RequestError(
            f"several jobs begin with {name!r}: {there}", fix="give the whole name, or the URI"
        )
    return next(iter(jobs), None)
