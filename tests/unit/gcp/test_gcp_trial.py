"""Remedies of somebody who tries with an emulator: no command in them goes to Google."""

import ast
import re
import subprocess
from pathlib import Path

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud.aiplatform_v1 import JobServiceClient

import gputrain_emulator
from gputrain.errors import SpecError
from gputrain.gcp import Access, Endpoints
from gputrain.gcp.endpoints import GOOGLE, asked_for, is_channel_here, is_googles, leads_here, on_trial, reach
from gputrain.gcp.trial import fitted
from gputrain_emulator.accounts import Accounts
from tests.each import each

ROOT = Path(__file__).parents[3]
URL = "http://127.0.0.1:18080"
MISSING = ["trainer@p.iam.gserviceaccount.com", "1-compute@developer.gserviceaccount.com"]
BARE = re.compile(r"(?<!CREDENTIALS=true )(?<!/ )(?<![\w`-])gcloud (?=[a-z]+ [a-z])")
"""A command that nothing leads to the emulator."""


def texts():
    """Every text of the library that speaks of gcloud, with what is filled in at run time as a word."""
    for path in sorted((ROOT / "gputrain").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [one.value if isinstance(one, ast.Constant) else "X-1" for one in node.values]
                yield "".join(map(str, parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_no_command_of_any_remedy_goes_to_google_on_a_trial():
    told = [text for text in texts() if "\n" not in text and BARE.search(text)]
    assert len(told) > 20
    assert [text for text in told if BARE.search(fitted(text, URL))] == []
    assert [fitted(text, "") for text in told] == told
    once = [fitted(text, URL) for text in told]
    assert [fitted(text, URL) for text in once] == once


@each(
    ("fix", "there"),
    [
        ("gcloud storage buckets create gs://b-1 --project p --location us-east4",
         lambda cloud: cloud.storage.buckets.get("b-1").location.lower() == "us-east4"),
        ("gcloud storage buckets create gs://b-2 --location us-east4 --project p",
         lambda cloud: cloud.storage.buckets.get("b-2").location.lower() == "us-east4"),
        ("gcloud services enable compute.googleapis.com --project p; then wait a few minutes",
         lambda cloud: "compute" in cloud.world.projects[cloud.project].apis),
        ("gcloud iam service-accounts create trainer --project p",
         lambda cloud: cloud.world.part(Accounts).missing == {MISSING[1]}),
        (f"gcloud iam service-accounts enable {MISSING[1]} --project p",
         lambda cloud: cloud.world.part(Accounts).missing == {MISSING[0]}),
    ],
)  # fmt: skip
@each("is_open", [True, False])
def test_what_the_emulator_is_told_instead_is_done(fix, there, is_open):
    with gputrain_emulator.start(anonymous=is_open) as cloud:
        cloud.enable_api("compute", enabled=False)
        cloud.world.part(Accounts).missing.update(MISSING)
        token = "" if is_open else f"/_emulator/as/{cloud.world.callers.issue(cloud.owner)}"
        line = fitted(fix, cloud.endpoints.url + token)
        subprocess.run(line, shell=True, check=True, capture_output=True, timeout=60)  # as a person does
        assert there(cloud)


def test_the_address_is_called_as_the_person_calls_it_and_the_token_is_not_shown(monkeypatch):
    monkeypatch.delenv("GPUTRAIN_ENDPOINT", raising=False)
    assert reach(URL)["endpoints"].trial == URL
    assert reach(f"{URL}/_emulator/as/s3cret")["endpoints"].trial == f"{URL}/_emulator/as/TOKEN"
    monkeypatch.setenv("GPUTRAIN_ENDPOINT", f"{URL}/_emulator/as/s3cret")
    assert reach(f"{URL}/_emulator/as/s3cret")["endpoints"].trial == "$GPUTRAIN_ENDPOINT"


def test_the_variable_counts_where_no_endpoints_are_given_and_credentials_of_googles_stay_behind(monkeypatch):
    monkeypatch.setenv("GPUTRAIN_ENDPOINT", f"{URL}/_emulator/as/s3cret")
    found = asked_for(None, "mine")
    assert found["endpoints"].storage == URL
    assert found["endpoints"].aiplatform_grpc == ""
    assert found["credentials"].token == "s3cret"
    assert asked_for(GOOGLE, "mine") == {"endpoints": GOOGLE, "credentials": "mine"}
    monkeypatch.setenv("GPUTRAIN_ENDPOINT", "")
    assert asked_for(None, "mine") == {"endpoints": None, "credentials": "mine"}
    assert not hasattr(reach(URL)["credentials"], "refresh_token")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/_emulator/as/",
        "http://127.0.0.1:1/_emulator/as/a/b",
        "http://127.0.0.1:1/_emulator",
    ],
)
def test_an_address_with_half_a_token_is_refused(url):
    with pytest.raises(SpecError, match="endpoint"):
        reach(url)


@each(
    ("address", "here", "googles"),
    [
        ("http://127.0.0.1:1", True, False),
        ("HTTP://LOCALHOST:1/", True, False),
        ("https://127.0.0.1:1", False, False),
        ("http://127.0.0.1:1/compute", False, False),
        ("https://storage.googleapis.com/x", False, True),
        ("us-east4-aiplatform.googleapis.com:443", False, True),
        ("https://googleapis.com.evil.example", False, False),
        ("https://evil.example/x.googleapis.com", False, False),
    ],
)
def test_where_an_address_leads_is_told_by_its_host(address, here, googles):
    assert (leads_here(address), is_googles(address)) == (here, googles)
    assert on_trial(address if here else "") == (f" (a trial: {address})" if here else "")


def test_a_channel_is_here_by_its_host_in_whatever_letters():
    assert [is_channel_here(one) for one in ("LOCALHOST:1", "[::1]:1", "localhost", "10.0.0.9:1")] == [
        True, True, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("address", "is_ciphered"), [("us-central1-aiplatform.googleapis.com:443", True), ("127.0.0.1:9", False)]
)
def test_a_token_goes_over_a_channel_without_tls_to_this_machine_alone(address, is_ciphered):
    token = AnonymousCredentials()
    access = Access(project="p", credentials=token, endpoints=Endpoints())
    client = access.client(JobServiceClient, address, transport="grpc")
    # Google's own client holds the credentials of a call where it made a channel with TLS for them.
    assert (client.transport._credentials is not None) == is_ciphered


@pytest.mark.parametrize(
    ("field", "address", "shown", "allowed"),
    [
        ("storage", "ftp://x", "'ftp://x'", "https://host"),
        ("storage", "https://me:hush@x", "***", "https://host"),
        ("aiplatform_grpc", "https://x", "'https://x'", "host:port"),
    ],
)
def test_an_address_that_is_refused_is_shown_without_its_login_and_with_the_form_that_is_taken(
    field, address, shown, allowed
):
    with pytest.raises(SpecError, match=f"endpoints.{field}") as caught:
        Endpoints(**{field: address})
    (fault,) = caught.value.faults
    assert fault.value == shown
    assert fault.allowed.startswith(allowed)
