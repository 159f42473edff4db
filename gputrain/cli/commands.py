"""The commands: each makes one call of a trainer, a job or the catalog, and shows the result.

What a command needs of the library is imported inside it, so that help and completion are quick.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from gputrain import __version__
from gputrain.cli.options import (
    SPEC,
    STATES,
    Group,
    ScriptCommand,
    Subgroup,
    from_gcloud,
    gpu,
    job,
    key,
    module,
    num_nodes,
    option,
    output,
    places,
    provisioning_model,
    script,
    spec,
)
from gputrain.cli.output import Exit, note, print_json, result, show, waiting

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


@gputrain.command(name="gpus")
@click.argument("kind", metavar="[KIND[:COUNT]]", required=False)
@option("--prices", is_flag=True, help="prices of all regions, cheapest first; needs no project")
@option("--spot", is_flag=True, help="with --prices: only Spot")
@option("--all", "everything", is_flag=True, help="with --prices: all rows, not only the first 15")
@option("--region", "regions", metavar="REGION", multiple=True, help="only this region; repeatable")
@output
def gpus(
    kind: str | None, prices: bool, spot: bool, everything: bool, regions: tuple[str, ...], as_json: bool
) -> Exit:
    """List GPUs, the machines that have one, or their prices."""
    from gputrain import catalog
    from gputrain.cli import documents
    from gputrain.errors import RequestError
    from gputrain.spec.gpu import parse_gpu

    if kind is None and not regions and not prices:
        found = catalog.gpus()
        return result(found, lambda: documents.of_gpus(found), as_json=as_json)
    for region in regions:
        if near := catalog.likely_region(region):
            raise RequestError(f"there is no region {region!r}", fix=f"--region {near}")
    count = None
    if kind is not None and ":" in kind:
        try:
            asked = parse_gpu(kind)
        except ValueError as error:
            raise RequestError(f"{kind}: {error}", fix="gputrain gpus H100:2") from error
        kind, count = asked.kind, asked.count
    shapes = catalog.shapes(kind, count)
    if regions:
        there = [one for region in regions for one in catalog.shapes(kind, count, region=region)]
        shapes = type(shapes)(one for one in shapes if one in there)
    if prices or spot:
        rows = documents.price_rows(shapes, regions, spot=spot)
        table = documents.price_table(rows, 0 if everything else 15)
        return result(table, lambda: {"prices": rows}, as_json=as_json)
    return result(shapes, lambda: documents.of_shapes(shapes), as_json=as_json)


@gputrain.group(name="catalog", cls=Subgroup)
def catalog_group() -> None:
    """Update the prices and zones that plans use."""


@catalog_group.command(name="refresh")
@option("--dry-run", is_flag=True, help="show what changed, and write nothing")
@option("--folder", metavar="FOLDER", help="write prices.csv and places.csv here instead")
@places
@output
def refresh_catalog(dry_run: bool, folder: str | None, as_json: bool, **given: Any) -> Exit:
    """Read today's prices and zones from Google's lists."""
    from gputrain.catalog.refresh import refresh
    from gputrain.errors import RequestError
    from gputrain.google import GoogleClient

    settings = _settings(given)
    project = settings.shared.get("project")
    if not project:
        raise RequestError("no project is named", fix="--project my-project")
    with waiting("waiting for Google's lists", quiet=as_json):
        client = GoogleClient(project=project, **settings.emulator())
        found = refresh(client, dry_run=dry_run, folder=folder)
    return result(found, found.to_dict, as_json=as_json)


@gputrain.command(name="quotas")
@gpu
@num_nodes
@provisioning_model
@places
@output
def quotas(as_json: bool, **given: Any) -> Exit:
    """Show the project's GPU quotas. Says whether they are enough."""
    from gputrain.cli import documents

    settings = _settings(given)
    with _waiting(settings, as_json):
        found = _trainer(settings).quotas(
            given["gpu"] or None,
            num_nodes=1 if given["num_nodes"] is None else given["num_nodes"],
            provisioning_model=given["provisioning_model"] or None,
        )
    result(found, lambda: documents.of_quotas(found), as_json=as_json)
    return Exit.AGAIN if found.is_blind else Exit.OK


