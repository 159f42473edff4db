# ruff: noqa: E501  # Google's words stand whole
"""Whatever Google reports, and in whatever way, becomes the error that says what to do."""

import itertools
import json
import ssl
import traceback

import google.api_core.exceptions as theirs
import google.oauth2.credentials
import pytest
import requests
from google.auth import exceptions as logins
from google.auth.exceptions import GoogleAuthError, RefreshError, TransportError

import gputrain_emulator
from gputrain.errors import (
    AuthError,
    CapacityError,
    GputrainError,
    ProviderError,
    RequestError,
    Scope,
    TransientError,
)
from gputrain.google import (
    Api,
    ErrorDetails,
    GoogleClient,
    UnclearError,
    google_errors,
    most_severe,
    to_error,
)
from gputrain.google.errors import (
    LONGEST,
    RULES,
    ReportedQuota,
    body_error,
    classify,
    details_of,
    shorten,
)
from gputrain.retry import ONCE
from gputrain_emulator import faults, oauth
from gputrain_emulator.errors import Style
from gputrain_emulator.failures import fault
from tests.each import each
from tests.unit.google.refusals_told import TOLD

API = {"codes": frozenset({"accessNotConfigured"})}
LACK = {"codes": frozenset({"insufficientCapacity"})}
TOLD_BY = [
    (API, {"fix": "gcloud services enable API --project PROJECT; then wait a few minutes"}),
    ({**API, "message": "... has not been used in project 123456 before"}, {"fix": "--project 123456;"}),
    ({**API, "message": "... in projects/my-project."}, {"fix": "--project my-project;"}),
    (
        {**API, "message": "in project number:123456", "metadata": {"consumer": "projects/mine"}},
        {"fix": "--project mine;"},
    ),
    ({**API, "message": "see www.googleapis.com/apis/api/iam.googleapis.com/"}, {"api": "iam.googleapis.com"}),
    ({**API, "message": "iam.googleapis.com is off"}, {"api": "iam.googleapis.com"}),
    ({**API, "metadata": {"service": "iam.googleapis.com"}, "message": "x"}, {"api": "iam.googleapis.com"}),
    ({**LACK, "place": "us-east4"}, {"place": "us-east4"}),
    ({**LACK, "place": "us-east4", "metadata": {"zone": "us-east4-b"}}, {"place": "us-east4-b"}),
    (
        {"message": "Resources are insufficient in region: us-east4.", "metadata": {"zone": "us-east5-b"}},
        {"place": "us-east4"},
    ),
    (
        {"codes": frozenset({"IAM_PERMISSION_DENIED"}), "metadata": {"permission": "a.b.get"}},
        {"permission": "a.b.get"},
    ),
    (
        {"codes": frozenset({"rateLimitExceeded"}), "quota": ReportedQuota(metric="Queries"), "retry_after_s": 3.0},
        {"metric": "Queries", "retry_after_s": 3.0},
    ),
    ({"codes": frozenset({"quotaExceeded"})}, {"metric": "", "metrics": (), "where": ""}),
    ({"codes": frozenset({"quotaExceeded"}), "place": "us-east4"}, {"where": "us-east4"}),
    (
        {"codes": frozenset({"quotaExceeded"}), "quota": ReportedQuota(metric="CPUS", dimensions={"region": "r"})},
        {"metric": "CPUS", "metrics": ("CPUS",), "where": "r"},
    ),
    (
        {"codes": frozenset({"quotaExceeded"}), "quota": ReportedQuota(metric="GPUS_ALL_REGIONS")},
        {"where": "global"},
    ),
]  # fmt: skip


@each(("said", "told"), TOLD_BY)
def test_facts_are_read_from_any_part_of_the_details(said, told):
    error = to_error(ErrorDetails(**said), "create the job")
    assert told.get("fix", "") in error.fix
    assert all(getattr(error, name) == fact for name, fact in told.items() if name != "fix")


@pytest.mark.parametrize(
    ("unreached", "fix"),
    [
        ("http://127.0.0.1:18080", "start the emulator, gputrain-emulator --port 18080;"),
        ("https://storage.googleapis.com", "check this machine's network"),
        ("", "look whether it was done before you do it again"),
    ],
)
def test_where_nobody_answers_the_fix_is_of_the_way_there(unreached, fix):
    details = ErrorDetails(where="network", unreached=unreached)
    assert to_error(details, "look").fix.startswith(fix)


