"""Refusals from everywhere: token endpoint, metadata server, storage, logging, quotas, a lost connection."""

import json
import ssl
import subprocess
import sys
import traceback

import google.auth.exceptions
import google.oauth2.credentials
import pytest
import requests
from google.api_core import exceptions as theirs
from google.cloud import compute_v1
from google.rpc.error_details_pb2 import ErrorInfo

import gputrain_emulator
from gputrain.errors import AuthError, GputrainError, RequestError, Scope, TransientError
from gputrain.gcp import Access, Api, UnclearError, read_answer, translated
from gputrain.gcp.answer import Surface
from gputrain.gcp.translate import LARGEST, answer_of_response, read_answers
from gputrain.gcp.wire import Reply
from gputrain.retry import ONCE
from gputrain_emulator import faults, oauth
from gputrain_emulator.errors import Style
from gputrain_emulator.failures import ROWS, fault
from gputrain_emulator.faults import RawReply
from tests.each import each

NAMES = {
    "project": "my-project",
    "number": "123456789012",
    "zone": "us-central1-a",
    "region": "us-central1",
    "name": "vm-1",
}


@pytest.fixture
def cloud():
    with gputrain_emulator.start() as running:
        running.add_bucket("my-bucket")
        yield running


HERE = "https://www.googleapis.com/compute/v1/projects/p"


def access_of(cloud, credentials=None):
    return Access(
        project="my-project", credentials=credentials or cloud.credentials, endpoints=cloud.endpoints
    )


def refused(access, method="GET", path="/storage/v1/b/my-bucket", **options):
    with pytest.raises(GputrainError) as caught:
        access.document(method, access.url(Api.STORAGE) + path, action="look", policy=ONCE, **options)
    return caught.value


def login(cloud, refresh_token):
    """Credentials of a person, whose first token is still to be asked for."""
    return google.oauth2.credentials.Credentials(
        token=None,
        refresh_token=refresh_token,
        client_id="client",
        client_secret="GOCSPX-the-secret-of-the-client",
        token_uri=f"{cloud.endpoints.url}/token",
    )


CALLS = {
    "storage": ("GET", "/storage/v1/b/my-bucket", "storage.buckets.get"),
    "logging": ("POST", "/v2/entries:list", "logging.logEntries.list"),
    "quotas": (
        "GET",
        "/v1/projects/my-project/locations/global/services/compute.googleapis.com/quotaInfos",
        "cloudquotas.quotas.get",
    ),
    "compute": ("GET", "/compute/v1/projects/my-project/zones", "compute.zones.list"),
    "vertex": (
        "GET",
        "/v1/projects/my-project/locations/us-central1/customJobs",
        "aiplatform.customJobs.list",
    ),
    "services": (
        "GET",
        "/v1/projects/my-project/services/compute.googleapis.com",
        "serviceusage.services.get",
    ),
}


@pytest.mark.parametrize("api", CALLS)
def test_every_api_names_the_permission_that_is_missing(cloud, api):
    nobody = cloud.caller("nobody@example.com", [])
    method, path, permission = CALLS[api]
    body = {"resourceNames": ["projects/my-project"]} if method == "POST" else None
    error = refused(access_of(cloud, cloud.credentials_of(nobody)), method, path, json=body)
    assert (error.kind, error.permission, error.scope) == ("permission", permission, Scope.ACCOUNT)
    assert permission in error.fix


def test_a_wrong_clock_is_told_before_anything_is_sent(cloud):
    cloud.fail("oauth.token", oauth.clock_skew(), times=None)
    error = refused(access_of(cloud, login(cloud, cloud.owner.refresh_token)))
    assert (type(error), error.kind) == (AuthError, "clock_skew")
    assert "timedatectl" in error.fix
    assert [seen.method for seen in cloud.requests] == ["oauth.token"]