@gputrain.command(name="plan", cls=ScriptCommand)
@script
@module
@from_gcloud
@option("--explain", is_flag=True, help="explain the plan in sentences")
@option(
    "--sort",
    metavar="BY",
    type=click.Choice(["order", "price"]),
    default="order",
    help="order in which places are tried (default), or price",
)
@option("--all", "everything", is_flag=True, help="all rows, not only the first 12")
@places
@spec
@output
def plan(explain: bool, sort: str, everything: bool, as_json: bool, **given: Any) -> Exit:
    """Show where a job could run, and at what price. Creates nothing."""
    import attrs

    settings = _settings(given)
    with _waiting(settings, as_json):
        planned = _trainer(settings).plan(*_entry(given), **_fields(given))
    if explain and not as_json:
        click.echo(planned.explain())
    else:
        shown = attrs.evolve(planned, sorted_by=sort, shows_all=everything)
        result(shown, shown.to_dict, as_json=as_json)
    return Exit.OK if planned.candidates and not planned.faults else Exit.REQUEST


@gputrain.command(name="doctor", cls=ScriptCommand)
@script
@module
@key
@places
@spec
@output
def doctor(idempotency_key: str | None, as_json: bool, **given: Any) -> Exit:
    """Check the setup and show how to fix each problem.

    With a script, it checks what that job needs.
    """
    from gputrain.cli import documents

    settings = _settings(given)
    with _waiting(settings, as_json):
        checks = _trainer(settings).doctor(idempotency_key=idempotency_key, **_fields(given))
    result(checks, lambda: documents.of_checks(checks), as_json=as_json)
    if not checks.is_ok:
        return Exit.ACCESS
    return Exit.AGAIN if checks.is_blind else Exit.OK


@gputrain.command(name="build")
@click.argument("dockerfile", metavar="[DOCKERFILE]", required=False)
@option("--context", metavar="FOLDER", help="build context (default: the Dockerfile's folder)")
@option("--base", metavar="IMAGE", help="image to start from, instead of a Dockerfile")
@option("--requirements", metavar="REQ", multiple=True, help="pip requirement to add to the base; repeatable")
@option("--builder", metavar="NAME", help="cloud-build (default), docker or podman",
        type=click.Choice(["cloud-build", "docker", "podman"]), default="cloud-build")  # fmt: skip
@option("--create-repository", is_flag=True, help="create the repository if it is missing")
@places
@output
def build(dockerfile: str | None, create_repository: bool, as_json: bool, **given: Any) -> Exit:
    """Build and push a container image. The same content is built once."""
    from gputrain.spec import Image

    image = Image(dockerfile=dockerfile, **{name: given[name] for name in ("base", "context", "requirements",
                                                                           "builder")})  # fmt: skip
    built = _trainer(_settings(given)).build(image, on_line=note, create_repository=create_repository)
    return result(built.reference, built.to_dict, as_json=as_json)


@gputrain.command(name="submit", cls=ScriptCommand)
@script
@module
@from_gcloud
@option("--detach", is_flag=True, help="return as soon as the job is created")
@option("--cancel-on-interrupt", is_flag=True, help="cancel the job on Ctrl-C")
@key
@places
@spec
@output
def submit(
    detach: bool, cancel_on_interrupt: bool, idempotency_key: str | None, as_json: bool, **given: Any
) -> Exit:
    """Start a job and follow its log until it ends.

    What follows -- goes to the script, or is the command to run. Where it runs is also set by variables
    (GPUTRAIN_PROJECT, ...) and by gputrain.toml.
    """
    settings = _settings(given)
    with _waiting(settings, as_json):
        job = _trainer(settings).submit(*_entry(given), idempotency_key=idempotency_key, **_fields(given))
    if detach:
        return result(job.table, job.to_dict, as_json=as_json)
    if not as_json:
        note(job.uri)
    return _follow(job, as_json=as_json, cancels=cancel_on_interrupt)


def _follow(job: Job, *, as_json: bool, timeout: str | None = None, cancels: bool = False) -> Exit:
    """Show a job's log until it ends; raise what it failed with."""
    from gputrain.lifecycle import State

    is_piped = not (sys.stdout.isatty() and sys.stderr.isatty())
    is_plain = is_piped and "GPUTRAIN_PROGRESS" not in os.environ
    with _Interruptible(job, cancels=cancels):
        job.wait(timeout, progress="none" if as_json else "plain" if is_plain else None)
    if as_json:
        print_json(job.to_dict())
        return Exit.OK if job.state is State.SUCCEEDED else Exit.JOB
    job.result()
    if is_piped:
        note(str(job.table))
    else:
        show(job.table)
    return Exit.OK


