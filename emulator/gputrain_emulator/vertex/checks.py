"""What a custom job must satisfy before Vertex AI takes it, in Google's words.

Faults of single fields come first and together, as the service lists them; then machines; then what lies
outside of the request. Wording: the observed texts of public threads where one was seen, otherwise the
service's "List of found errors" form. Limits: aiplatform v1 protos (google-cloud-aiplatform 2.7.0).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from gputrain_emulator.call import Call
from gputrain_emulator.errors import ApiError, bad_request
from gputrain_emulator.storage import Storage
from gputrain_emulator.vertex import machines
from gputrain_emulator.vertex.machines import Json, seconds
from gputrain_emulator.vertex.state import Vertex

MAX_DISPLAY_NAME = 128
MAX_ENV = 100
MAX_POOLS = 4
MAX_LABELS = 64  # not published for Vertex AI; the figure of other Google services
MAX_LABEL = 64
FLEX_START_MAX_S = 7 * 24 * 3600

_KMS = re.compile(r"projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+")
_FORMS = (
    ("serviceAccount", "service_account", re.compile(r"[^@\s]+@[^@\s]+"), "Invalid service account."),
    ("network", "network", re.compile(r"projects/[^/]+/global/networks/[^/]+"),
     "Invalid network. The format must be projects/{project}/global/networks/{network}."),
    ("tensorboard", "tensorboard", re.compile(r"projects/[^/]+/locations/[^/]+/tensorboards/[^/]+"),
     "Invalid resource name."),
)  # fmt: skip
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BUCKET = re.compile(r"gs://([a-z0-9][a-z0-9._-]{1,220}[a-z0-9])(/.*)?")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,511}")
_LABEL_RULE = (
    "can only contain lowercase letters, numeric characters, underscores and dashes. "
    "International characters are allowed."
)
_MISSING = "Required field is not set."

Faults = Iterator[tuple[str, str]]


def listed(*faults: tuple[str, str]) -> ApiError:
    """One refusal for all faults of single fields, in the service's own form."""
    lines = (f"{at}.Field: {field}; Message: {why}\t" for at, (field, why) in enumerate(faults, 1))
    return ApiError(400, "List of found errors:\t" + "".join(lines), details=bad_request(faults).details)


def precondition(message: str) -> ApiError:
    return ApiError(400, message, canonical="FAILED_PRECONDITION")


def check(call: Call, region: str) -> None:
    """400 for the first fault of the CustomJob that a call creates."""
    vertex, spec = call.world.part(Vertex), call.body.get("jobSpec", {})
    faults = tuple(_field_faults(call.body))
    if faults:
        raise listed(*faults)
    if spec.get("persistentResourceId"):  # no way is served to make one
        raise precondition(f"Persistent resource {spec['persistentResourceId']} is not found.")
    machines.check(spec, region)
    account = spec.get("serviceAccount")
    if account in vertex.forbidden_accounts or (account and not call.caller.may("iam.serviceAccounts.actAs")):
        sentence = f"You do not have permission to act as service_account: {account}. (or it may not exist)."
        raise ApiError(400, sentence)
    output = _BUCKET.fullmatch(_output(spec))
    if output:
        _check_bucket(call, output[1], region)


def _check_bucket(call: Call, bucket: str, region: str) -> None:
    shown = f"gs://{bucket}"
    try:
        location = call.world.part(Storage).buckets.get(bucket).location.lower()
    except ApiError:
        raise precondition(f"The Cloud Storage bucket of {shown} does not exist.") from None
    if location != region:
        raise precondition(
            f"The Cloud Storage bucket of {shown} is in location {location}. "
            f"It must be in the same regional location as the service location {region}."
        )


def _output(spec: Json) -> str:
    return str(spec.get("baseOutputDirectory", {}).get("outputUriPrefix", ""))


