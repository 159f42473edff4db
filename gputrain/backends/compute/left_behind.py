"""The error for VMs of a gang that may be there still, and could not be removed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from gputrain.backends.compute.names import VmNames
from gputrain.errors import AccessError, GputrainError, ProviderError, RequestError
from gputrain.gcp import UnclearError
from gputrain.gcp.forms import Json


class LeftBehindError(UnclearError):
    """VMs of a gang may be there, and could not be removed: no other place may be asked."""

    kind = "left_behind"


@contextlib.contextmanager
def looking(gang: VmNames) -> Iterator[None]:
    """Whoever asked for VMs and cannot look at them raises LeftBehindError, so that the record stays."""
    try:
        yield
    except (AccessError, ProviderError, RequestError) as error:
        raise LeftBehindError(
            f"nobody can tell whether VMs of {gang.job_id} are in {gang.zone}",
            why=f"{error.what}: {error.why}",
            fix=error.fix,
        ) from error


def left_behind(gang: VmNames, left: Mapping[str, Json], refused: GputrainError | None) -> GputrainError:
    """The error for VMs that stay; the permission that is lacking says more than we could."""
    names = " ".join(sorted(left))
    what = f"instance-groups managed delete {gang.queue}" if gang.queue else f"instances delete {names}"
    fix = f"gcloud compute {what} --zone {gang.zone}; or trainer.clean_up()"
    return LeftBehindError(
        f"{len(left)} of {len(gang.names)} VMs of {gang.job_id} in {gang.zone} could not be deleted: {names}",
        why="they are on their way out and do not go" if refused is None else str(refused.what),
        fix=fix if refused is None or not refused.fix else f"{refused.fix}; then {fix}",
    )