def test_a_login_that_has_run_out_asks_for_another_and_shows_no_secret(cloud):
    error = refused(access_of(cloud, login(cloud, "1//0-the-refresh-token-of-the-user")))
    assert (type(error), error.kind) == (AuthError, "credentials_refused")
    assert "gcloud auth application-default login" in error.fix
    shown = f"{error} {error!r} {error.raw!r}"
    assert "the-refresh-token" not in shown
    assert "the-secret" not in shown


def test_a_token_that_expires_in_mid_flight_is_refused_only_after_another_was_asked_for(cloud):
    cloud.fail("storage.buckets.get", "C33", times=None)
    assert refused(access_of(cloud)).kind == "credentials_refused"
    assert [seen.method for seen in cloud.requests].count("oauth.token") >= 1


def test_without_a_token_the_request_was_not_sent_so_nothing_is_unclear():
    nowhere = google.oauth2.credentials.Credentials(
        token=None, refresh_token="r", client_id="c", client_secret="s", token_uri="http://127.0.0.1:9/token"
    )
    with pytest.raises(TransientError) as caught:
        Access(project="p", credentials=nowhere).post("http://127.0.0.1:9/", action="look")
    assert (type(caught.value), caught.value.kind) == (TransientError, "token_unavailable")


def test_a_machine_without_a_service_account_has_no_credentials():
    gone = google.auth.exceptions.TransportError(
        "Failed to retrieve http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/"
        "default/ from the Google Compute Engine metadata service. Status: 404 Response:\nb''",
        None,
    )
    with pytest.raises(AuthError) as caught, translated("look"):
        raise google.auth.exceptions.RefreshError(gone)
    assert caught.value.kind == "credentials_missing"


def test_an_account_that_may_not_be_impersonated_is_a_missing_permission():
    denied = fault("V08", **NAMES).error.body(Style.PLATFORM)
    body = json.dumps(denied).replace("aiplatform.customJobs.create", "iam.serviceAccounts.getAccessToken")
    with pytest.raises(GputrainError) as caught, translated("look"):
        raise google.auth.exceptions.RefreshError("Unable to acquire impersonated credentials", body)
    assert (caught.value.kind, caught.value.permission) == (
        "permission",
        "iam.serviceAccounts.getAccessToken",
    )


@each("row", [row for row, failure in ROWS.items() if failure.where == "in the operation"])
def test_what_an_operations_result_raises_is_told_as_the_operation_is(row):
    """`ExtendedOperation.result()` raises so (google-api-core 2.44.0, `_handle_refreshed_operation`)."""
    made = fault(row, **NAMES)
    document = {
        "name": "operation-1",
        "zone": "https://www.googleapis.com/compute/v1/projects/p/zones/us-central1-a",
        "error": {"errors": list(made.errors)},
    }
    operation = compute_v1.Operation(compute_v1.Operation.from_json(json.dumps(document)))
    with pytest.raises(GputrainError) as caught, translated("create the VM"):
        raise theirs.from_http_status(
            made.http_status or 400, "FORBIDDEN", response=operation, errors=operation.error.errors
        )
    assert caught.value.why.startswith(made.errors[0]["message"])
    assert caught.value.kind not in ("unknown", "unclear")


def test_the_gravest_of_an_operations_errors_counts(cloud):
    errors = [fault(row, **NAMES).errors[0] for row in ("C05", "C01", "C06", "C10")]
    operation = compute_v1.Operation.from_json(json.dumps({"error": {"errors": errors}}))
    with pytest.raises(GputrainError) as caught, translated("create the VMs"):
        raise theirs.from_http_status(503, "SERVICE UNAVAILABLE", response=operation)
    assert caught.value.kind == "quota_project"


@pytest.mark.parametrize("body", [b"[]", b'"text"', b"7", b"null", b"[" * 50_000, b"\xff\xfe", b"<html>"])
def test_a_success_that_is_no_object_is_unclear(cloud, body):
    cloud.fail("storage.buckets.get", RawReply(status=200, body=body, content_type="application/json"))
    error = refused(access_of(cloud))
    assert type(error) is UnclearError


