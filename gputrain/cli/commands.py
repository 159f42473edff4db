"""Each command: one call of a trainer or of the catalog, and what it gave, shown."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import attrs

from gputrain.backends import registry
from gputrain.backends.base import JobRef
from gputrain.cli import completion, documents, ending, settings
from gputrain.cli.parser import PAIRS, SPEC_FLAGS
from gputrain.cli.screen import Exit, confirmed, remark, say, show, tell, tell_line
from gputrain.cli.wording import Spoken, checked, document, spoken, words
from gputrain.errors import JobError, RequestError, SpecError
from gputrain.fields import refused
from gputrain.job import Job
from gputrain.lifecycle import State
from gputrain.spec import Image
from gputrain.spec.gpu import parse_gpu
from gputrain.terminal import safe
from gputrain.trainer import Trainer, attach
from gputrain.view import PlainLines, ProgressWord


def run(options: argparse.Namespace) -> Exit:
    """Carry out the command of parsed words; raises errors of ours."""
    return _COMMANDS[options.command](options)


def _gpus(options: argparse.Namespace) -> Exit:
    from gputrain import catalog

    if options.gpu is None and options.region is None:
        gpus = catalog.gpus()
        _show(options, gpus, documents.of_gpus(gpus))
        return Exit.OK
    kind, count = _gpu(options.gpu)
    if options.region is not None and (near := catalog.likely_region(options.region)):
        raise refused("region", options.region, "a region that the catalog knows", f"region={near!r}")
    shapes = catalog.shapes(kind, count, region=options.region)
    _show(options, shapes, documents.of_shapes(shapes))
    return Exit.OK


def _gpu(text: str | None) -> tuple[str | None, Any]:
    """Kind and count; a name alone means any count."""
    if text is None or ":" not in text:
        return text, None
    try:
        asked = parse_gpu(text)
    except SpecError:
        raise
    except ValueError as error:
        raise refused("gpu", text, str(error), "gputrain gpus H100:2") from error
    return asked.kind, asked.count


def _quotas(options: argparse.Namespace) -> Exit:
    quotas = _trainer(options).quotas(
        options.gpu, num_nodes=options.num_nodes, provisioning_model=options.provisioning_model
    )
    _show(options, quotas, documents.of_quotas(quotas))
    return Exit.AGAIN if quotas.is_blind else Exit.OK


def _plan(options: argparse.Namespace) -> Exit:
    plan = _trainer(options).plan(**_spec(options))
    if options.explain and not options.json:
        say(words(plan.explain()))
    elif options.json:
        tell(document(plan.plan.to_dict()))
    else:
        show(Spoken(plan._parts()))
    return Exit.OK if plan.candidates and not plan.plan.faults else Exit.REQUEST


def _doctor(options: argparse.Namespace) -> Exit:
    checks = _trainer(options).doctor(idempotency_key=options.idempotency_key, **_spec(options))
    checks = checked(checks)
    _show(options, checks, documents.of_checks(checks))
    if not checks.is_ok:
        return Exit.ACCESS
    return Exit.AGAIN if checks.is_blind else Exit.OK


def _submit(options: argparse.Namespace) -> Exit:
    job = _trainer(options).submit(idempotency_key=options.idempotency_key, **_spec(options))
    completion.remember([job.id])
    if options.detach:
        _show(options, job.table, job.to_dict())
        return Exit.OK
    if not options.json:
        sys.stderr.write(f"{job.uri}\n")
    return _watched(job, options)


def _watched(job: Job, options: argparse.Namespace, timeout: str | None = None) -> Exit:
    """Wait for the end and tell of it: in silence where a document is wanted."""
    if options.json:
        job.wait(timeout, progress="none")
        tell(job.to_dict())
        return Exit.OK if job.state is State.SUCCEEDED else Exit.JOB
    progress: ProgressWord | None = None if sys.stderr.isatty() else "plain"
    job.wait(timeout, progress=progress)
    ending.told(job, progress)
    show(job.table)
    return Exit.OK


def _map(options: argparse.Namespace) -> Exit:
    from gputrain.cli import points

    return points.run(_trainer(options), _spec(options), options)


def _wait(options: argparse.Namespace) -> Exit:
    return _watched(_job(options), options, options.timeout)


def _show_job(options: argparse.Namespace) -> Exit:
    job = _job(options)
    _show(options, job.table, job.to_dict())
    if not options.json:
        if len(job.attempts) > 1:
            show(job.attempts)
        if job.state.is_terminal and job.state is not State.SUCCEEDED:
            try:
                job.result()
            except JobError as error:
                say(f"\n{spoken(error)}")
    return Exit.OK


def _metrics(options: argparse.Namespace) -> Exit:
    metrics = _job(options).metrics("gpu" if options.gpu else "script")
    _show(options, metrics, documents.of_metrics(metrics))
    return Exit.OK


def _stacks(options: argparse.Namespace) -> Exit:
    """A row for each rank, and each different stack once."""
    found = _job(options).stacks(options.timeout)
    _show(options, found, documents.of_stacks(found))
    for trace, ranks in {} if options.json else found.traces.items():
        say(f"\nrank {', '.join(map(str, ranks))}, most recent call first:\n{trace}")
    return Exit.OK


def _jobs(options: argparse.Namespace) -> Exit:
    jobs = _trainer(options).jobs(name=options.name, state=options.state, since=options.since)
    completion.remember(job.id for job in jobs)
    looked = settings.read(options)
    told = {"backends": looked.backends, "left_out": list(jobs.left_out)}
    _show(options, jobs.table, {**told, "jobs": [job.to_dict() for job in jobs]})
    remark(looked.scope, options)
    return Exit.OK


def _logs(options: argparse.Namespace) -> Exit:
    people, line = PlainLines(sys.stdout, timestamps=options.timestamps), None
    for line in _job(options).logs(
        rank=options.rank,
        since=options.since,
        tail=options.tail,
        grep=options.grep,
        follow=options.follow,
    ):
        if options.json:
            tell_line(documents.of_line(line))
        else:
            people.lines([line])
    if line is None:
        remark("there is no such line", options)
    return Exit.OK


def _cancel(options: argparse.Namespace) -> Exit:
    job = _job(options)
    job.cancel()
    _show(options, job.table, job.to_dict())
    return Exit.OK


def _build(options: argparse.Namespace) -> Exit:
    image = Image(
        base=options.base, requirements=options.requirements or (), dockerfile=options.dockerfile,
        context=options.context, builder=options.builder,
    )  # fmt: skip
    built = _trainer(options).build(image, told=_tell_build, create_repository=options.create_repository)
    if options.json:
        tell(built.to_dict())
    else:
        say(built.reference)
    return Exit.OK


def _tell_build(line: str) -> None:
    sys.stderr.write(f"{safe(line)}\n")


def _clean_up(options: argparse.Namespace) -> Exit:
    """Show what is left behind; it goes once a person who has seen it, or ``--yes``, says so."""
    trainer = _trainer(options)
    found, looked = trainer.orphans(), settings.read(options)
    remark(looked.scope, options)
    if not options.yes and not options.json:
        show(attrs.evolve(found.table, title="Would be removed"))
        if not found or not confirmed(f"Remove {len(found)}?", "gputrain clean-up --yes"):
            return Exit.AGAIN if found.left_out else Exit.OK
    removes = options.yes or not options.json
    gone = trainer.clean_up(found) if removes else found
    gone.left_out = tuple(dict.fromkeys((*found.left_out, *gone.left_out)))
    told = documents.of_orphans(gone, looked.backends, removed=removes)
    _show(options, attrs.evolve(gone.table, title="Removed"), told)
    return Exit.AGAIN if gone.left_out else Exit.OK


def _show(options: argparse.Namespace, value: object, told: documents.Json) -> None:
    tell(told) if options.json else show(value)


def _trainer(options: argparse.Namespace) -> Trainer:
    return Trainer(settings.read(options).make())


def _job(options: argparse.Namespace) -> Job:
    """The job of a uri, or of a name among the jobs of these backends."""
    if options.job.startswith("gputrain://"):
        return attach(options.job, backend=settings.read(options).backend_of(JobRef.parse(options.job)))
    said = settings.read(options)
    backends = said.make()
    # By the names that are there: no other job is taken for one that cannot be looked at now.
    looked = [registry.jobs_of(one, options.job) for one in backends if options.job]  # an unset $JOB
    found = [ref for refs, _ in looked for ref in refs]
    exact = [ref for ref in found if ref.name == options.job]
    partial = next((error for _, error in looked if error is not None), None)
    if partial is not None and not exact:
        raise partial
    found = exact or found
    if not found:
        fix = "gputrain jobs lists them"
        raise RequestError(f"no job is called {options.job!r}", why=said.scope, fix=fix)
    names, trainer = dict.fromkeys(ref.name for ref in found), Trainer(backends)
    jobs = list(dict.fromkeys(trainer.attach(ref.uri) for ref in found)) if len(names) == 1 else []
    if len(jobs) != 1:
        there = ", ".join([job.uri for job in jobs] or list(names)[:5])
        fix = "give one's whole name, or its uri"
        raise RequestError(f"several jobs begin with {options.job!r}: {there}", fix=fix)
    return jobs[0]


def _spec(options: argparse.Namespace) -> dict[str, Any]:
    """The fields of a spec that the words gave."""
    names = [flag[2:].replace("-", "_") for flag, *_ in SPEC_FLAGS]
    said = {name: getattr(options, name) for name in names}
    fields = {name: value for name, value in said.items() if value is not None and value is not False}
    for name in (one for one in PAIRS if one in fields):
        fields[name] = dict(_pair(name, text) for text in fields[name])
    if options.script is not None:
        fields["script"] = options.script
    if options.module is not None:
        fields["module"] = options.module
    if options.rest:
        fields["args" if {"script", "module"} & set(fields) else "command"] = options.rest
    return fields


def _pair(field: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise refused(field, text, "NAME=VALUE", f"--{field} NAME=VALUE")
    return name, value


_COMMANDS = {
    "gpus": _gpus,
    "quotas": _quotas,
    "plan": _plan,
    "doctor": _doctor,
    "submit": _submit,
    "map": _map,
    "jobs": _jobs,
    "show": _show_job,
    "wait": _wait,
    "metrics": _metrics,
    "stacks": _stacks,
    "logs": _logs,
    "cancel": _cancel,
    "build": _build,
    "clean-up": _clean_up,
}
