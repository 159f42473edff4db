# ruff: noqa: E501  # Google's words stand whole
"""Every refusal that Google is known to give becomes the error that says what to do."""

import itertools
import pickle

import google.api_core.exceptions as theirs
import grpc
import pytest
from google.auth import exceptions as logins
from google.auth.exceptions import GoogleAuthError, RefreshError

from gputrain.errors import (
    ApiDisabledError,
    AuthError,
    CapacityError,
    GputrainError,
    OrgPolicyError,
    PermissionDeniedError,
    ProviderError,
    QuotaExceededError,
    RequestError,
    Scope,
    TransientError,
)
from gputrain.gcp import (
    Answer,
    MissingError,
    PreconditionError,
    UnclearError,
    read_answer,
    to_error,
    translated,
)
from gputrain.gcp.answer import CANONICAL, QuotaFact, Surface, answer_of_json, answer_of_operation
from gputrain.gcp.endpoints import emulator_of
from gputrain.gcp.kinds import KINDS
from gputrain.gcp.refusals import gravest
from tests.each import each
from tests.unit.gcp.refusals_told import TOLD

STOCKOUT = {
    "code": 503,
    "message": "The zone 'projects/P/zones/us-central1-b' does not have enough resources",
    "errors": [{"code": "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"}],
    "details": [
        {
            "reason": "resource_availability",
            "metadatas": {"zone": "us-central1-b", "zonesAvailable": "us-central1-a,us-central1-f"},
        }
    ],
}

# what Google says -> what it becomes -> facts it must carry
SEEN = [
    ({"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "The following quota metrics exceed quota limits: "
      "aiplatform.googleapis.com/custom_model_training_nvidia_l4_gpus"}, QuotaExceededError,
     {"metric": "aiplatform.googleapis.com/custom_model_training_nvidia_l4_gpus"}),
    ({"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "The following quota metrics exceed quota limits: "
      "a.googleapis.com/l4_gpus,a.googleapis.com/cpus"}, QuotaExceededError,
     {"metric": "a.googleapis.com/l4_gpus", "metrics": ("a.googleapis.com/l4_gpus", "a.googleapis.com/cpus")}),
    ({"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Quota exceeded for quota metric 'Job creation requests'"
      " and limit 'Job creation requests per minute' of service 'aiplatform.googleapis.com'"}, TransientError, {}),
    ({"code": 403, "message": "Quota exceeded for quota metric 'Queries' and limit 'Queries per day' of service "
      "'compute.googleapis.com'", "errors": [{"reason": "rateLimitExceeded"}]}, QuotaExceededError,
     {"metric": "Queries"}),
    ({"code": 403, "message": "Rate Limit Exceeded", "status": "PERMISSION_DENIED",
      "errors": [{"reason": "rateLimitExceeded", "domain": "usageLimits"}]}, TransientError, {}),
    ({"code": 403, "message": "Quota 'NVIDIA_L4_GPUS' exceeded.  Limit: 4.0 in region us-central1.",
      "errors": [{"reason": "quotaExceeded"}]}, QuotaExceededError,
     {"metric": "NVIDIA_L4_GPUS", "limit": 4.0, "where": "us-central1"}),
    ({"code": 403, "message": "Quota 'GPUS_ALL_REGIONS' exceeded.  Limit: 0.0 globally."}, QuotaExceededError,
     {"metric": "GPUS_ALL_REGIONS", "limit": 0.0}),
    (STOCKOUT, CapacityError, {"place": "us-central1-b", "zones_available": ("us-central1-a", "us-central1-f")}),
    ({"code": 8, "message": "Resources are insufficient in region: us-central1. Please try a different region."},
     CapacityError, {"place": "us-central1"}),
    ({"code": 400, "message": 'Machine type "a2-highgpu-1g" is not supported.'}, CapacityError, {}),
    ({"code": 400, "status": "INVALID_ARGUMENT", "message": 'The accelerator count "8" is not allowed.'},
     RequestError, {}),
    ({"code": 400, "status": "INVALID_ARGUMENT", "message": "You do not have permission to act as service_account: "
      "sa@p.iam.gserviceaccount.com. (or it may not exist)."}, PermissionDeniedError,
     {"permission": "iam.serviceAccounts.actAs"}),
    ({"code": 403, "status": "PERMISSION_DENIED", "message": "Permission 'aiplatform.customJobs.create' denied on "
      "resource '//aiplatform.googleapis.com/projects/P/locations/R' (or it may not exist).",
      "details": [{"reason": "IAM_PERMISSION_DENIED"}]}, PermissionDeniedError,
     {"permission": "aiplatform.customJobs.create"}),
    ({"code": 403, "message": "Required 'compute.instances.create' permission for 'projects/P'",
      "errors": [{"reason": "forbidden"}]}, PermissionDeniedError, {"permission": "compute.instances.create"}),
    ({"code": 403, "status": "PERMISSION_DENIED", "message": "Vertex AI API has not been used in project 1 before",
      "details": [{"reason": "SERVICE_DISABLED", "metadata": {"service": "aiplatform.googleapis.com",
                                                              "consumer": "projects/my-project"}}]},
     ApiDisabledError, {"api": "aiplatform.googleapis.com"}),
    ({"code": 403, "message": "Request had insufficient authentication scopes.",
      "details": [{"reason": "ACCESS_TOKEN_SCOPE_INSUFFICIENT"}]}, AuthError, {}),
    ({"code": 401, "message": "Request had invalid authentication credentials."}, AuthError, {}),
    ({"code": 412, "message": "Instance 'x' creation failed: Constraint constraints/compute.vmExternalIpAccess "
      "violated for project 123."}, OrgPolicyError, {"constraint": "constraints/compute.vmExternalIpAccess"}),
    ({"code": 404, "status": "NOT_FOUND", "message": "no such job"}, MissingError, {}),
    ({"code": 409, "message": "already exists"}, PreconditionError, {}),
    ({"code": 412, "message": "At least one of the pre-conditions you specified did not hold."},
     PreconditionError, {}),
    ({"code": 429, "message": "slow down"}, TransientError, {}),
    ({"code": 500, "message": "Internal error encountered."}, UnclearError, {}),
    ({"code": 503, "message": "The service is currently unavailable."}, UnclearError, {}),
]  # fmt: skip


