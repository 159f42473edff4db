"""Which quota is meant, by a job, a standing, a reading or an error, and what a job counts for. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import attrs

from gputrain import catalog
from gputrain.catalog import ALL_REGIONS, CPUS, PREEMPTIBLE_CPUS, ProvisioningModel, Quota, Service, Shape
from gputrain.catalog.quotas import A2_CPUS, CPUS_ALL_REGIONS
from gputrain.errors import GputrainError, QuotaExceededError, RequestError
from gputrain.quota.values import EVERYWHERE, Reading, Standing

_FAMILY = re.compile(r"(?P<id>\S+) \((?P<family>\w+)\)")
_NOWHERE = ("", "global", EVERYWHERE)


@attrs.frozen(kw_only=True)
class QuotaTarget:
    """One quota of a project at one place, in Cloud Quotas' words; a metric stands in for an unknown id."""

    project: str
    api: str
    quota_id: str
    metric: str
    dimensions: Mapping[str, str] = attrs.field(hash=False)


def target_of(meant: Standing | Reading | QuotaExceededError, project: str) -> QuotaTarget:
    """The quota that is meant, as far as it tells.

    Raises:
        RequestError: nothing that could be raised is meant, or its project is not known.
    """
    if isinstance(meant, QuotaExceededError):
        found = _of_error(meant, project)
    else:
        reading = meant.deciding if isinstance(meant, Standing) else meant
        if reading is None or not reading.quota_id:
            why = getattr(meant, "note", "") or "Cloud Quotas has no quota of a name that is known"
            raise RequestError("no quota to ask more of", why=why, fix="ask in Google's console")
        found = QuotaTarget(
            project=project or reading.project,
            api=reading.api,
            quota_id=reading.quota_id,
            metric="",
            dimensions=dict(reading.dimensions),
        )
    if not found.project:
        why = "the error does not say which project it is about"
        raise RequestError("whose quota is meant?", why=why, fix="project='my-project'")
    return found


def explained(error: GputrainError, readings: Sequence[Reading]) -> GputrainError:
    """A quota's error with what the readings know of the same quota: need, usage, limit and place.

    What the provider told itself stays; other errors stay as they are.
    """
    if not isinstance(error, QuotaExceededError):
        return error
    words = {stem(one) for one in (error.metric, error.limit_name, *error.metrics) if one}
    same = [one for one in readings if {stem(one.metric), stem(one.quota_id)} & words]
    if not same:
        return error
    used = [one.usage for one in same if one.usage is not None]
    limits = [one.limit for one in same if one.limit is not None]
    known = {
        "need": same[0].need if error.need is None else error.need,
        "usage": max(used, default=None) if error.usage is None else error.usage,
        "limit": min(limits, default=None) if error.limit is None else error.limit,
        "where": error.where or same[0].where,
    }
    same_again, _ = error.__reduce__()  # as it would pickle: all that it was made of
    told: GputrainError = same_again(**known)
    told.__cause__, told.__traceback__ = error.__cause__, error.__traceback__
    return told


def stem(name: str) -> str:
    """A quota's name without what its metric, its id and the words of an error write differently.

    >>> stem("NVIDIA-L4-GPUS-per-project-region"), stem("compute.googleapis.com/nvidia_l4_gpus")
    ('nvidia_l4_gpus', 'nvidia_l4_gpus')
    """
    word = name.rpartition("/")[2].partition(" ")[0].lower().replace("-", "_")
    return word.removesuffix("_region").removesuffix("_per_project")


def _of_error(error: QuotaExceededError, project: str) -> QuotaTarget:
    metric, ident = error.metric, error.limit_name
    family = _FAMILY.fullmatch(metric)
    dimensions = {key: value for key, value in error.dimensions.items() if key != "global"}
    if family is not None:
        ident = ident or family["id"]
        dimensions.setdefault("gpu_family", family["family"])
    if "region" not in dimensions and error.where not in _NOWHERE:
        dimensions["region"] = error.where
    host = metric.partition("/")[0] if "/" in metric else "compute.googleapis.com"
    return QuotaTarget(project=project, api=host, quota_id=ident, metric=stem(metric), dimensions=dimensions)


@attrs.frozen(kw_only=True)
class Count:
    """One quota that a job counts against, and what the whole job adds to it."""

    quota: Quota
    need: float
    where: str
    """A region, or `EVERYWHERE`."""
    is_gate: bool = True

    @property
    def dimensions(self) -> dict[str, str]:
        """What tells it apart from the same quota elsewhere, in the words of Cloud Quotas."""
        region = {} if self.where == EVERYWHERE else {"region": self.where}
        family = {"gpu_family": self.quota.gpu_family} if self.quota.gpu_family else {}
        return {**region, **family}


def counts(
    shape: Shape, num_nodes: int, model: ProvisioningModel, service: Service, region: str
) -> tuple[Count, ...]:
    """The quotas that a job counts against, the GPU's own first; empty where none is known.

    Machines of a reservation were counted when it was made.

    Source: live-quotas and Google's text on CPU quotas, read 2026-11-20.

    >>> from gputrain.catalog import shapes
    >>> [one.quota.name for one in counts(*shapes("T4", 2), 1, ProvisioningModel.SPOT, Service.COMPUTE, "r1")]
    ['PREEMPTIBLE_NVIDIA_T4_GPUS', 'GPUS_ALL_REGIONS', 'PREEMPTIBLE_CPUS', 'CPUS_ALL_REGIONS']
    """
    own = catalog.quota(shape.gpu, model, service=service)
    if own is None:
        return ()
    gpus, vcpus = shape.api_gpu_count * num_nodes, shape.machine.vcpus * num_nodes
    found = [Count(quota=own, need=gpus, where=region)]
    if service is Service.VERTEX:
        return tuple(found)
    found.append(Count(quota=ALL_REGIONS, need=gpus, where=EVERYWHERE))
    if shape.machine.family.needs_cpu_quota:
        cpus = CPUS if model is ProvisioningModel.STANDARD else PREEMPTIBLE_CPUS
        found.append(Count(quota=cpus, need=vcpus, where=region))
        found.append(Count(quota=CPUS_ALL_REGIONS, need=vcpus, where=EVERYWHERE))
    elif shape.machine_type.startswith("a2-") and model is ProvisioningModel.STANDARD:
        found.append(Count(quota=A2_CPUS, need=vcpus, where=region, is_gate=False))
    return tuple(found)
