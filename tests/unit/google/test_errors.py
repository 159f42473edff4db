# ruff: noqa: E501  # Google's words stand whole
"""Whatever Google reports, and in whatever way, becomes the error that says what to do."""

import itertools
import json
import traceback

import google.api_core.exceptions as theirs
import google.oauth2.credentials
import pytest
from google.auth import exceptions as logins
from google.auth.exceptions import GoogleAuthError

from gputrain.errors import AuthError, GputrainError, ProviderError, Scope, TransientError
from gputrain.google import (
    Api,
    ErrorDetails,
    GoogleClient,
    UnclearError,
    google_errors,
    most_severe,
    to_error,
)
from gputrain.google.errors import LONGEST, RULES, ReportedQuota, details_of, shorten
from gputrain.retry import ONCE
from gputrain_emulator import faults, oauth
from gputrain_emulator.errors import Style
from gputrain_emulator.failures import fault
from tests.each import each
from tests.support.clouds import client
from tests.unit.google.refusals_told import TOLD

API = {"codes": frozenset({"accessNotConfigured"})}
LACK = {"codes": frozenset({"insufficientCapacity"})}
TOLD_BY = [
    (API, {"fix": "gcloud services enable API --project PROJECT; then wait a few minutes"}),
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
    ({"codes": frozenset({"quotaExceeded"}), "place": "us-east4"}, {"metric": "", "where": "us-east4"}),
]  # fmt: skip


@each(("said", "told"), TOLD_BY)
def test_facts_are_read_from_any_part_of_the_details(said, told):
    error = to_error(ErrorDetails(**said), "create the job")
    assert told.get("fix", "") in error.fix
    assert all(getattr(error, name) == fact for name, fact in told.items() if name != "fix")


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


def test_a_credential_that_is_cut_in_two_is_hidden_all_the_same():
    token = "npm_" + "a1B2" * 9
    for length in (LONGEST - 20, LONGEST - 1):
        assert "npm_" not in shorten("." * (length - 1) + " " + token)


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


def test_a_wrong_clock_is_told_before_anything_is_sent(cloud):
    cloud.fail("oauth.token", oauth.clock_skew(), times=None)
    error = refused(client(cloud, credentials=login(cloud, cloud.owner.refresh_token)))
    assert (type(error), error.kind) == (AuthError, "clock_skew")
    assert "timedatectl" in error.fix
    assert [seen.method for seen in cloud.requests] == ["oauth.token"]


def test_a_login_that_has_run_out_asks_for_another_and_shows_no_secret(cloud):
    error = refused(client(cloud, credentials=login(cloud, "1//0-the-refresh-token-of-the-user")))
    assert (type(error), error.kind) == (AuthError, "credentials_refused")
    assert "gcloud auth application-default login" in error.fix
    shown = f"{error} {error!r} {error.raw!r}"
    assert "the-refresh-token" not in shown
    assert "the-secret" not in shown


def test_without_a_token_the_request_was_not_sent_so_nothing_is_unclear():
    nowhere = google.oauth2.credentials.Credentials(
        token=None, refresh_token="r", client_id="c", client_secret="s", token_uri="http://127.0.0.1:9/token"
    )
    with pytest.raises(TransientError) as caught:
        GoogleClient(project="p", credentials=nowhere).post("http://127.0.0.1:9/", action="look")
    assert (type(caught.value), caught.value.kind) == (TransientError, "token_unavailable")


def test_a_broken_connection_is_shown_without_what_opens_doors(cloud):
    cloud.fail("storage.buckets.get", faults.DropBeforeCommit(), times=None)
    error = refused(client(cloud), path="/storage/v1/b/my-bucket?access_token=the-secret-token")
    assert type(error) is UnclearError
    assert "the-secret-token" not in f"{error} {error.raw!r}"
    assert "the-secret-token" not in "".join(traceback.format_exception(error))