@each(("body", "kind", "facts"), SEEN)
def test_what_google_says_becomes_the_error_that_says_what_to_do(body, kind, facts):
    error = to_error(answer_of_json({"error": body}, status=int(body["code"])), "create the job")
    assert type(error) is kind
    assert {name: getattr(error, name) for name in facts} == facts
    assert body["message"] in error.why
    assert error.raw == {"error": body}
    assert type(pickle.loads(pickle.dumps(error))) is kind


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
        {"reasons": frozenset({"IAM_PERMISSION_DENIED"}), "metadata": {"permission": "a.b.get"}},
        {"permission": "a.b.get"},
    ),
    (
        {"codes": frozenset({"rateLimitExceeded"}), "quota": QuotaFact(metric="Queries"), "retry_after_s": 3.0},
        {"metric": "Queries", "retry_after_s": 3.0},
    ),
    ({"codes": frozenset({"quotaExceeded"})}, {"metric": "", "metrics": (), "where": ""}),
    ({"codes": frozenset({"quotaExceeded"}), "place": "us-east4"}, {"where": "us-east4"}),
    (
        {"codes": frozenset({"quotaExceeded"}), "quota": QuotaFact(metric="CPUS", dimensions={"region": "r"})},
        {"metric": "CPUS", "metrics": ("CPUS",), "where": "r"},
    ),
    (
        {"codes": frozenset({"quotaExceeded"}), "quota": QuotaFact(metric="GPUS_ALL_REGIONS")},
        {"where": "global"},
    ),
]  # fmt: skip


@each(("said", "told"), TOLD_BY)
def test_facts_are_told_by_whatever_part_of_an_answer_has_them(said, told):
    error = to_error(Answer(**said), "create the job")
    assert told.get("fix", "") in error.fix
    assert all(getattr(error, name) == fact for name, fact in told.items() if name != "fix")


def test_a_place_and_a_project_that_the_caller_knows_stand_in_for_those_that_are_not_told():
    error = to_error(Answer(**LACK), "create the job", place="us-east4-b")
    assert error.place == "us-east4-b"
    assert to_error(Answer(**LACK, place="us-east5"), "x", place="us-east4-b").place == "us-east5"
    assert "--project mine;" in to_error(Answer(**API), "x", project="mine").fix