class _Interruptible:
    """On Ctrl-C the job keeps running, or is cancelled; either way it says how to go on."""

    def __init__(self, job: Job, *, cancels: bool = False) -> None:
        self._job, self._cancels = job, cancels

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if kind is None or not issubclass(kind, KeyboardInterrupt):
            return
        follow, cancel = f"gputrain wait {self._job.uri}", f"gputrain cancel {self._job.uri}"
        if self._cancels:
            self._job.cancel()
            told = f"The job is being cancelled. To see its end:\n{follow}"
        else:
            told = f"The job keeps running. To follow it again:\n{follow}\nTo cancel it:\n{cancel}"
        raise KeyboardInterrupt(told) from None


@gputrain.command(name="map", cls=ScriptCommand)
@script
@module
@option("--grid", metavar="NAME=V,V", multiple=True, help="values that the script gets as --NAME; repeatable")
@option("--max-parallel", metavar="N", type=int, help="jobs at a time")
@places
@spec
@output
def map_(grid: tuple[str, ...], max_parallel: int | None, as_json: bool, **given: Any) -> Exit:
    """Run a script over a parameter grid; repeat to resume."""
    from gputrain.cli import grids

    return grids.run(_trainer(_settings(given)), _fields(given), grid, max_parallel, as_json=as_json)


@gputrain.command(name="demo")
def demo() -> Exit:
    """Train on 4 CPU ranks here, stop half way, resume. Takes about a minute."""
    import tempfile
    from pathlib import Path

    from gputrain.cli.demo import run

    with tempfile.TemporaryDirectory(prefix="gputrain-demo-") as folder:
        try:
            run(Path(folder))
        except KeyboardInterrupt as stopped:
            raise KeyboardInterrupt(str(stopped) or "stopped; see `gputrain jobs`") from None
    return Exit.OK


@gputrain.command(name="jobs")
@option("--name", metavar="PREFIX", default="", help="only jobs whose name starts so")
@option(
    "--state",
    metavar="STATE",
    multiple=True,
    type=click.Choice(STATES),
    help="only in this state; repeatable",
)
@option("--since", metavar="WHEN", help="created since then, or so long ago: 2h, 1d")
@places
@output
def jobs(name: str, state: tuple[str, ...], since: str | None, as_json: bool, **given: Any) -> Exit:
    """List jobs, newest first."""
    settings = _settings(given)
    with _waiting(settings, as_json):
        found = _trainer(settings).jobs(name=name, state=state or None, since=since)
    looked = {"backends": settings.backends, "left_out": list(found.left_out)}
    result(found.table, lambda: {**looked, "jobs": [one.to_dict() for one in found]}, as_json=as_json)
    if not as_json:
        note(settings.scope)
    return Exit.OK


@gputrain.command(name="show")
@job
@places
@output
def show_job(name: str, as_json: bool, **given: Any) -> Exit:
    """Show a job's state, cost, attempts and error."""
    from gputrain.errors import JobError
    from gputrain.lifecycle import State

    job = _job(name, _settings(given), as_json)
    result(job.table, job.to_dict, as_json=as_json)
    if as_json:
        return Exit.OK
    if len(job.attempts) > 1:
        show(job.attempts)
    if job.state.is_terminal and job.state is not State.SUCCEEDED:
        try:
            job.result()
        except JobError as error:
            click.echo(f"\n{error}")
    return Exit.OK


@gputrain.command(name="wait")
@job
@option("--timeout", metavar="TIME", help="stop waiting after this: 90m, 12h; the job keeps running")
@option("--cancel-on-interrupt", is_flag=True, help="cancel the job on Ctrl-C")
@places
@output
def wait(name: str, timeout: str | None, cancel_on_interrupt: bool, as_json: bool, **given: Any) -> Exit:
    """Follow a job until it ends; exit with its status."""
    job = _job(name, _settings(given), as_json)
    return _follow(job, as_json=as_json, timeout=timeout, cancels=cancel_on_interrupt)


