"""What Google Cloud asks of a spec, whichever of its services runs the job. Pure."""

from __future__ import annotations

import re

from gputrain.planning import Limit
from gputrain.spec import TrainingSpec

MACHINE_TYPE = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)+")
LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
SECRET = re.compile(r"secret://projects/[^/\s]+/secrets/[^/\s]+/versions/(?:\d+|latest)")
MOST_LABELS = 56
"""64 are allowed on a resource; the rest is for our own."""


def _has_other_labels(spec: TrainingSpec) -> bool:
    pairs = spec.labels.items()
    return not all(LABEL_KEY.fullmatch(key) and LABEL_VALUE.fullmatch(value) for key, value in pairs)


LIMITS = (
    Limit(
        field="machine_type",
        asks=lambda spec: spec.machine_type is not None and not MACHINE_TYPE.fullmatch(spec.machine_type),
        why="it is no machine type of Google Cloud",
        fix="machine_type='a3-highgpu-8g', or leave it out",
    ),
    Limit(
        field="labels",
        asks=_has_other_labels,
        why="Google's keys are 1 to 63 small letters, digits, _ and -, a letter first; "
        "values are up to 63 of them",
        fix="labels={'team': 'nlp'}",
    ),
    Limit(
        field="labels",
        asks=lambda spec: len(spec.labels) > MOST_LABELS,
        why=f"at most {MOST_LABELS} labels go on what Google makes",
        fix="drop some",
    ),
    Limit(
        field="secrets",
        asks=lambda spec: not all(SECRET.fullmatch(one) for one in spec.secrets.values()),
        why="they are read from Secret Manager",
        fix="store it there and give secret://projects/P/secrets/S/versions/V",
    ),
)
