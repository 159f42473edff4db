"""Where the facts come from, and the day they were read."""

from __future__ import annotations

import attrs

from gputrain.tables import Shown

READ_ON = "2026-11-20"
"""The day the built-in tables were read; ISO text, so dates compare as text."""


@attrs.frozen(kw_only=True)
class Source(Shown):
    """A document that facts were read in.

    ``dated`` is the day of the document itself as far as it tells; ``read_on`` the day it was read.
    """

    key: str
    what: str
    dated: str
    read_on: str = READ_ON


_DOCS = "docs.cloud.google.com"
_TRAINING = f"{_DOCS}/gemini-enterprise-agent-platform/machine-learning"
_CALCULATOR = "github.com/Cyclenerd/google-cloud-pricing-cost-calculator"

_ROWS = (
    ("gpus", f"{_DOCS}/compute/docs/gpus", "2026-04-14"),
    ("machines", f"{_DOCS}/compute/docs/accelerator-optimized-machines", "2026-04"),
    ("vertex-machines", f"{_TRAINING}/training/configure-compute", "2026, before 2026-09-15"),
    ("vertex-client", "google-cloud-aiplatform 2.7.0: AcceleratorType, Scheduling, MachineSpec", "2026-11"),
    ("compute-client", "google-cloud-compute 1.56.0 and google-cloud-quotas 0.6.3", "2026-11"),
    ("release-notes", "Compute Engine release notes of 2026-09-22", "2026-09-22"),
    ("machine-regions", f"{_CALCULATOR} machinetyperegion.csv @8bf3293", "2026-08-17"),
    ("accelerator-regions", f"{_CALCULATOR} acceleratortyperegion.csv @1c13e28", "2026-08-10"),
    ("prices", f"{_CALCULATOR} pricing.yml @fd66b26", "2026-07-30"),
    ("flex-start", f"{_TRAINING}/training/schedule-jobs-dws", "2026"),
    ("nvidia", "NVIDIA datasheets and CUDA release notes, general knowledge, not re-read", "undated"),
    ("gpuhunt", "github.com/dstackai/gpuhunt @3584151 src/gpuhunt/providers/gcp.py", "2026-08-19"),
    ("zones", "github.com/skypilot-org/skypilot-catalog catalogs/v9/gcp/vms.csv @2c3d7ea7", "mid-2026"),
    ("vertex-regions", f"{_TRAINING}/general/locations", "2026, before 2026-09-15"),
    ("live-quotas", "quota reads of live projects in seven public repositories", "2026-05 to 2026-09"),
    ("quota-ids", "Google vertex-ai-samples common_util get_quota_id", "undated"),
    ("audit", "audit of a live project, and GKE users' reports, of the newest zones", "2026-06-23"),
    ("networks", "github.com/GoogleCloudPlatform/cluster-toolkit @1047080 and gpu-recipes @2e1fd5e", "2026"),
    ("n1", "cloud.google.com/compute/docs/machine-types: 3.75, 6.5 and 0.9 GB per vCPU", "undated copy"),
    ("wheels", "github.com/pytorch/pytorch issues 90761 and 110153: architectures in each wheel", "undated"),
)

SOURCES = {key: Source(key=key, what=what, dated=dated) for key, what, dated in _ROWS}