@gputrain.command(name="metrics")
@job
@option("--gpu", is_flag=True, help="use of GPUs and memory instead, every 15 s")
@places
@output
def metrics(name: str, gpu: bool, as_json: bool, **given: Any) -> Exit:
    """Show the metrics that the script reported."""
    from gputrain.cli import documents

    found = _job(name, _settings(given), as_json).metrics("gpu" if gpu else "script")
    return result(found, lambda: documents.of_metrics(found), as_json=as_json)


@gputrain.command(name="stacks")
@job
@option("--timeout", metavar="TIME", default="60s", help="how long to wait for all nodes (default: 60s)")
@places
@output
def stacks(name: str, timeout: str, as_json: bool, **given: Any) -> Exit:
    """Show each rank's Python stack, and who blocks whom."""
    from gputrain.cli import documents

    found = _job(name, _settings(given), as_json).stacks(timeout)
    result(found, lambda: documents.of_stacks(found), as_json=as_json)
    for trace, ranks in {} if as_json else found.traces.items():
        click.echo(f"\nrank {', '.join(map(str, ranks))}, most recent call first:\n{trace}")
    return Exit.OK


@gputrain.command(name="logs")
@job
@option("--follow", "-f", is_flag=True, help="continue until the job ends")
@option("--rank", metavar="N", type=int, help="only this rank's lines")
@option("--tail", metavar="N", type=int, help="only the last N lines")
@option("--since", metavar="WHEN", help="only since then, or so long ago: 10m, 2h")
@option("--grep", metavar="REGEX", help="only lines that match")
@option("--timestamps", is_flag=True, help="put the time before each line")
@places
@output
def logs(name: str, follow: bool, timestamps: bool, as_json: bool, **given: Any) -> Exit:
    """Print what a job's ranks wrote."""
    from gputrain.cli import documents
    from gputrain.display.live import PlainLines

    job = _job(name, _settings(given), as_json)
    view, line = PlainLines(sys.stdout, timestamps=timestamps), None
    wanted = {name: given[name] for name in ("rank", "tail", "since", "grep")}
    with _Interruptible(job):
        for line in job.logs(follow=follow, **wanted):
            if as_json:
                print_json(documents.of_line(line), indent=None)
            else:
                view.lines([line])
    if line is None and not as_json:
        note("no matching log lines")
    return Exit.OK


@gputrain.command(name="download")
@job
@click.argument("folder", metavar="[FOLDER]", required=False)
@option("--checkpoints", is_flag=True, help="the checkpoints instead of the outputs")
@places
@output
def download(name: str, folder: str | None, checkpoints: bool, as_json: bool, **given: Any) -> Exit:
    """Copy a job's outputs here.

    FOLDER is made where it is missing; by default it is called as the job.
    """
    job = _job(name, _settings(given), as_json)
    files, to = job.checkpoints if checkpoints else job.outputs, folder or job.id
    total = sum(one.size for one in files.list())
    is_shown = sys.stderr.isatty() and not as_json
    with click.progressbar(length=total, label=files.uri, file=sys.stderr, hidden=not is_shown) as bar:
        written = files.download(to, progress=lambda done, _: bar.update(done - bar.pos))
    found = {"uri": files.uri, "folder": os.path.abspath(to), "files": list(map(str, written))}
    count = "1 file" if len(written) == 1 else f"{len(written)} files"
    return result(f"{count}, {total:,} bytes, from {files.uri} in {to}", found, as_json=as_json)


@gputrain.command(name="ssh")
@job
@click.argument("node", metavar="[NODE]", type=int, default=0)
@places
@output
def ssh(name: str, node: int, as_json: bool, **given: Any) -> Exit | int:
    """Open a shell on a node of a job (default: node 0)."""
    import shlex
    import subprocess

    from gputrain.errors import RequestError

    command = _job(name, _settings(given), as_json).ssh_command(node)
    if as_json:
        return result(command, {"command": command}, as_json=True)
    note(command)
    try:
        return subprocess.call(shlex.split(command))
    except FileNotFoundError as error:
        fix = "install the Google Cloud CLI, or run the command where it is"
        raise RequestError("gcloud is not installed here", fix=fix) from error


@gputrain.command(name="cancel")
@job
@places
@output
def cancel(name: str, as_json: bool, **given: Any) -> Exit:
    """Stop a job."""
    job = _job(name, _settings(given), as_json)
    job.cancel()
    return result(job.table, job.to_dict, as_json=as_json)