@pytest.mark.parametrize(
    ("said", "scope"),
    [
        ({"message": "Quota 'GPUS_ALL_REGIONS' exceeded.  Limit: 0.0"}, Scope.PROJECT),
        ({"message": "Quota 'CPUS_ALL_REGIONS' exceeded.  Limit: 8.0 in region us-east1."}, Scope.PROJECT),
        ({"quota": ReportedQuota(metric="compute.googleapis.com/gpus_all_regions")}, Scope.PROJECT),
        (
            {"quota": ReportedQuota(metric="GPUS_ALL_REGIONS", dimensions={"region": "us-east1"})},
            Scope.PROJECT,
        ),
        ({"quota": ReportedQuota(metric="NVIDIA_L4_GPUS", dimensions={"region": "us-east1"})}, Scope.REGION),
    ],
)
def test_a_quota_of_all_regions_reaches_as_far_whatever_else_is_told_of_it(said, scope):
    details = ErrorDetails(status=403, codes=frozenset({"quotaExceeded"}), **said)
    assert to_error(details, "create the VM").scope is scope


@pytest.mark.parametrize("reason", ["rateLimitExceeded", "userRateLimitExceeded"])
def test_a_limit_per_minute_refills_with_googles_minute(reason):
    details = ErrorDetails(status=403, codes=frozenset({reason}), message="Rate Limit Exceeded")
    assert to_error(details, "look", now=130.0).refills_in_s == 50.0
    assert to_error(details, "look").refills_in_s is None


BY_STATUS = {
    "call": {
        401: "credentials_refused", 403: "permission", 404: "missing", 409: "name_taken", 410: "missing", 412: "changed",
        429: "rate", **dict.fromkeys((400, 405, 411, 413), "request"),
        **dict.fromkeys((408, 499, 500, 502, 503, 504), "unclear"),
    },
    "operation": {401: "credentials_refused", 409: "name_taken", **dict.fromkeys((400, 405, 411, 413), "request")},
}  # fmt: skip
"""An operation's status speaks of what it did, not of our call: a stockout is a 503, a quota a 403."""


@each("where", BY_STATUS)
def test_what_a_status_alone_means(where):
    kinds = {
        status: to_error(ErrorDetails(where=where, status=status, message="x"), "look").kind
        for status in range(400, 600)
    }
    assert {status: kind for status, kind in kinds.items() if kind != "unknown"} == BY_STATUS[where]


@pytest.mark.parametrize(("codes", "code"), [("b a", "a"), ("", "418")])
def test_an_answer_nobody_foresaw_is_kept_word_for_word(codes, code):
    details = ErrorDetails(status=418, codes=frozenset(codes.split()), raw={"teapot": True})
    error = to_error(details, "brew")
    assert type(error) is ProviderError
    assert (error.code, error.raw) == (code, {"teapot": True})
    assert error.why == f"status 418 {' '.join(sorted(codes.split()))}".strip()


def test_each_rule_says_what_to_do():
    assert [rule.name for rule in RULES if not rule.fix] == []
    assert [name for name, told in TOLD.items() if not told.advice] == []
    assert sorted(TOLD) == sorted(rule.name for rule in RULES)


def families(kind):
    yield kind
    for child in kind.__subclasses__():
        yield from families(child)


def test_every_exception_of_the_client_library_has_an_error():
    unknown = set()
    for kind in families(theirs.GoogleAPICallError):
        if kind.code is not None and isinstance(to_error(details_of(kind("words")), "x"), ProviderError):
            unknown.add(kind.__name__)
    # redirects are never answered to our calls; the rest is never guessed at
    assert unknown <= {
        "Redirection", "MovedPermanently", "NotModified", "TemporaryRedirect", "ResumeIncomplete",
        "LengthRequired", "RequestRangeNotSatisfiable", "MethodNotImplemented", "DataLoss", "Unknown",
    }  # fmt: skip


def test_every_exception_of_a_login_is_of_the_credentials_but_for_a_lost_connection():
    kinds = [
        one for one in vars(logins).values() if isinstance(one, type) and issubclass(one, GoogleAuthError)
    ]
    found = {one.__name__: type(to_error(details_of(one("words")), "log in")) for one in kinds}
    assert len(found) > 10
    assert {name for name, kind in found.items() if kind is not AuthError} == {"TransportError"}


def test_what_a_person_must_mend_counts_before_what_passes_and_what_nobody_foresaw_stands_between():
    known = [TOLD[name].example for name in ("permission", "quota_region", "in_use", "stockout", "rate")]
    errors = [to_error(one, "x") for one in (*known[:-1], ErrorDetails(status=418), known[-1])]
    for graver, lighter in itertools.combinations(errors, 2):
        assert most_severe([graver, lighter]) is most_severe([lighter, graver]) is graver


def test_other_places_are_asked_only_where_they_may_do_better():
    assert {rule.name for rule in RULES if rule.try_elsewhere} == {
        "addresses_exhausted", "failed_inside", "gang_incomplete", "network_elsewhere", "not_in_region",
        "not_in_zone", "org_policy_location", "quota_region", "reclaimed", "reservation_full", "stockout",
        "stockout_region", "subnet_missing",
    }  # fmt: skip


