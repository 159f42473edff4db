"""One value to reach Google by: tokens, policies, guarded bodies, pages, and an end in time."""

import threading

import pytest
from google.cloud.compute_v1 import ImagesClient
from google.oauth2.credentials import Credentials

from gputrain.errors import AuthError, TransientError
from gputrain.google import Endpoints, GoogleClient, UnclearError
from gputrain.google.registry import resolve_digest
from gputrain.retry import CREATE, LOOK, ONCE, READ, Policy
from tests.each import each
from tests.patience import PATIENCE_S
from tests.unit.google.answering import Server, Token, well


def by_its_client(access, server, policy=LOOK):
    """A look by Google's own client library."""
    client, asked = access.client(ImagesClient, server.url), {"project": "p", "image": "mine"}
    ask = lambda: client.get(request=asked, timeout=policy.call_s, retry=None)  # noqa: E731
    return access.tried(ask, action="look", policy=policy)


BODIES = [b"<html>Sign in to the network</html>", b'{"name": "mi', b"", b"[" * 100_000]


@each("body", BODIES)
def test_a_body_that_is_no_json_object_is_unclear(serve, body):
    server, access = serve(lambda _: (200, body, {})), GoogleClient(project="p", credentials=Token("ours"))
    for ask in (
        by_its_client,
        lambda access, server, policy: access.get(server.url, action="look", policy=policy),
    ):
        with pytest.raises(UnclearError):
            ask(access, server, ONCE)


def test_a_write_that_would_do_it_twice_is_not_repeated_after_a_bad_body(serve):
    server = serve(lambda _: (200, b"<html>", {}))
    access = GoogleClient(project="p", credentials=Token(), sleep=lambda _: None)
    with pytest.raises(UnclearError):
        access.post(server.url, action="make it", json={}, policy=CREATE)
    assert len(server.requests) == 1


def test_a_write_that_would_do_it_twice_is_repeated_where_it_was_clearly_refused(serve):
    answers = iter([(429, b"{}", {}), (200, b"{}", {})])
    server = serve(lambda _: next(answers))
    access = GoogleClient(project="p", credentials=Token(), sleep=lambda _: None)
    assert access.post(server.url, action="make it", json={}, policy=CREATE) == {}


def test_a_silent_server_is_given_up_in_time(serve):
    ends = threading.Event()
    server = serve(lambda _: ends.wait(PATIENCE_S) and (200, b"{}", {}))
    client = GoogleClient(project="p", credentials=Token("t"))
    with pytest.raises(UnclearError):
        client.get(server.url, action="look", policy=Policy(budget_s=0.0, call_s=0.2))
    ends.set()


def test_a_login_in_netrc_does_not_take_the_place_of_our_token(serve, tmp_path, monkeypatch):
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login somebody password else\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    server = serve(well)
    GoogleClient(project="p", credentials=Token("ours")).get(server.url, action="look")
    assert server.tokens == ["Bearer ours"]


def test_a_refused_connection_is_unclear_and_says_of_which_address():
    with pytest.raises(UnclearError, match=r"no answer from http://127\.0\.0\.1:1: Connection refused"):
        GoogleClient(project="p", credentials=Token()).get("http://127.0.0.1:1/", action="look", policy=ONCE)


def test_no_credentials_are_an_auth_error(monkeypatch):
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nonexistent.json")
    with pytest.raises(AuthError, match="find credentials"):
        GoogleClient(project="p").get_credentials()


def test_no_token_is_shown_by_a_value_or_an_error(serve):
    token = Token()
    token.token = "ya29.secret-secret-secret-secret"
    access = GoogleClient(project="p", credentials=token)
    server = serve(lambda _: (403, b'{"error": {"code": 403, "message": "no"}}', {}))
    with pytest.raises(Exception) as caught:
        access.get(server.url, action="look", policy=ONCE)
    shown = repr(access) + repr(access.get_credentials()) + str(caught.value) + repr(caught.value.raw)
    assert "ya29" not in shown


def test_two_tenants_share_nothing(serve):
    server = serve(well)
    for name in ("alice", "bob"):
        token = Token()
        token.token = name
        GoogleClient(project=name, credentials=token).get(server.url, action="look", policy=ONCE)
    assert server.tokens == ["Bearer alice", "Bearer bob"]


DIGEST = "sha256:" + "ab" * 32
IMAGE = "us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.2-4.py310"


@pytest.fixture
def registry():
    """A registry that knows one tag; `asked` holds the requests."""
    asked = []

    def answer(request):
        headers = request.headers
        asked.append((request.path, headers["Authorization"], "index" in headers["Accept"]))
        return 200 if request.path.endswith("/latest") else 404, b"", {"Docker-Content-Digest": DIGEST}

    server = Server(answer)
    yield server.url, asked
    server.close()


def access(url):
    return GoogleClient(project="p", credentials=Credentials(token="t"), endpoints=Endpoints(registry=url))


@pytest.mark.parametrize("tag", ["", ":latest"])
def test_a_tag_becomes_the_digest_it_means_today(registry, tag):
    url, asked = registry
    assert resolve_digest(access(url), IMAGE + tag) == f"{IMAGE}@{DIGEST}"
    path = "/v2/vertex-ai/training/pytorch-gpu.2-4.py310/manifests/latest"
    assert asked == [(path, "Bearer t", True)]


def test_a_tag_that_is_unknown_there_stays_a_tag(registry):
    assert resolve_digest(access(registry[0]), IMAGE + ":gone") == IMAGE + ":gone"


@pytest.mark.parametrize("image", [f"{IMAGE}@{DIGEST}", "pytorch/pytorch:2.4", "quay.io/a/b:1"])
def test_digests_and_foreign_registries_are_left_as_they_are(registry, image):
    url, asked = registry
    assert resolve_digest(access(url), image) == image
    assert asked == []


def test_no_token_goes_to_a_host_that_only_looks_like_googles(registry):
    url, asked = registry
    for image in ("evil.com/us-docker.pkg.dev/a:1", "us-docker.pkg.dev.evil.com/a:1", "xpkg.dev/a:1"):
        assert resolve_digest(access(url), image) == image
    assert asked == []


def test_who_waits_is_told_why_once_a_minute_however_many_calls_fail(caplog):
    time_s = [1000.0]
    access = GoogleClient(project="p", now=lambda: time_s[0], sleep=lambda _: None)

    def lines(later_s):
        time_s[0] += later_s
        caplog.clear()
        with pytest.raises(TransientError):
            access.tried(fail, action="look", policy=READ)
        return sum("the network is down" in line for line in caplog.messages)

    def fail():
        raise TransientError("the network is down")

    assert [lines(later_s) for later_s in (0.0, 59.5, 0.5)] == [1, 0, 1]
