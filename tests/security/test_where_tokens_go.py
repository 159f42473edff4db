"""A token, and code, go to the address that its owner named, in no other form and to no other host."""

import contextlib
import json
import socket

import pytest
from google.auth.credentials import AnonymousCredentials
from google.oauth2.credentials import Credentials
from hypothesis import given, settings, strategies as st
from urllib3.util import parse_url

from gputrain import Trainer, VertexAI
from gputrain.errors import AuthError, GputrainError, SpecError
from gputrain.google import Api, Endpoints, GoogleClient
from gputrain.google.endpoints import reach, read_address
from gputrain.jobstore import Attempt, JobRecord, JobRef, Option, RecordError
from gputrain.runtime import cloud
from tests import present
from tests.each import each
from tests.unit.google.answering import Server

HOSTILE = (
    "http://evil.example", "http://10.0.0.9", "http://evil.example\\@127.0.0.1:1",
    "http://127.0.0.1@evil.example",
    "http://127.0.0.1:1@evil.example", "http://127.0.0.1#@evil.example/", "http://127.0.0.1?@evil.example",
    "http://127.0.0.1.evil.example", "http://127.evil.example:80", "ftp://127.0.0.1", "//127.0.0.1",
    "127.0.0.1",     "http://[::1]evil.example", "http://localhost.evil.example", "http://0.0.0.0:1", "http://2130706433",
    "http://127.0.0.1:1/%2e%2e", "http://127.0.0.1\n.evil.example", "http://127.0.0.1\t@evil.example",
    "https://evil.example:443#.pkg.dev", "https://user:pw@storage.googleapis.com", "http://169.254.169.254",
    "http://127.0.0.1 @evil.example", "http://[::ffff:10.0.0.9]",
    "http://127。0。0。1", "http:/\\evil.example", "",
)  # fmt: skip


@each("url", HOSTILE)
def test_an_emulator_is_on_this_machine_or_it_is_refused(url):
    with pytest.raises(SpecError):
        reach(url)


@each("url", [url for url in HOSTILE if url])
def test_an_endpoint_in_clear_text_is_on_this_machine(url):
    with pytest.raises(SpecError, match="storage"):
        Endpoints(storage=url)


class Anything:
    """Somebody's own endpoints: any object with such attributes will do."""

    storage = "http://evil.example"


def test_an_object_of_anybodys_is_looked_at_too():
    with pytest.raises(SpecError, match="storage"):
        GoogleClient(project="p", credentials=AnonymousCredentials(), endpoints=Anything()).url(Api.STORAGE)


PLACES = ("evil.example/", "evil.example#", "u@evil.example?", "evil.example:443/", "..", "a.b", "x\n", "é")


@each("place", PLACES)
def test_a_jobs_name_leads_no_token_to_another_host(place, monkeypatch):
    asked = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *_, **__: asked.append(host) or [])
    own = VertexAI("my-project", "us-central1", bucket="gs://my-bucket", credentials=AnonymousCredentials())
    with pytest.raises(GputrainError):
        Trainer(own).attach(JobRef(project=place, home="my-bucket", name="job-1").uri)
    with contextlib.suppress(ValueError):  # a record that names such a place is none
        option = Option(backend="vertex", place=place, region=place)
        attempt = Attempt(option=option, names=("job-1",))
        record = JobRecord(job_id="job-1", spec={}).begin(attempt)
        assert own.inspect_many([record])["job-1"].state is None
        with pytest.raises(RecordError):
            own.terminate(record, 0)
    assert asked == []


@settings(max_examples=300)
@given(
    st.lists(
        st.sampled_from(["http://", "https://", "127.0.0.1", "evil.example", "@", "\\", "#", "?", "/", ":80",
                         ":", "[::1]", "localhost", ".", "%40", " ", "\t", "user", "a=b", "..", "//"]),
        max_size=7,
    ).map("".join)
)  # fmt: skip
def test_what_we_take_for_this_machine_is_what_the_library_would_ask(url):
    """Two readers of one address must not see two hosts: urllib3 is the one that connects."""
    try:
        ours = read_address(url)
    except ValueError:
        return
    assert parse_url(url).host == parse_url(url.rstrip("/")).host == ours["host"]


def test_a_token_of_another_universe_does_not_go_to_google():
    theirs = Credentials(token="canary", universe_domain="partner.example")
    with pytest.raises(AuthError, match=r"partner\.example") as caught:
        GoogleClient(project="p", credentials=theirs).get_credentials()
    assert "canary" not in str(caught.value)
    addresses = {api.value: "https://x.partner.example" for api in Api}
    mine = Endpoints(**addresses)
    assert GoogleClient(project="p", credentials=theirs, endpoints=mine).get_credentials().valid


@contextlib.contextmanager
def served(*names, leads_away, code=307):
    """Servers of this machine, of which one redirects to ``elsewhere``; their ports, and who was asked."""
    asked = []

    def server(name):
        def answer(request):
            asked.append((name, request.headers.get("Authorization")))
            headers = {"Location": f"{servers['elsewhere'].url}/"} if name == leads_away else {}
            return code if headers else 200, json.dumps({"access_token": "canary"}).encode(), headers

        return Server(answer)

    servers = {name: server(name) for name in (*names, "elsewhere")}
    yield {name: one.server.server_port for name, one in servers.items()}, asked
    for one in servers.values():
        one.close()


@each("code", [301, 302, 303, 307, 308])
@each("leads_away", ["storage", "metadata"])
def test_in_the_job_a_token_follows_no_redirect_either(monkeypatch, code, leads_away):
    with served("storage", "metadata", leads_away=leads_away, code=code) as (ports, asked):
        monkeypatch.setenv("GCE_METADATA_HOST", f"127.0.0.1:{ports['metadata']}")
        with pytest.raises(cloud.CallFailed):
            cloud.call("GET", f"http://127.0.0.1:{ports['storage']}/b/o")
    assert "elsewhere" not in {name for name, _ in asked}


@each("kind", ["compute", "vertex"])
def test_a_trainers_token_follows_no_redirect(tmp_path, kind):
    (tmp_path / "train.py").write_text("")
    with served("google", leads_away="google") as (ports, asked):
        google = {api.value: f"http://127.0.0.1:{ports['google']}" for api in Api}
        where = Endpoints(**google)
        settings = {"regions": ["us-central1"], "bucket": "gs://my-bucket", "endpoints": where}
        trainer = Trainer(present.backend(kind)("my-project", credentials=Credentials("canary"), **settings))
        for act in (trainer.plan, trainer.doctor, trainer.submit):
            with contextlib.suppress(GputrainError):
                act(str(tmp_path / "train.py"), gpu="L4:1")
    assert set(asked) == {("google", "Bearer canary")}
