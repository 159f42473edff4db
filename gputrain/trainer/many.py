"""Many jobs as one: what a trainer maps over points."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gputrain.experiments import Experiment
from gputrain.experiments.begin import Plans, begun, resumed
from gputrain.spec.entry import Entry, make_spec
from gputrain.spec.typed import PointFields
from gputrain.trainer.road import Road

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Maps(Plans):
    """The part of a `Trainer` that makes experiments."""

    def __init__(self, road: Road) -> None:
        self._road = road

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
            max_cost: US dollars for all points together; each may use its equal share, as its ``max_cost``.
            **fields: fields of `TrainingSpec`, for all of them.

        Raises:
            SpecError: with all faults, before anything is touched.
            ConflictError: the experiment of that name was begun with another spec.
            NoFitError: nothing on offer has that shape.
        """
        return begun(
            self, self._road.home, make_spec(entry, fields), over,
            name=name, arguments=arguments, max_parallel=max_parallel, max_cost=max_cost,
        )  # fmt: skip

    def experiment(self, name: str) -> Experiment:
        """The experiment of that name, in any process: what there is is taken up, what is missing submitted.

        Raises:
            JobLostError: this trainer knows of none.
        """
        return resumed(self, self._road.home, name)
