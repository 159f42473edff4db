"""``gputrain map``: one job a point, from words."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gputrain.cli.documents import Json, of_error
from gputrain.cli.screen import Exit, show, tell, tell_error
from gputrain.errors import GputrainError, JobLostError, RequestError
from gputrain.experiments import Experiment, PointOutcome, grid
from gputrain.experiments.points import words
from gputrain.fields import refused
from gputrain.lifecycle import State
from gputrain.spec import TrainingSpec
from gputrain.tables import cut
from gputrain.terminal import safe
from gputrain.trainer import Trainer

MOST_REASONS = 3


def run(trainer: Trainer, spec: Mapping[str, Any], options: argparse.Namespace) -> Exit:
    """Begin the experiment or take it up, tell of each job as it ends, and show them all."""
    scan = _asked(trainer, dict(spec), options)
    for job in scan.as_completed():
        if not options.json:
            sys.stderr.write(f"{safe(cut(words(job.point)))}: {job.state.value}  {job.id}\n")
    outcomes = scan.results()
    reasons = {str(one.error): one.error for one in outcomes if one.job is None and one.error is not None}
    if options.json:
        tell(of_experiment(scan, outcomes))
    else:
        show(scan)
        for error in list(reasons.values())[:MOST_REASONS]:
            if isinstance(error, GputrainError):
                tell_error(error, as_json=False)
    if any(one.job is not None and one.job.state is not State.SUCCEEDED for one in outcomes):
        return Exit.JOB
    return Exit.of(next(iter(reasons.values()))) if reasons else Exit.OK


def _asked(trainer: Trainer, fields: dict[str, Any], options: argparse.Namespace) -> Experiment:
    name = fields.pop("name", None)
    if name is None:
        raise refused("name", None, "the experiment's, by which it is taken up again", "--name lr-scan")
    if {"script", "module", "command"} & set(fields):
        max_cost, over = fields.pop("max_cost", None), points(options.grid or ())
        entry = TrainingSpec(**fields)
        return trainer.map(entry, over, name=name, max_parallel=options.max_parallel, max_cost=max_cost)
    unused = [one for one in ("grid", "max_parallel") if getattr(options, one)] + sorted(fields)
    if unused:  # else somebody believes that these points are added
        value = fields.get(unused[0], getattr(options, unused[0], None))
        allowed = "nothing beside --name, which takes up what there is, unless a script is named as well"
        raise refused(unused[0], value, allowed, f"gputrain map SCRIPT --name {name} ...")
    try:
        return trainer.experiment(name)
    except JobLostError as error:  # a name that is mistyped, as that of a job is
        raise RequestError(error.what, fix=error.fix) from error


def points(axes: Sequence[str]) -> tuple[Mapping[str, Any], ...]:
    """Every combination of ``NAME=VALUE,VALUE``; a value is a number where it reads as one.

    >>> points(["lr=0.1,3e-4", "kind=adam"])
    ({'lr': 0.1, 'kind': 'adam'}, {'lr': 0.0003, 'kind': 'adam'})
    """
    found: dict[str, list[Any]] = {}
    fix = "--grid lr=0.1,0.3 --grid seed=0,1"
    if not axes:
        raise refused("grid", None, "the points: NAME=VALUE,VALUE", fix)
    for axis in axes:
        name, equals, values = axis.partition("=")
        if not (name and equals) or name in found:
            raise refused("grid", axis, "NAME=VALUE,VALUE, each name once", fix)
        if any(text.strip()[:1] in ("[", "{") for text in values.split(",")):
            allowed = "numbers and texts: what has commas of its own is for trainer.map in Python"
            raise refused("grid", axis, allowed, fix)
        found[name] = [_value(text) for text in values.split(",")]
    return grid(**found)


def _value(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, (int, float)) else text


def of_experiment(scan: Experiment, outcomes: Iterable[PointOutcome]) -> Json:
    """Its document: each point with its job, or why it has none."""
    return {"name": scan.name, "cost_usd": scan.cost_usd, "points": [_of_point(one) for one in outcomes]}


def _of_point(one: PointOutcome) -> Json:
    error = of_error(one.error)["error"] if isinstance(one.error, GputrainError) else None
    return {"point": dict(one.point), "job": one.job.to_dict() if one.job else None, "error": error}