LOST = TransportError("gone", 3)
LOGINS = [
    (RefreshError("no", '{"error": "invalid_grant"}'), 400, {"invalid_grant"}, "invalid_grant"),
    (RefreshError("no", {"error": "x"}, retryable=True), 0, {"x"}, "x"),
    (RefreshError("no", ' {"error": {"code": 403}}'), 403, set(), ""),
    (RefreshError("no", '{"other": 1}', "{", '{"error"'), 401, {"RefreshError"}, "RefreshError: no"),
    (RefreshError("no", 7, retryable=True), 503, set(), "RefreshError: no"),
    (RefreshError(LOST, "x"), 503, set(), "TransportError: gone"),
    (RefreshError(), 401, {"RefreshError"}, "RefreshError: "),
    (RefreshError("no token", '{"error":' * 100_000), 401, {"RefreshError"}, "RefreshError: no token"),
    (LOST, 503, set(), "TransportError: gone"),
]


@each(("raised", "status", "codes", "message"), LOGINS)
def test_a_login_that_failed_is_read_from_whatever_google_auth_put_into_it(raised, status, codes, message):
    details = details_of(raised)
    assert (details.where, details.status, details.codes, details.message) == ("auth", status, codes, message)


def test_a_machine_without_a_service_account_has_no_credentials():
    gone = logins.TransportError(
        "Failed to retrieve http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/"
        "default/ from the Google Compute Engine metadata service. Status: 404 Response:\nb''",
        None,
    )
    with pytest.raises(AuthError) as caught, google_errors("look"):
        raise logins.RefreshError(gone)
    assert caught.value.kind == "credentials_missing"


ROW = {
    "project": "my-project",
    "number": "123",
    "zone": "us-central1-a",
    "region": "us-central1",
    "name": "vm-1",
}


def test_an_account_that_may_not_be_impersonated_is_a_missing_permission():
    denied = fault("V08", **ROW).error.body(Style.PLATFORM)
    body = json.dumps(denied).replace("aiplatform.customJobs.create", "iam.serviceAccounts.getAccessToken")
    with pytest.raises(GputrainError) as caught, google_errors("look"):
        raise logins.RefreshError("Unable to acquire impersonated credentials", body)
    assert (caught.value.kind, caught.value.permission) == (
        "permission",
        "iam.serviceAccounts.getAccessToken",
    )


def test_a_certificate_that_is_not_trusted_is_found_however_deep_it_lies():
    def wrapped(depth):
        error = ssl.SSLCertVerificationError("self-signed")
        for number in range(depth):
            error = requests.ConnectionError("x", error) if number % 2 else OSError("y", error)
        return requests.ConnectionError(error)

    for depth in range(9):
        with pytest.raises(RequestError, match="cannot be trusted"), google_errors("look"):
            raise wrapped(depth)
    with pytest.raises(UnclearError), google_errors("look"):
        raise requests.ConnectionError(OSError("y"))


CPUS = {"metricName": "CPUS", "limitName": "CPUS-per-region", "limit": 8, "futureLimit": "16"}
METRIC = {"quota_metric": "m"}
BODIES = [
    ({"code": 404}, {"status": 404}),
    ({"code": 999}, {"status": 999}),
    *(({"code": code}, {"status": 0}) for code in (0, -1, 1000, "404", None)),
    ({"code": 400, "status": "OUT_OF_RANGE"}, {"codes": {"OUT_OF_RANGE"}}),
    ({"status": "two words"}, {"codes": set()}),
    ({"status": "npm_" + "a1B2" * 9}, {"codes": set()}),
    ({"errors": [{"reason": "a"}, {"code": "b"}, {"code": 3}, 7]}, {"codes": {"a", "b"}}),
    ({"errors": {"reason": "a"}}, {"codes": set()}),
    ({"details": [{"retryDelay": "soon"}, {"retryDelay": "2.5s"}]}, {"retry_after_s": 2.5}),
    (
        {"details": [{"metadata": {"a": "1", "": "2", "c": ""}}, {"metadatas": {"b": "2"}}, {"metadata": 7}]},
        {"metadata": {"a": "1", "b": "2"}},
    ),
    ({"details": [{"errorInfo": {"reason": "A"}}, {"reason": "B"}]}, {"codes": {"A", "B"}}),
    ({"details": [{"metricName": "CPUS"}]}, {"quota": ReportedQuota(metric="CPUS")}),
    ({"details": [{"limitName": "C"}, {"limitName": "D"}]}, {"quota": ReportedQuota(limit_name="C")}),
    ({"details": [{"limit": 3}]}, {"quota": None}),
    *(
        (
            {"details": [{"quotaInfo": {**CPUS, "rolloutStatus": status, "dimensions": {"region": "r"}}}]},
            {"quota": ReportedQuota(metric="CPUS", limit_name="CPUS-per-region", limit=8.0, future_limit=future,
                                dimensions={"region": "r"})},
        )
        for status, future in (("IN_PROGRESS", 16.0), ("DONE", None), ("ROLLED_BACK", None), (None, None))
    ),
    *(
        (
            {"details": [{"metadata": {**METRIC, "quota_limit_value": text, "quota_location": at}}]},
            {"quota": ReportedQuota(metric="m", limit=limit, dimensions=dimensions)},
        )
        for text, limit in (("8", 8.0), ("x", None), ("inf", None))
        for at, dimensions in (
            ("", {}), ("global", {"global": "global"}), ("asia-east1", {"region": "asia-east1"}),
            ("us-east1", {"region": "us-east1"}),
        )
    ),
    *(
        ({"details": [{"metricName": "m", "limit": limit}]}, {"quota": ReportedQuota(metric="m")})
        for limit in (True, 10**400, None, [])
    ),
]  # fmt: skip