def test_a_mistake_of_ours_is_not_taken_for_an_answer():
    with pytest.raises(AttributeError), translated("look"):
        object().nothing  # noqa: B018


def of_module(name):
    """A function of a module of that name, which calls another."""
    made = {"__name__": name}
    exec("def call(other):\n    return other()", made)
    return made["call"]


STUMBLES = (ZeroDivisionError, AttributeError, KeyError, RecursionError, TypeError, ValueError)


@each("kind", STUMBLES)
@each("module", ["google.api_core.x", "requests.x", "urllib3", "proto.x", "grpc._x"])
def test_what_a_library_stumbles_over_in_an_answer_is_unclear(module, kind):
    def stumble():
        raise kind("over it")

    theirs, pythons, ours = of_module(module), of_module("json.decoder"), of_module("gputrain.x")
    with pytest.raises(UnclearError, match="could not look"), translated("look"):
        theirs(lambda: pythons(stumble))
    with pytest.raises(kind), translated("look"):
        theirs(lambda: ours(stumble))
    with pytest.raises(kind), translated("look"):
        of_module("googled.x")(stumble)


def refused_login(*words, retryable=False):
    return google.auth.exceptions.RefreshError(*words, retryable=retryable)


LOST = google.auth.exceptions.TransportError("gone", 3)
LOGINS = [
    (refused_login("no", '{"error": "invalid_grant"}'), 400, {"invalid_grant"}, "invalid_grant"),
    (refused_login("no", {"error": "x"}, retryable=True), 0, {"x"}, "x"),
    (refused_login("no", ' {"error": {"code": 403}}'), 403, set(), ""),
    (refused_login("no", '{"other": 1}', "{", '{"error"'), 401, {"RefreshError"}, "RefreshError: no"),
    (refused_login("no", 7, retryable=True), 503, set(), "RefreshError: no"),
    (refused_login(LOST, "x"), 503, set(), "TransportError: gone"),
    (refused_login("x", LOST), 401, {"RefreshError"}, "RefreshError: x"),
    (refused_login(), 401, {"RefreshError"}, "RefreshError: "),
    (LOST, 503, set(), "TransportError: gone"),
]


@each(("raised", "status", "codes", "message"), LOGINS)
def test_a_login_that_failed_is_read_from_whatever_google_auth_put_into_it(raised, status, codes, message):
    answer = read_answer(raised)
    assert (answer.surface, answer.status, answer.codes) == (Surface.AUTH, status, codes)
    assert answer.message == message


def of_grpc(kind, *, message="no", details=(), **more):
    return kind(message, details=details, **more)


CALLS_BY_GRPC = [
    (of_grpc(theirs.PermissionDenied), 403, "PERMISSION_DENIED", "no", set()),
    (of_grpc(theirs.NotFound, message=""), 404, "NOT_FOUND", "", set()),
    (of_grpc(theirs.BadRequest), 400, "INVALID_ARGUMENT", "no", set()),
    (of_grpc(theirs.GoogleAPICallError), 0, "", "no", set()),
    (of_grpc(theirs.NotFound, details=[{"reason": "A"}, "text", 7]), 404, "NOT_FOUND", "no", {"A"}),
    (of_grpc(theirs.NotFound, details=[ErrorInfo(reason="B")]), 404, "NOT_FOUND", "no", {"B"}),
    (of_grpc(theirs.NotFound, response=object()), 404, "NOT_FOUND", "no", set()),
]


@each(("raised", "status", "canonical", "message", "reasons"), CALLS_BY_GRPC)
def test_a_call_that_failed_over_grpc_is_read_from_its_exception(raised, status, canonical, message, reasons):
    answer = read_answer(raised)
    assert (answer.surface, answer.status, answer.canonical) == (Surface.VERTEX, status, canonical)
    assert (answer.message, answer.reasons) == (message, reasons)


