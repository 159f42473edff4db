"""``gputrain map``: an experiment from a command line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from gputrain.cli.output import Exit, error_document, is_json, note, print_error, result
from gputrain.errors import JobLostError, RequestError
from gputrain.experiments import Experiment, grid as combinations
from gputrain.experiments.points import words
from gputrain.lifecycle import State
from gputrain.spec import TrainingSpec
from gputrain.trainer import Trainer

MOST_REASONS = 3
"""Errors of points without a job that are shown."""
_EXAMPLE = "--grid lr=0.1,0.3 --grid seed=0,1"


def run(trainer: Trainer, fields: dict[str, Any], grid: Sequence[str], max_parallel: int | None) -> Exit:
    """Start the experiment or resume it, name each job as it ends, and show them all."""
    experiment = _experiment(trainer, fields, grid, max_parallel)
    try:
        for job in experiment.as_completed():
            note(f"{words(job.point)}: {job.state.value}  {job.id}")
        outcomes = experiment.results()
    except KeyboardInterrupt:
        name = f"gputrain map --name {experiment.name}"
        raise KeyboardInterrupt(f"Jobs that were submitted keep running. To follow them:\n{name}") from None
    points = [
        {
            "point": dict(one.point),
            "job": one.job.to_dict() if one.job else None,
            "error": error_document(one.error)["error"] if one.error else None,
        }
        for one in outcomes
    ]
    result(experiment, {"name": experiment.name, "cost_usd": experiment.cost_usd, "points": points})
    reasons = {str(one.error): one.error for one in outcomes if one.job is None and one.error is not None}
    for error in [] if is_json() else list(reasons.values())[:MOST_REASONS]:
        print_error(error, as_json=False)
    if any(one.job is not None and one.job.state is not State.SUCCEEDED for one in outcomes):
        return Exit.JOB
    return Exit.of(next(iter(reasons.values()))) if reasons else Exit.OK


def _experiment(
    trainer: Trainer, fields: dict[str, Any], grid: Sequence[str], max_parallel: int | None
) -> Experiment:
    name = fields.pop("name", None)
    if name is None:
        raise RequestError("--name is missing: the experiment's, which resumes it", fix="--name lr-scan")
    if {"script", "module", "command"} & set(fields):
        max_cost = fields.pop("max_cost", None)
        points = _points(grid)
        return trainer.map(TrainingSpec(**fields), points, name=name, max_parallel=max_parallel,
                           max_cost=max_cost)  # fmt: skip
    unused = ["grid"] * bool(grid) + ["max_parallel"] * (max_parallel is not None) + sorted(fields)
    if unused:
        flag = f"--{unused[0].replace('_', '-')}"
        what = f"{flag} needs a script; --name alone follows the experiment as it is"
        raise RequestError(what, fix=f"gputrain map SCRIPT --name {name} {flag} ...")
    try:
        return trainer.experiment(name)
    except JobLostError as error:
        raise RequestError(error.what, fix=error.fix) from error


def _points(axes: Sequence[str]) -> tuple[Mapping[str, Any], ...]:
    """Every combination of ``NAME=VALUE,VALUE``; a value is a number where it reads as one."""
    found: dict[str, list[Any]] = {}
    if not axes:
        raise RequestError("--grid is missing: the values of each parameter", fix=_EXAMPLE)
    for axis in axes:
        name, equals, values = axis.partition("=")
        if not (name and equals) or name in found:
            raise RequestError(f"--grid {axis}: expected NAME=VALUE,VALUE, each name once", fix=_EXAMPLE)
        if any(text.strip()[:1] in ("[", "{") for text in values.split(",")):
            what = f"--grid {axis}: expected numbers and texts"
            raise RequestError(what, fix="pass lists and mappings from Python, to trainer.map")
        found[name] = [_value(text) for text in values.split(",")]
    return combinations(**found)


def _value(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, (int, float)) else text
