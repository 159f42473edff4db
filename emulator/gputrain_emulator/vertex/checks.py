"""What a custom job must satisfy before Vertex AI takes it, said in Google's words.

`check` looks at a CustomJob and at the little it must know of the project (`Place`), and raises
the first fault as `InvalidJobError`. Faults of single fields come first and together, as the service lists
them; then machines; then what lies outside of the request: service account, bucket, persistent resource.
Wording: the observed texts of public threads where one was seen, otherwise the service's
"List of found errors" form. Limits: aiplatform v1 protos (google-cloud-aiplatform 2.7.0).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gputrain_emulator.messages import Record
from gputrain_emulator.vertex import machines
from gputrain_emulator.vertex.machines import InvalidJobError

MAX_DISPLAY_NAME = 128
MAX_ENV = 100
MAX_POOLS = 4
MAX_LABELS = 64  # not published for Vertex AI; the figure of other Google services
MAX_LABEL = 64
FLEX_START_MAX_S = 7 * 24 * 3600

_KMS = re.compile(r"projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+")
_FORMS = (
    ("service_account", re.compile(r"[^@\s]+@[^@\s]+"), "Invalid service account."),
    ("network", re.compile(r"projects/[^/]+/global/networks/[^/]+"),
     "Invalid network. The format must be projects/{project}/global/networks/{network}."),
    ("tensorboard", re.compile(r"projects/[^/]+/locations/[^/]+/tensorboards/[^/]+"),
     "Invalid resource name."),
)  # fmt: skip
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BUCKET = re.compile(r"gs://([a-z0-9][a-z0-9._-]{1,220}[a-z0-9])(/.*)?")
_LABEL_RULE = (
    "can only contain lowercase letters, numeric characters, underscores and dashes. "
    "International characters are allowed."
)


def listed(*faults: tuple[str, str]) -> InvalidJobError:
    """One refusal for all faults of single fields, in the service's own form."""
    lines = (f"{at}.Field: {field}; Message: {why}\t" for at, (field, why) in enumerate(faults, 1))
    return InvalidJobError("List of found errors:\t" + "".join(lines), fields=faults)


_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,511}")


@dataclass(frozen=True, kw_only=True)
class Place:
    """What the checks must know of the project and region."""

    region: str
    may_act_as: Callable[[str], bool]
    bucket_location: Callable[[str], str | None]  # None: no such bucket
    has_persistent_resource: Callable[[str], bool]


def check(job: Record, place: Place) -> None:
    """Raise the first fault of a CustomJob; return when it may be created.

    Raises:
        InvalidJobError: with the message, the fields and the kind of refusal.
    """
    faults = tuple(_field_faults(job))
    if faults:
        raise listed(*faults)
    spec = job.job_spec
    if spec.persistent_resource_id:
        _check_persistent_resource(spec, place)
    else:
        machines.check(spec, place.region)
    _check_outside(spec, place)


def _field_faults(job: Record) -> Iterator[tuple[str, str]]:
    if not job.display_name:
        yield "display_name", "Required field is not set."
    elif len(job.display_name) > MAX_DISPLAY_NAME:
        yield "display_name", f"Length must be less than or equal to {MAX_DISPLAY_NAME}."
    yield from _label_faults(job.labels)
    if job.encryption_spec.kms_key_name and not _KMS.fullmatch(job.encryption_spec.kms_key_name):
        yield "encryption_spec.kms_key_name", "Invalid resource name."
    yield from _spec_faults(job.job_spec)