@pytest.mark.parametrize(
    ("unreached", "fix"),
    [
        ("http://127.0.0.1:18080", "start the emulator, gputrain-emulator --port 18080;"),
        ("https://storage.googleapis.com", "check this machine's network"),
        ("", "look whether it was done before you do it again"),
    ],
)
def test_where_nobody_answers_the_fix_is_of_the_way_there(unreached, fix):
    answer = Answer(surface=Surface.TRANSPORT, unreached=unreached)
    assert to_error(answer, "look").fix.startswith(fix)


@pytest.mark.parametrize("codes", [["QUOTA_EXCEEDED"], []])
@pytest.mark.parametrize(
    ("dimensions", "kind"),
    [({"global": "global"}, "quota_project"), ({"region": "us-east1"}, "quota_region")],
)
def test_a_quota_is_of_the_project_where_its_dimensions_say_so_though_the_message_does_not(
    codes, dimensions, kind
):
    quota = QuotaFact(metric="NETWORKS", limit=5.0, dimensions=dimensions)
    answer = Answer(
        surface=Surface.OPERATION, status=403, codes=frozenset(codes), message="Quota 'NETWORKS' exceeded.",
        quota=quota,
    )  # fmt: skip
    assert to_error(answer, "create the VM").kind == kind


@pytest.mark.parametrize(
    ("said", "scope"),
    [
        ({"message": "Quota 'GPUS_ALL_REGIONS' exceeded.  Limit: 0.0"}, Scope.PROJECT),
        ({"message": "Quota 'CPUS_ALL_REGIONS' exceeded.  Limit: 8.0 in region us-east1."}, Scope.PROJECT),
        ({"quota": QuotaFact(metric="compute.googleapis.com/gpus_all_regions")}, Scope.PROJECT),
        ({"quota": QuotaFact(metric="GPUS_ALL_REGIONS", dimensions={"region": "us-east1"})}, Scope.PROJECT),
        ({"quota": QuotaFact(metric="NVIDIA_L4_GPUS", dimensions={"region": "us-east1"})}, Scope.REGION),
    ],
)
def test_a_quota_of_all_regions_reaches_as_far_whatever_else_is_told_of_it(said, scope):
    answer = Answer(status=403, codes=frozenset({"quotaExceeded"}), **said)
    assert to_error(answer, "create the VM").scope is scope


@pytest.mark.parametrize(("limit", "is_told"), [(0.0, True), (1.0, False)])
def test_a_limit_of_0_is_told_not_to_be_waited_for(limit, is_told):
    quota = QuotaFact(metric="NETWORKS", limit=limit, dimensions={"region": "us-east1"})
    answer = Answer(
        status=403, codes=frozenset({"QUOTA_EXCEEDED"}), message="Quota 'NETWORKS' exceeded.", quota=quota
    )
    assert ("never clears by waiting" in to_error(answer, "create the VM").why) is is_told


@pytest.mark.parametrize("reason", ["rateLimitExceeded", "userRateLimitExceeded"])
def test_a_limit_per_minute_refills_with_the_minute(reason):
    answer = Answer(status=403, codes=frozenset({reason}), message="Rate Limit Exceeded")
    assert to_error(answer, "look", now=130.0).refills_in_s == 50.0


