"""Google's words for how capacity is bought, and the two services that sell it."""

from __future__ import annotations

import enum

FLEX_START_LONGEST_RUN_S = 7 * 24 * 3600
"""The longest a flex-start machine or job may run. Source: flex-start and compute-client, 2026-11-20."""


class Word(enum.Enum):
    """An enum whose text is its value."""

    def __str__(self) -> str:
        return str(self.value)


class Service(Word):
    """The Google Cloud service a machine is asked of."""

    COMPUTE = "compute"
    """Compute Engine VMs."""
    VERTEX = "vertex"
    """Vertex AI custom training jobs (in 2026 also "Gemini Enterprise Agent Platform" training)."""


class ProvisioningModel(Word):
    """How a machine is bought.

    Source: google-cloud-compute 1.56.0, ``Scheduling.ProvisioningModel``, read 2026-11-20.
    """

    STANDARD = "standard"
    """On demand, until it is deleted."""
    SPOT = "spot"
    """Cheaper, and taken away at any time."""
    FLEX_START = "flex-start"
    """Waits in a queue, then runs undisturbed for at most 7 days; billed at its own prices."""
    RESERVATION_BOUND = "reservation-bound"
    """Only inside a reservation, and ends with it."""


class ReservationKind(Word):
    """The kinds of reservation Google takes for a machine."""

    ON_DEMAND = "on-demand"
    """Made at once when there is capacity; its machines are used as ``standard``."""
    FUTURE = "future"
    """Asked for ahead of time, for a start date."""
    CALENDAR = "calendar"
    """A future reservation taken from a calendar of free capacity."""


class Stage(Word):
    """Where a GPU is in its life on Google Cloud."""

    ACTIVE = "active"
    DEPRECATED = "deprecated"
    """Still sold; its end date is announced."""
    GONE = "gone"
    """Can no longer be created."""


class Confidence(Word):
    """How sure a fact is; what is not HIGH is checked against the live API before money is spent on it."""

    HIGH = "high"
    """Read in Google's own documents or client libraries."""
    MEDIUM = "medium"
    """Read at second hand, or parts of the page were lost."""
    LOW = "low"
    """Inferred."""