@gputrain.command(name="clean-up")
@option("--yes", is_flag=True, help="remove them without asking")
@places
@output
def clean_up(yes: bool, as_json: bool, **given: Any) -> Exit:
    """Remove VMs that no running job needs. Asks first."""
    import attrs

    from gputrain.cli import documents

    settings = _settings(given)
    trainer = _trainer(settings)
    with _waiting(settings, as_json):
        found = trainer.orphans()
    if not as_json:
        note(settings.scope)
    if not yes and not as_json:
        show(attrs.evolve(found.table, title="Would be removed"))
        if not found or not _confirmed(len(found)):
            return Exit.AGAIN if found.left_out else Exit.OK
    removes = yes or not as_json
    gone = trainer.clean_up(found) if removes else found
    gone.left_out = tuple(dict.fromkeys((*found.left_out, *gone.left_out)))
    table = attrs.evolve(gone.table, title="Removed")
    result(table, lambda: documents.of_orphans(gone, settings.backends, removed=removes), as_json=as_json)
    return Exit.AGAIN if gone.left_out else Exit.OK


def _confirmed(count: int) -> bool:
    if sys.stdin is not None and sys.stdin.isatty():
        return click.confirm(f"Remove {count}?", err=True)
    note("nothing was removed; gputrain clean-up --yes removes without asking")
    return False


@gputrain.command(name="completion")
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


def _settings(given: Mapping[str, Any]) -> Settings:
    from gputrain.cli.settings import Settings

    return Settings.of(given)


def _waiting(settings: Settings, as_json: bool) -> Any:
    return waiting(f"waiting for {' and '.join(settings.backends)}", quiet=as_json)


def _trainer(settings: Settings) -> Trainer:
    from gputrain.trainer import Trainer

    return Trainer(settings.make())


def _entry(given: Mapping[str, Any]) -> tuple[TrainingSpec, ...]:
    """The spec of a gcloud config, where one is given; options win over it."""
    if given["from_gcloud"] is None:
        return ()
    from gputrain.errors import RequestError
    from gputrain.spec import TrainingSpec

    try:
        with open(given["from_gcloud"], encoding="utf-8") as file:
            return (TrainingSpec.from_gcloud(file.read()),)
    except (OSError, UnicodeDecodeError) as error:
        what = f"--from-gcloud {given['from_gcloud']}: {error}"
        raise RequestError(what, fix="name the config.yaml of gcloud ai custom-jobs create") from error


def _fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a spec that a command line gives."""
    context = click.get_current_context()
    names = {one.name for one in context.command.params if getattr(one, "section", "") == SPEC}
    found = {name: value for name, value in given.items() if name in names | {"script", "module"}}
    found = {name: value for name, value in found.items() if value not in (None, ()) and value is not False}
    found |= {name: dict(found[name]) for name in ("env", "secrets", "labels") if name in found}
    if rest := context.meta["rest"]:
        found["args" if {"script", "module"} & set(found) else "command"] = rest
    return found


def _job(name: str, settings: Settings, as_json: bool) -> Job:
    """The job of a URI, or of a name among the jobs of these backends."""
    from gputrain.errors import RequestError

    with _waiting(settings, as_json):
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
    from gputrain.trainer import Trainer
    from gputrain.trainer.attach import by_name

    JobRef.parse(uri)
    with suppress(SpecError):
        return Trainer(settings.make()).attach(uri)
    return by_name(uri, **settings.emulator())


def _job_of_name(name: str, settings: Settings) -> Job | None:
    from gputrain.errors import RequestError
    from gputrain.trainer import Trainer
    from gputrain.trainer.jobs import listed

    trainer, refused = Trainer(settings.make()), dict[str, Exception]()
    # by the names that there are: no other job is taken for one that cannot be looked at now
    found = listed(trainer.planner, name, refused) if name else []  # an unset $JOB names none
    jobs = [job for job in found if job.id == name] or found
    if refused and not [job for job in found if job.id == name]:
        raise next(iter(refused.values()))
    if len(jobs) > 1:
        there = ", ".join([job.uri for job in jobs][:5])
        raise RequestError(
            f"several jobs begin with {name!r}: {there}", fix="give the whole name, or the URI"
        )
    return next(iter(jobs), None)