ALIKE = {
    400: "request", 405: "request", 411: "request", 413: "request", 409: "name_taken",
    "INVALID_ARGUMENT": "request", "FAILED_PRECONDITION": "request", "OUT_OF_RANGE": "request",
    "ALREADY_EXISTS": "name_taken", 401: "credentials_refused", "UNAUTHENTICATED": "credentials_refused",
}  # fmt: skip
"""What a status alone means of a call as of an operation."""
OF_CALLS = {
    403: "permission", 404: "missing", 410: "missing", 412: "changed", 429: "rate",
    "PERMISSION_DENIED": "permission", "NOT_FOUND": "missing", "RESOURCE_EXHAUSTED": "rate",
    **dict.fromkeys((408, 499, 500, 502, 503, 504), "unclear"),
    **dict.fromkeys(("ABORTED", "CANCELLED", "INTERNAL", "UNAVAILABLE", "DEADLINE_EXCEEDED"), "unclear"),
}  # fmt: skip
"""What it means of a call alone: an operation's own error speaks of what it did, not of our call."""
OF_TOKENS = {
    **dict.fromkeys((400, 401, 403, 404, "UNAUTHENTICATED"), "credentials_refused"),
    **dict.fromkeys((408, 500, 502, 503, 504), "token_unavailable"),
    409: "name_taken", "ALREADY_EXISTS": "name_taken", 410: "missing", "NOT_FOUND": "missing",
    412: "changed", 429: "rate", "RESOURCE_EXHAUSTED": "rate",
}  # fmt: skip
CALLS = (Surface.COMPUTE, Surface.VERTEX, Surface.STORAGE, Surface.PLATFORM)
BY_SURFACE = {
    **dict.fromkeys(CALLS, ALIKE | OF_CALLS), Surface.OPERATION: ALIKE, Surface.AUTH: OF_TOKENS,
}  # fmt: skip


@each("surface", BY_SURFACE)
def test_what_a_status_or_a_canonical_code_alone_means_is_the_table(surface):
    told = {
        word: to_error(
            Answer(
                surface=surface,
                status=word if isinstance(word, int) else 0,
                canonical=word if isinstance(word, str) else "",
                message="x",
            ),
            "look",
        ).kind
        for word in {*range(400, 600), *CANONICAL.values(), *BY_SURFACE[surface]}
    }
    assert {word: kind for word, kind in told.items() if kind != "unknown"} == BY_SURFACE[surface]


def test_an_operation_that_failed_without_a_word_of_its_own_is_the_zones_fault():
    words = {"INTERNAL SERVER ERROR": {500, 502, 503, 504}, "": {500, 502, 503, 504}, "Quota spent": set()}
    for message, statuses in words.items():
        answers = {
            status: Answer(surface=Surface.OPERATION, status=status, message=message)
            for status in range(400, 600)
        }
        told = {status for status, one in answers.items() if to_error(one, "x").kind == "failed_inside"}
        assert told == statuses


@pytest.mark.parametrize(
    ("codes", "reasons", "code"), [("b", "a", "a"), ("a", "b", "a"), ("a", "a", "a"), ("", "", "418")]
)
def test_the_code_of_an_unknown_answer_is_the_first_word_that_it_has(codes, reasons, code):
    answer = Answer(status=418, codes=frozenset(codes.split()), reasons=frozenset(reasons.split()))
    error = to_error(answer, "brew")
    assert error.code == code
    assert error.why == f"status 418 {' '.join(sorted({*codes, *reasons}))}".strip()


@pytest.mark.parametrize(("retryable", "kind"), [(False, "credentials_refused"), (True, "token_unavailable")])
def test_a_refresh_that_fails_in_other_words_than_googles_is_of_the_credentials_or_passes(retryable, kind):
    with pytest.raises(GputrainError) as caught, translated("look"):
        raise RefreshError("nothing that anybody foresaw", retryable=retryable)
    assert caught.value.kind == kind


def test_each_row_says_what_to_do():
    assert [row.name for row in KINDS if not row.fix] == []
    assert [name for name, told in TOLD.items() if not told.advice] == []
    assert list(TOLD) == [row.name for row in KINDS]


def test_the_fix_names_the_api_and_the_project():
    body = next(body for body, kind, _ in SEEN if kind is ApiDisabledError)
    fix = to_error(answer_of_json({"error": body}), "create").fix
    assert "gcloud services enable aiplatform.googleapis.com --project my-project" in fix


def test_an_answer_nobody_foresaw_is_kept_word_for_word():
    error = to_error(Answer(status=418, message="short and stout", raw={"teapot": True}), "brew")
    assert isinstance(error, ProviderError)
    assert (error.code, error.raw) == ("418", {"teapot": True})


def test_a_detail_that_says_no_word_is_no_code():
    body = {"code": 418, "message": "short and stout", "errors": [{}], "details": [{}]}
    assert to_error(answer_of_json({"error": body}), "brew").code == "418"


