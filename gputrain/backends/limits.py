"""What a spec may ask for that Google's services, or what we send them, cannot honour. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from functools import partial

from gputrain.backends.agent_reports import as_word
from gputrain.backends.base import LAYOUT
from gputrain.google.storage import BucketPrefix
from gputrain.planning import Limit
from gputrain.spec import TrainingSpec

MACHINE_TYPE = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)+")
LABEL = re.compile(r"[a-z][a-z0-9_-]{0,62}=[a-z0-9_-]{0,63}")
SECRET = re.compile(r"secret://projects/[^/\s]+/secrets/[^/\s]+/versions/(?:\d+|latest)")
MOST_LABELS = 56
"""64 are allowed on a resource; the rest is for our own."""


# fmt: off
LIMITS = (
    Limit(field="gpu", asks=lambda spec: not spec.gpu and spec.machine_type is None,
          why="it runs on machines with GPUs, and none is named",
          fix="gpu='L4:1', or Trainer(Local()) for CPU ranks"),
    Limit(field="machine_type",
          asks=lambda spec: spec.machine_type is not None and not MACHINE_TYPE.fullmatch(spec.machine_type),
          why="it is no machine type of Google Cloud", fix="machine_type='a3-highgpu-8g', or leave it out"),
    Limit(field="labels", asks=lambda spec: not all(map(LABEL.fullmatch, map("=".join, spec.labels.items()))),
          why="Google's keys are 1 to 63 small letters, digits, _ and -, a letter first; "
              "values are up to 63 of them",
          fix="labels={'team': 'nlp'}"),
    Limit(field="labels", asks=lambda spec: len(spec.labels) > MOST_LABELS,
          why=f"at most {MOST_LABELS} labels are possible on Google Cloud", fix="drop some"),
    Limit(field="secrets", asks=lambda spec: not all(map(SECRET.fullmatch, spec.secrets.values())),
          why="they are read from Secret Manager",
          fix="store it there and give secret://projects/P/secrets/S/versions/V"),
)
# fmt: on
"""Of both services."""

Variables = Mapping[str, str]


def words(
    holder: str, most: Callable[[TrainingSpec], int], env: Callable[[Variables], Variables] = dict
) -> tuple[Limit, ...]:
    """The limits that fields leave room for each other in the order of a job; the largest of them is named.

    Args:
        holder: what holds the order, and how much.
        most: the bytes that it leaves to them.
        env: which of the variables stand there.
    """
    fields = ("args", "command", "requirements", "secrets", "env")

    def is_too_large(field: str, spec: TrainingSpec) -> bool:
        sent = (spec.args, spec.command, spec.requirements, dict(spec.secrets), env(spec.env))
        sizes = {name: len(as_word(one or ())) for name, one in zip(fields, sent)}
        return sum(sizes.values()) > most(spec) and field == max(sizes, key=lambda name: sizes[name])

    why = f"{holder}, and {', '.join(fields)} are more than that"
    fix = "put what is long into a file beside the script, and give its path"
    return tuple(Limit(field=one, asks=partial(is_too_large, one), why=why, fix=fix) for one in fields)


OWN = ("code", "images", "jobs", "notes", "records")
"""What gputrain keeps in a bucket, below its prefix."""


def folders(bucket: BucketPrefix | None, why: str, *kept: str) -> tuple[Limit, ...]:
    """The limits that a job's folders outlive its machines, and hold nothing by which jobs are run.

    Args:
        bucket: gputrain's own.
        why: why places are refused that do not begin as one of ``kept``.
    """
    names, home = ", ".join(f"{name}/" for name in OWN), "" if bucket is None else bucket.uri()
    ours = f"it would hold, or lie in, what gputrain keeps of its jobs in {home}: {names}"

    def goes(field: str, spec: TrainingSpec) -> bool:
        return not (getattr(spec, field) or kept[0]).startswith(kept)

    def is_own(field: str, spec: TrainingSpec) -> bool:
        given = getattr(spec, field)
        return bucket is not None and given is not None and holds_own(bucket, given)

    return tuple(
        Limit(field=field, asks=partial(asks, field), why=reason, fix=fix)
        for field in LAYOUT
        for asks, reason, fix in (
            (goes, why, f"{field}='gs://my-bucket/...', or leave it out"),
            (is_own, ours, f"name a folder beside those, or leave {field} out"),
        )
    )


def holds_own(bucket: BucketPrefix, place: str) -> bool:
    """Whether a place would hold, or lie in, what gputrain keeps in its bucket; folders of jobs are theirs.

    >>> ours = BucketPrefix.parse("gs://my-bucket/team")
    >>> [holds_own(ours, f"gs://my-bucket/{one}") for one in ("", "team/code/x", "team/mine", "other")]
    [True, True, False, False]
    """
    inside = place.removeprefix("gs://").removeprefix("/gcs/")
    below = posixpath.normpath(f"/{inside}").lstrip("/") + "/"
    home = f"{bucket.name}/{bucket.prefix}"
    if home.startswith(below):
        return True
    own, *rest = below.removeprefix(home).rstrip("/").split("/") if below.startswith(home) else ("",)
    if own != "jobs":
        return own in OWN
    return len(rest) < 2 or rest[1] not in LAYOUT.values()  # jobs/JOB/FOLDER