@each(("error", "told"), BODIES)
def test_of_an_errors_body_what_has_googles_form_is_read_and_the_rest_passed_over(error, told):
    details = body_error({"error": error})
    assert {name: getattr(details, name) for name in told} == told


def test_a_credential_that_is_cut_in_two_is_hidden_all_the_same():
    token = "npm_" + "a1B2" * 9
    for length in (LONGEST - 20, LONGEST - 1):
        assert "npm_" not in shorten("." * (length - 1) + " " + token)


@pytest.fixture
def cloud():
    with gputrain_emulator.start() as running:
        running.add_bucket("my-bucket")
        yield running


def client_of(cloud, credentials=None):
    return GoogleClient(
        project="my-project", credentials=credentials or cloud.credentials, endpoints=cloud.endpoints
    )


def refused(client, method="GET", path="/storage/v1/b/my-bucket", **options):
    with pytest.raises(GputrainError) as caught:
        client.request_json(method, client.url(Api.STORAGE) + path, action="look", policy=ONCE, **options)
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
    error = refused(client_of(cloud, cloud.credentials_of(nobody)), method, path, json=body)
    assert (error.kind, error.permission, error.scope) == ("permission", permission, Scope.ACCOUNT)
    assert permission in error.fix


def test_a_wrong_clock_is_told_before_anything_is_sent(cloud):
    cloud.fail("oauth.token", oauth.clock_skew(), times=None)
    error = refused(client_of(cloud, login(cloud, cloud.owner.refresh_token)))
    assert (type(error), error.kind) == (AuthError, "clock_skew")
    assert "timedatectl" in error.fix
    assert [seen.method for seen in cloud.requests] == ["oauth.token"]


def test_a_login_that_has_run_out_asks_for_another_and_shows_no_secret(cloud):
    error = refused(client_of(cloud, login(cloud, "1//0-the-refresh-token-of-the-user")))
    assert (type(error), error.kind) == (AuthError, "credentials_refused")
    assert "gcloud auth application-default login" in error.fix
    shown = f"{error} {error!r} {error.raw!r}"
    assert "the-refresh-token" not in shown
    assert "the-secret" not in shown


def test_a_token_that_expires_in_mid_flight_is_refused_only_after_another_was_asked_for(cloud):
    cloud.fail("storage.buckets.get", "C33", times=None)
    assert refused(client_of(cloud)).kind == "credentials_refused"
    assert [seen.method for seen in cloud.requests].count("oauth.token") >= 1


def test_without_a_token_the_request_was_not_sent_so_nothing_is_unclear():
    nowhere = google.oauth2.credentials.Credentials(
        token=None, refresh_token="r", client_id="c", client_secret="s", token_uri="http://127.0.0.1:9/token"
    )
    with pytest.raises(TransientError) as caught:
        GoogleClient(project="p", credentials=nowhere).post("http://127.0.0.1:9/", action="look")
    assert (type(caught.value), caught.value.kind) == (TransientError, "token_unavailable")


def test_a_broken_connection_is_shown_without_what_opens_doors(cloud):
    cloud.fail("storage.buckets.get", faults.DropBeforeCommit(), times=None)
    error = refused(client_of(cloud), path="/storage/v1/b/my-bucket?access_token=the-secret-token")
    assert type(error) is UnclearError
    assert "the-secret-token" not in f"{error} {error.raw!r}"
    assert "the-secret-token" not in "".join(traceback.format_exception(error))


def test_a_gpu_that_a_zone_has_not_is_asked_for_in_another():
    rule = classify(ErrorDetails(message="Accelerator type nvidia-l4 does not exist in zone us-east1-a."))
    assert rule.error is CapacityError