def test_a_lost_answer_is_unclear():
    error = to_error(Answer(), "create the job")
    assert isinstance(error, UnclearError)
    assert error.why == "Google said nothing and gave no reason"
    assert to_error(answer_of_operation({}), "create the job").why == "status 0"


def test_a_wrong_clock_is_named():
    said = "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe."
    body = {"error": "invalid_grant", "error_description": said}
    error = to_error(answer_of_json(body, status=400), "log in")
    assert isinstance(error, AuthError)
    assert "clock" in error.fix


def test_every_canonical_code_of_google_has_an_error():
    unknown = {"OK", "UNKNOWN", "DATA_LOSS", "UNIMPLEMENTED"}  # never guessed at
    for code in grpc.StatusCode:
        error = to_error(Answer(status=1, canonical=code.name), "x")
        assert isinstance(error, ProviderError) == (code.name in unknown), code


def families(kind):
    yield kind
    for child in kind.__subclasses__():
        yield from families(child)


def test_numbers_of_codes_and_of_statuses_are_those_of_googles_client_library():
    by_number = {code.value[0]: code.name for code in grpc.StatusCode}
    by_status = {}
    for kind in families(theirs.GoogleAPICallError):
        if kind.code is not None and kind.grpc_status_code is not None:
            by_status.setdefault(int(kind.code), set()).add(kind.grpc_status_code.name)
    numbers = {number: name for number, name in CANONICAL.items() if number < 100}
    statuses = {number: name for number, name in CANONICAL.items() if number >= 100}
    assert numbers.items() <= by_number.items()
    assert set(numbers) == {3, 5, 6, 7, 8, 9, 16}
    assert statuses.pop(412) == "FAILED_PRECONDITION"  # for which it has no code
    assert set(statuses) == set(by_status)
    assert all(name in by_status[number] for number, name in statuses.items())


def test_every_exception_of_the_client_library_has_an_error():
    unknown = set()
    for kind in families(theirs.GoogleAPICallError):
        if kind.code is not None and isinstance(to_error(read_answer(kind("words")), "x"), ProviderError):
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
    told = {one.__name__: type(to_error(read_answer(one("words")), "log in")) for one in kinds}
    assert len(told) > 10
    assert {name for name, kind in told.items() if kind is not AuthError} == {"TransportError"}


def test_a_limit_per_minute_says_when_googles_minute_ends():
    words = "Quota exceeded for quota metric 'Queries' and limit 'Queries per minute' of service 'compute.googleapis.com'"
    body = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": words}}
    answer = answer_of_json(body, status=429)
    assert to_error(answer, "look", now=1000.0).refills_in_s == 20.0
    assert to_error(answer, "look").refills_in_s is None


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("http://127.0.0.1:18080", "http://127.0.0.1:18080"),
        ("https://127.0.0.1:18080", ""),
        ("http://127.0.0.1:18080/more", ""),
        ("http://example.com:18080", ""),
        ("nonsense", ""),
    ],
)
def test_an_emulator_is_told_by_its_plain_address_on_this_machine(address, told):
    class Given:
        storage = address

    assert emulator_of(Given()) == told


def test_what_a_person_must_mend_counts_before_what_passes_and_what_nobody_foresaw_stands_between():
    known = [TOLD[name].example for name in ("permission", "quota_region", "in_use", "stockout", "rate")]
    errors = [to_error(one, "x") for one in (*known[:-1], Answer(status=418), known[-1])]
    for graver, lighter in itertools.combinations(errors, 2):
        assert gravest([graver, lighter]) is gravest([lighter, graver]) is graver


def test_other_places_are_asked_only_where_they_may_do_better():
    assert {kind.name for kind in KINDS if kind.goes_elsewhere} == {
        "addresses_exhausted", "failed_inside", "gang_incomplete", "network_elsewhere", "not_in_region",
        "not_in_zone", "org_policy_location", "quota_region", "reclaimed", "reservation_full", "stockout",
        "stockout_region", "subnet_missing",
    }  # fmt: skip


def test_only_what_a_place_will_never_have_is_lasting():
    lasting = {
        name
        for name, told in TOLD.items()
        if isinstance(error := to_error(told.example, "create the job"), CapacityError) and error.is_lasting
    }
    assert lasting == {"not_in_zone", "not_in_region", "network_elsewhere"}