def _field_faults(job: Json) -> Faults:
    name = job.get("displayName", "")
    if not name:
        yield "display_name", _MISSING
    elif len(name) > MAX_DISPLAY_NAME:
        yield "display_name", f"Length must be less than or equal to {MAX_DISPLAY_NAME}."
    yield from _label_faults(job.get("labels", {}))
    key = job.get("encryptionSpec", {}).get("kmsKeyName")
    if key and not _KMS.fullmatch(key):
        yield "encryption_spec.kms_key_name", "Invalid resource name."
    if "jobSpec" not in job:
        yield "job_spec", _MISSING
    else:
        yield from _spec_faults(job["jobSpec"])


def _label_faults(labels: dict[str, str]) -> Faults:
    if len(labels) > MAX_LABELS:
        yield "labels", f"The number of labels must be less than or equal to {MAX_LABELS}."
    if "" in labels:
        yield "labels", "Label keys must not be empty."
    for what, text in [one for pair in labels.items() for one in zip(("key", "value"), pair)]:
        if len(text) > MAX_LABEL:
            yield "labels", f'Label {what} "{text}" must be no longer than {MAX_LABEL} characters.'
        elif not all(c in "_-" or (c.isalpha() and c == c.lower()) or c.isdigit() for c in text):
            yield "labels", f'Label {what} "{text}" {_LABEL_RULE}'


def _spec_faults(spec: Json) -> Faults:
    pools = spec.get("workerPoolSpecs", ())
    if not pools:
        yield "job_spec.worker_pool_specs", _MISSING
    if len(pools) > MAX_POOLS:
        yield "job_spec.worker_pool_specs", f"At most {MAX_POOLS} worker pools are allowed."
    for at, pool in enumerate(pools):
        if at == 0 or any(pool.values()):
            for field, why in _pool_faults(pool, at, spec):
                yield f"job_spec.worker_pool_specs[{at}].{field}", why
    for json, field, pattern, why in _FORMS:
        if spec.get(json) and not pattern.fullmatch(spec[json]):
            yield f"job_spec.{field}", why
    if spec.get("tensorboard") and not spec.get("serviceAccount"):
        yield "job_spec.service_account", "Service account must be set when tensorboard is specified."
    if _output(spec) and not _BUCKET.fullmatch(_output(spec)):
        yield "job_spec.base_output_directory.output_uri_prefix", "Invalid Cloud Storage URI."
    for field, why in _scheduling_faults(spec.get("scheduling", {})):
        yield f"job_spec.scheduling.{field}", why


def _pool_faults(pool: Json, at: int, spec: Json) -> Faults:
    replicas = int(pool.get("replicaCount", 0))
    if at == 0 and replicas != 1:
        yield "replica_count", "The replica count of the first worker pool must be 1."
    elif replicas < 1:
        yield "replica_count", "The replica count must be greater than or equal to 1."
    if not spec.get("persistentResourceId") and not pool.get("machineSpec", {}).get("machineType"):
        yield "machine_spec.machine_type", _MISSING
    if "containerSpec" not in pool:
        yield "task", _MISSING
        return
    image, variables = (pool["containerSpec"].get(name) for name in ("imageUri", "env"))
    if not image or not _IMAGE.fullmatch(image):
        yield "container_spec.image_uri", "The image URI is malformed." if image else _MISSING
    if len(variables or ()) > MAX_ENV:
        yield "container_spec.env", f"At most {MAX_ENV} environment variables are allowed."
    for number, variable in enumerate(variables or ()):
        name: Any = variable.get("name")
        if not name or not _ENV_NAME.fullmatch(name):
            why = "Environment variable names must be valid C identifiers." if name else _MISSING
            yield f"container_spec.env[{number}].name", why


def _scheduling_faults(scheduling: Json) -> Faults:
    is_flex = scheduling.get("strategy") == "FLEX_START"
    for json, field in (("timeout", "timeout"), ("maxWaitDuration", "max_wait_duration")):
        if seconds(scheduling.get(json, "")) < 0:
            yield field, "The duration must not be negative."
    if "maxWaitDuration" in scheduling and not is_flex:
        sentence = "max_wait_duration can only be set when the scheduling strategy is FLEX_START."
        yield "max_wait_duration", sentence
    if is_flex and seconds(scheduling.get("timeout", "")) > FLEX_START_MAX_S:
        yield "timeout", "The timeout must be at most 7 days for strategy FLEX_START."