def _label_faults(labels: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if len(labels) > MAX_LABELS:
        yield "labels", f"The number of labels must be less than or equal to {MAX_LABELS}."
    for key, value in labels.items():
        for what, text in (("key", key), ("value", value)):
            if what == "key" and not text:
                yield "labels", "Label keys must not be empty."
            elif len(text) > MAX_LABEL:
                yield "labels", f'Label {what} "{text}" must be no longer than {MAX_LABEL} characters.'
            elif not all(_label_character(c) for c in text):
                yield "labels", f'Label {what} "{text}" {_LABEL_RULE}'


def _label_character(c: str) -> bool:
    if c in "_-":
        return True
    return (c.isalpha() and c == c.lower()) or c.isdigit()


def _spec_faults(spec: Record) -> Iterator[tuple[str, str]]:
    pools = spec.worker_pool_specs
    if not pools:
        yield "job_spec.worker_pool_specs", "Required field is not set."
    if len(pools) > MAX_POOLS:
        yield "job_spec.worker_pool_specs", f"At most {MAX_POOLS} worker pools are allowed."
    for at, pool in enumerate(pools):
        if at == 0 or not pool.is_empty():
            yield from _pool_faults(pool, at, f"job_spec.worker_pool_specs[{at}]", spec)
    for name, pattern, why in _FORMS:
        value = getattr(spec, name)
        if value and not pattern.fullmatch(value):
            yield f"job_spec.{name}", why
    if spec.tensorboard and not spec.service_account:
        yield "job_spec.service_account", "Service account must be set when tensorboard is specified."
    output = spec.base_output_directory.output_uri_prefix
    if output and not _BUCKET.fullmatch(output):
        yield "job_spec.base_output_directory.output_uri_prefix", "Invalid Cloud Storage URI."
    yield from _scheduling_faults(spec.scheduling)


def _pool_faults(pool: Record, at: int, where: str, spec: Record) -> Iterator[tuple[str, str]]:
    if at == 0 and pool.replica_count != 1:
        yield f"{where}.replica_count", "The replica count of the first worker pool must be 1."
    elif pool.replica_count < 1:
        yield f"{where}.replica_count", "The replica count must be greater than or equal to 1."
    if not spec.persistent_resource_id and not pool.machine_spec.machine_type:
        yield f"{where}.machine_spec.machine_type", "Required field is not set."
    task = pool.one_of("task")
    if not task:
        yield f"{where}.task", "Required field is not set."
    elif task == "container_spec":
        if not pool.container_spec.image_uri:
            yield f"{where}.container_spec.image_uri", "Required field is not set."
        elif not _IMAGE.fullmatch(pool.container_spec.image_uri):
            yield f"{where}.container_spec.image_uri", "The image URI is malformed."
        yield from _env_faults(pool.container_spec.env, f"{where}.container_spec.env")


def _env_faults(env: Sequence[Record], where: str) -> Iterator[tuple[str, str]]:
    if len(env) > MAX_ENV:
        yield where, f"At most {MAX_ENV} environment variables are allowed."
    for at, variable in enumerate(env):
        if not variable.name:
            yield f"{where}[{at}].name", "Required field is not set."
        elif not _ENV_NAME.fullmatch(variable.name):
            yield f"{where}[{at}].name", "Environment variable names must be valid C identifiers."


def _scheduling_faults(scheduling: Record) -> Iterator[tuple[str, str]]:
    for name in ("timeout", "max_wait_duration"):
        if getattr(scheduling, name) < 0:
            yield f"job_spec.scheduling.{name}", "The duration must not be negative."
    flex = scheduling.strategy == machines.FLEX_START
    if scheduling.has("max_wait_duration") and not flex:
        yield (
            "job_spec.scheduling.max_wait_duration",
            "max_wait_duration can only be set when the scheduling strategy is FLEX_START.",
        )
    if flex and int(scheduling.timeout) > FLEX_START_MAX_S:
        yield "job_spec.scheduling.timeout", "The timeout must be at most 7 days for strategy FLEX_START."


def _check_persistent_resource(spec: Record, place: Place) -> None:
    name = spec.persistent_resource_id
    if not place.has_persistent_resource(name):
        raise InvalidJobError(f"Persistent resource {name} is not found.", precondition=True)


def _check_outside(spec: Record, place: Place) -> None:
    account = spec.service_account
    if account and not place.may_act_as(account):
        raise InvalidJobError(
            f"You do not have permission to act as service_account: {account}. (or it may not exist)."
        )
    output = spec.base_output_directory.output_uri_prefix
    if output:
        _check_bucket(output, place)


def _check_bucket(uri: str, place: Place) -> None:
    found = _BUCKET.fullmatch(uri)
    bucket = found.group(1) if found else uri
    location = place.bucket_location(bucket)
    if location is None:
        raise InvalidJobError(f"The Cloud Storage bucket of gs://{bucket} does not exist.", precondition=True)
    if location.lower() != place.region:
        raise InvalidJobError(
            f"The Cloud Storage bucket of gs://{bucket} is in location {location.lower()}. "
            f"It must be in the same regional location as the service location {place.region}.",
            precondition=True,
        )
