"""Many jobs as one: what a trainer maps over points."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from gputrain.arguments import check
from gputrain.experiments import Experiment
from gputrain.experiments.begin import Planned, Plans, begun, resumed
from gputrain.fields import Field, read_whole, text
from gputrain.job import Job
from gputrain.job.events import Listener
from gputrain.job.stopping import StopEvent
from gputrain.spec import TrainingSpec
from gputrain.spec.entry import Entry, make_job_id, make_spec
from gputrain.spec.help import tells_fields
from gputrain.spec.typed import PointFields
from gputrain.trainer.jobs import Roll, looked_at
from gputrain.trainer.road import Road

if TYPE_CHECKING:
    from typing_extensions import Unpack


_NAMED = {"name": Field(text, "the name of an experiment", "name='scan'", is_needed=True)}


class Maps(Plans):
    """The part of a `Trainer` that makes experiments."""

    def __init__(self, road: Road) -> None:
        self._road = road
        self._rolls: set[Roll] = set()

    def _asked(
        self,
        spec: TrainingSpec,
        key: str | None,
        stop: StopEvent | None,
        on_change: Listener | None = None,
        *,
        waits: bool = True,
    ) -> Job:
        def watch(job: Job) -> None:
            for roll in tuple(self._rolls):  # a listener may close one
                roll.add(job)
            if on_change is not None:
                job.watch(on_change)

        check("submit(...)", stop=stop, on_change=on_change)
        job_id = make_job_id(spec, key)
        plan = self._road.plan(spec)
        return self._road.submit(plan, job_id, is_new=key is None, stop=stop, waits=waits, then=watch)

    @tells_fields(PointFields)
    def map(
        self,
        entry: Entry,
        over: Iterable[Mapping[str, Any]],
        *,
        name: str,
        arguments: Callable[[Mapping[str, Any]], Sequence[str] | Mapping[str, Any]] | None = None,
        max_parallel: int | None = None,
        max_cost: float | None = None,
        **fields: Unpack[PointFields],
    ) -> Experiment:
        """One job a point, as one `Experiment`: run the same script again, and it goes on where it was.

        The jobs are submitted from a thread, and this returns at once. A point that fails stops no other.

        Args:
            entry: as for `plan`.
            over: the points, mappings of names to numbers, texts, lists; `gputrain.grid` makes some.
            name: of the experiment; each point's job is drawn from it and from the point alone, so there is
                one of it, whoever asks how often. More points under a name are added, fewer are looked at.
            arguments: from a point to what its job gets: texts for a script's command line, or a mapping.
                Unless said, a script gets ``--name value``, and a function keyword arguments.
            max_parallel: jobs at a time; what this machine's cores bear, or what the quotas have left.
            max_cost: US dollars for all points together, also those that are added later; each may use its
                equal share of what the others leave, and no more than the ``max_cost`` of ``entry``.
            **fields: fields of `TrainingSpec`, for all of them.

        Raises:
            SpecError: with all faults, before anything is touched.
            ConflictError: the experiment of that name was begun with another spec, or other arguments.
            RequestError: ``max_cost`` cannot be kept with what its points may come to already.
            NoFitError: nothing on offer has that shape.
        """
        check("map(...)", arguments=arguments)
        return begun(
            _Points(self), self._road.boards, make_spec(entry, fields), over,
            name=name, arguments=arguments, max_parallel=max_parallel, max_cost=max_cost,
        )  # fmt: skip

    def experiment(self, name: str) -> Experiment:
        """The experiment of that name, in any process: what there is is taken up, what is missing submitted.

        Raises:
            JobLostError: this trainer knows of none.
        """
        found = read_whole("", _NAMED, {"name": name})
        return resumed(_Points(self), self._road.boards, found["name"])


@attrs.define(eq=False)
class _Points:
    """A trainer whose submits do not wait for a point that another process may be asking for."""

    trainer: Maps

    def plan(self, entry: TrainingSpec) -> Planned:
        return self.trainer.plan(entry)

    def submit(
        self, entry: TrainingSpec, *, idempotency_key: str | None = None, stop: StopEvent | None = None
    ) -> Job:
        return self.trainer._asked(entry, idempotency_key, stop, waits=False)

    def jobs(self, *, name: str = "") -> Iterable[Job]:
        unseen: list[Job] = []  # which may live and cost all the same: a cancel ends them, too
        return [*looked_at(self.trainer._road.listed(name), unseen), *unseen]
