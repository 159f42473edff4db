"""``gputrain map``: one job a point, from words."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from gputrain.cli.documents import Json, of_error
from gputrain.cli.screen import Exit, show, tell
from gputrain.errors import GputrainError
from gputrain.experiments import Experiment, PointOutcome, grid
from gputrain.fields import refused
from gputrain.lifecycle import State
from gputrain.spec import TrainingSpec
from gputrain.terminal import safe
from gputrain.trainer import Trainer


def run(trainer: Trainer, spec: Mapping[str, Any], options: argparse.Namespace) -> Exit:
    """Begin the experiment or take it up, tell of each job as it ends, and show them all."""
    fields = dict(spec)
    name, max_cost = fields.pop("name", None), fields.pop("max_cost", None)
    if name is None:
        raise refused("name", None, "the experiment's, by which it is taken up again", "--name lr-scan")
    if {"script", "module", "command"} & set(fields):
        entry = TrainingSpec(**fields)
        over = points(options.grid or ())
        scan = trainer.map(entry, over, name=name, max_parallel=options.max_parallel, max_cost=max_cost)
    else:
        scan = trainer.experiment(name)
    for job in scan.as_completed():
        if not options.json:
            point = " ".join(f"{key}={value}" for key, value in (job.point or {}).items())
            sys.stderr.write(f"{safe(point)}: {job.state.value}  {job.id}\n")
    outcomes = scan.results()
    if options.json:
        tell(of_experiment(scan, outcomes))
    else:
        show(scan)
    went_well = all(one.job is not None and one.job.state is State.SUCCEEDED for one in outcomes)
    return Exit.OK if went_well else Exit.JOB


def points(axes: Iterable[str]) -> tuple[Mapping[str, Any], ...]:
    """Every combination of ``NAME=VALUE,VALUE``; a value is a number where it reads as one.

    >>> points(["lr=0.1,3e-4", "kind=adam"])
    ({'lr': 0.1, 'kind': 'adam'}, {'lr': 0.0003, 'kind': 'adam'})
    """
    found: dict[str, list[Any]] = {}
    for axis in axes:
        name, equals, values = axis.partition("=")
        if not (name and equals) or name in found:
            raise refused(
                "grid", axis, "NAME=VALUE,VALUE, each name once", "--grid lr=0.1,0.3 --grid seed=0,1"
            )
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
