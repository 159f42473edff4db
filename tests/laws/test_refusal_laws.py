"""Refusals damaged at random: none crashes the reader, shows a secret or, if unknown, is sent again."""

import copy
import io
import json
import pickle
import random
from collections import Counter

import pytest
import requests
from google.api_core import exceptions as theirs
from requests.adapters import HTTPAdapter
from urllib3 import HTTPResponse

from gputrain.errors import GputrainError, ProviderError, TransientError
from gputrain.google import google_errors, operation_error, to_error
from gputrain.google.errors import RULES, response_error
from gputrain.retry import WRITE, retried
from gputrain_emulator.errors import Style
from gputrain_emulator.failures import ROWS, VERTEX_ROWS, fault
from gputrain_emulator.faults import OperationFails, Refuse

NAMES = {
    "project": "my-project",
    "number": "123456789012",
    "zone": "us-central1-a",
    "region": "us-central1",
    "name": "vm-1",
}
URLS = (
    "https://compute.googleapis.com/compute/v1/projects/p/zones/us-central1-a/instances",
    "https://us-central1-aiplatform.googleapis.com/v1/projects/p/locations/us-central1/customJobs",
    "https://storage.googleapis.com/storage/v1/b/bucket/o",
    "https://oauth2.googleapis.com/token",
    "https://logging.googleapis.com/v2/entries:list",
)
STATUSES = (400, 401, 403, 404, 408, 409, 412, 418, 429, 451, 499, 500, 501, 502, 503, 504, 520, 599)
SECRETS = (
    "ya29.a0AfB_secretsecretsecretsecret",
    "eyJhbGciOiJSUzI1NiJ9.eyJzZWNyZXQiOiJhQGIifQ.secret",
    "-----BEGIN PRIVATE KEY-----\nsecret\n-----END PRIVATE KEY-----",
    "Bearer secretsecretsecret",
)


def seeds():
    """What Google really says: (status, body) of every refusal, and the errors of operations."""
    refusals, operations = [], []
    for row in (*ROWS, *VERTEX_ROWS):
        made = fault(row, **NAMES)
        if isinstance(made, Refuse):
            style = Style.PLATFORM if row in VERTEX_ROWS else Style.COMPUTE
            refusals.append((made.error.status, made.error.body(style)))
        elif isinstance(made, OperationFails):
            operations += [dict(one) for one in made.errors]
    refusals.append(
        (400, {"error": "invalid_grant", "error_description": "Invalid JWT: Token must be short"})
    )
    return refusals, operations


REFUSALS, OPERATIONS = seeds()


JUNK = (
    None, True, -1, 10**30, float("nan"), "", "\x00\x1b[2J", "\ud800", [], {}, [[]], {"": None},
    {"reason": {"reason": []}}, "x" * 20_000, ["QUOTA_EXCEEDED"] * 500, *SECRETS,
)  # fmt: skip
BROKEN = (b"", b"null", b"<html>502</html>", b"\xff\xfe\x00", b"[" * 100_000, b"\xef\xbb\xbf{}")


def places(document):
    """Every place in a document, as (its holder, its key)."""
    items = document.items() if isinstance(document, dict) else ()
    for key, value in list(enumerate(document) if isinstance(document, list) else items):
        yield document, key
        yield from places(value)


def mutated(dice, document):
    """The document with one to four things wrong with it."""
    box = [copy.deepcopy(document)]
    for _ in range(dice.randint(1, 4)):
        holder, key = dice.choice(list(places(box)))
        how = dice.randrange(4)
        if how == 0:
            holder[key] = copy.deepcopy(dice.choice(JUNK))
        elif how == 1 and isinstance(holder, dict):
            holder[dice.choice(("code", "reason", "status", "errors", "details", "zz"))] = holder.pop(key)
        elif how == 2:
            holder[key] = [copy.deepcopy(holder[key])] * dice.randint(0, 3)
        else:
            donor, name = dice.choice(list(places([dice.choice(REFUSALS)[1]])))
            holder[key] = copy.deepcopy(donor[name])
    return box[0]


def damaged(dice, body):
    """The bytes of a body: as they are, cut, or something else altogether."""
    whole = json.dumps(body).encode()
    how = dice.randrange(10)
    if how == 0 and b"secret" not in whole:  # half a credential is none, and has another form
        return whole[: dice.randint(0, len(whole))]
    return dice.choice(BROKEN) if how == 1 else whole


def response(status, body, url):
    """A real `requests.Response`, as the adapter builds it from the wire."""
    request = requests.Request("POST", url, headers={"Authorization": "Bearer ya29.never-shown"}).prepare()
    reply = HTTPResponse(
        body=io.BytesIO(body),
        status=status,
        headers={"Content-Type": "application/json; charset=UTF-8"},
        preload_content=False,
    )
    return HTTPAdapter().build_response(request, reply)


def caught(call):
    try:
        call()
    except GputrainError as error:
        return error
    raise AssertionError("it was not refused")


def by_the_client(reply):
    """What the official clients make of a reply, translated: as in a create over REST."""
    with google_errors("create the job"):
        raise theirs.from_http_status(reply.status_code, "", response=reply)


def tries(error, policy):
    """How often a call that is refused like this is sent."""
    sent = []

    def call():
        sent.append(1)
        raise error

    with pytest.raises(type(error)):
        retried(call, policy=policy, sleep=lambda _: None, dice=lambda: 1.0)
    return len(sent)


@pytest.mark.parametrize("count", [1000, pytest.param(10_000, marks=pytest.mark.soak)])
def test_a_damaged_body_is_a_refusal_of_some_kind_that_shows_no_secret(count):
    dice = random.Random(20261121)  # the same bodies every time
    kinds = Counter()
    for number in range(count):
        if number % 4 == 3:
            said = mutated(dice, dice.choice(OPERATIONS))
            error = to_error(operation_error(said, status=dice.choice(STATUSES)), "create the VMs")
        else:
            status, body = dice.choice(REFUSALS)
            status = status if dice.random() < 0.7 else dice.choice(STATUSES)
            reply = response(status, damaged(dice, mutated(dice, body)), dice.choice(URLS))
            if number % 4 == 0:
                error = caught(lambda reply=reply: by_the_client(reply))
            else:
                error = to_error(response_error(reply), "create the job")
        kinds[error.kind] += 1
        check(error)
        if number % 10 == 0:
            again = tries(error, WRITE) > 1
            assert again == error.retryable
            assert again == isinstance(error, TransientError)
    assert kinds["unknown"] > count / 100
    assert len(kinds) > 30  # the damage leaves most kinds to be seen


def check(error):
    known = {rule.name: rule.error for rule in RULES} | {"unknown": ProviderError}
    assert type(error) is known[error.kind]
    assert error.retryable == isinstance(error, TransientError)
    copied = pickle.loads(pickle.dumps(error))
    assert (copied.kind, str(copied)) == (error.kind, str(error))
    assert len(str(error)) < 10_000
    assert all(letter.isprintable() or letter in "\n\t" for letter in str(error).encode().decode())
    shown = f"{error} {error!r} {error.raw!r}"
    assert "secretsecret" not in shown
    assert "BEGIN PRIVATE" not in shown
    assert "never-shown" not in shown