@pytest.mark.parametrize(
    ("document", "places"),
    [
        ({"zone": f"{HERE}/zones/us-east4-b"}, {"us-east4-b"}),
        ({"region": f"{HERE}/regions/us-east4"}, {"us-east4"}),
        ({}, {""}),
    ],
)
def test_an_operation_that_ended_without_an_error_of_its_own_is_told_by_its_status(document, places):
    operation = compute_v1.Operation.from_json(json.dumps(document))
    raised = theirs.from_http_status(503, "SERVICE UNAVAILABLE", response=operation)
    (answer,) = read_answers(raised)
    assert (answer.surface, answer.status, {answer.place}) == (Surface.OPERATION, 503, places)
    assert answer.message == "SERVICE UNAVAILABLE"


@pytest.mark.parametrize("size", [LARGEST, LARGEST + 1])
def test_a_refusal_is_read_as_json_up_to_a_mebibyte_and_beyond_it_as_a_text(size):
    body = b'{"error": {"code": 404, "message": "gone"}}'
    reply = Reply(status_code=404, reason="Not Found", url="", headers={}, content=body.ljust(size))
    told = answer_of_response(reply).message
    assert LARGEST == 1024 * 1024
    assert told == ("gone" if size == LARGEST else f"HTTP 404 Not Found: {body.decode().ljust(200)}")


def test_a_certificate_that_is_not_trusted_is_found_however_deep_it_lies():
    def wrapped(depth):
        error = ssl.SSLCertVerificationError("self-signed")
        for number in range(depth):
            error = requests.ConnectionError("x", error) if number % 2 else OSError("y", error)
        return requests.ConnectionError(error)

    for depth in range(9):
        with pytest.raises(RequestError, match="cannot be trusted"), translated("look"):
            raise wrapped(depth)
    with pytest.raises(UnclearError), translated("look"):
        raise requests.ConnectionError(OSError("y"))


UNCAUGHT = """
import sys
from gputrain.gcp import Access
import google.oauth2.credentials
url, token = sys.argv[1:]
access = Access(project="my-project", credentials=google.oauth2.credentials.Credentials(token))
access.get(url, action="look at the bucket")
"""


def test_uncaught_its_last_lines_say_what_why_and_fix_and_no_secret(cloud):
    cloud.fail("storage.buckets.get", "C26", times=None)
    url = cloud.endpoints.url + "/storage/v1/b/my-bucket"
    token = cloud.world.callers.issue(cloud.owner)
    done = subprocess.run(
        [sys.executable, "-c", UNCAUGHT, url, token], capture_output=True, text=True, timeout=60, check=False
    )
    what, why, fix = done.stderr.splitlines()[-3:]
    assert (
        what == "gputrain.errors.PermissionDeniedError: could not look at the bucket: you lack a permission"
    )
    assert why.startswith("  why: Required 'compute.instances.create' permission for 'projects/my-project/")
    assert fix.startswith("  fix: ask for a role with compute.instances.create: gcloud projects add-iam-")
    assert token not in done.stderr


def test_a_broken_connection_is_shown_without_what_opens_doors(cloud):
    cloud.fail("storage.buckets.get", faults.DropBeforeCommit(), times=None)
    error = refused(access_of(cloud), path="/storage/v1/b/my-bucket?access_token=the-secret-token")
    assert type(error) is UnclearError
    assert "the-secret-token" not in f"{error} {error.raw!r}"
    assert "the-secret-token" not in "".join(traceback.format_exception(error))


def test_a_broken_connection_keeps_its_cause(cloud):
    cloud.fail("storage.buckets.get", faults.DropBeforeCommit(), times=None)
    assert type(refused(access_of(cloud)).__cause__).__name__ == "ConnectionError"


def test_what_a_token_endpoint_says_may_be_of_any_depth():
    with pytest.raises(AuthError), translated("get a token"):
        raise google.auth.exceptions.RefreshError("no token", '{"error":' * 100_000)
