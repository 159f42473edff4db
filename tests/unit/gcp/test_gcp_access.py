"""One value to reach Google by; threads share its clients and its token."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from gputrain.errors import AuthError
from gputrain.gcp import Access, Api, Endpoints, UnclearError, translated


class Token:
    """google.auth credentials that expire at once and count their refreshes."""

    universe_domain = "googleapis.com"

    def __init__(self):
        self.refreshes = 0
        self.token = None
        self.expired = False

    @property
    def valid(self):
        return self.token is not None

    def refresh(self, _request):
        time.sleep(0.02)  # a refresh takes time: the window in which others find the token still expired
        self.refreshes += 1
        self.token = f"token-{self.refreshes}"

    def apply(self, headers, token=None):
        headers["authorization"] = f"Bearer {token or self.token}"


class Server:
    """Answers each request as ``answers`` says, and remembers the tokens it was shown."""

    def __init__(self, answer):
        tokens = self.tokens = []
        connections = self.connections = set()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                tokens.append(self.headers.get("Authorization"))
                connections.add(self.client_address)
                status, body, headers = answer(self)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def serve():
    servers = []

    def start(answer):
        servers.append(Server(answer))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def well(_request):
    return 200, b"{}", {}


def test_64_threads_with_an_expired_token_make_one_refresh(serve):
    server, token = serve(well), Token()
    access = Access(project="p", credentials=token)
    with ThreadPoolExecutor(64) as pool:
        list(pool.map(lambda _: access.rest("GET", server.url, action="look"), range(64)))
    assert token.refreshes == 1
    assert set(server.tokens) == {"Bearer token-1"}


def test_threads_refused_together_refresh_once(serve):
    server, token = (
        serve(lambda r: (401, b"{}", {}) if r.headers["Authorization"] == "Bearer old" else well(r)),
        Token(),
    )
    token.token = "old"
    access = Access(project="p", credentials=token)
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda _: access.rest("GET", server.url, action="look"), range(16)))
    assert token.refreshes == 1


def test_calls_one_after_the_other_share_a_connection(serve):
    server = serve(well)
    access = Access(project="p", credentials=Token())
    for _ in range(5):
        access.rest_json("GET", server.url, action="look")
    assert len(server.connections) == 1


def test_a_proxys_page_is_unclear(serve):
    server = serve(lambda _: (502, b"<html>Bad Gateway</html>", {}))
    with pytest.raises(UnclearError):
        Access(project="p", credentials=Token()).rest("GET", server.url, action="look")


def test_html_where_json_was_due_is_unclear(serve):
    server = serve(lambda _: (200, b"<html>", {}))
    with pytest.raises(UnclearError):
        Access(project="p", credentials=Token()).rest_json("GET", server.url, action="look")


def test_the_wait_a_server_asks_for_is_carried(serve):
    server = serve(lambda _: (503, b"{}", {"Retry-After": "7"}))
    with pytest.raises(UnclearError) as caught:
        Access(project="p", credentials=Token()).rest("GET", server.url, action="look")
    assert caught.value.retry_after_s == 7


def test_a_refused_connection_is_unclear():
    with pytest.raises(UnclearError):
        Access(project="p", credentials=Token()).rest("GET", "http://127.0.0.1:1/", action="look")


def test_no_credentials_are_an_auth_error(monkeypatch):
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nonexistent.json")
    with pytest.raises(AuthError, match="find credentials"):
        Access(project="p").locked_credentials()


def test_no_token_is_shown_by_a_value_or_an_error(serve):
    token = Token()
    token.token = "ya29.secret-secret-secret-secret"
    access = Access(project="p", credentials=token)
    server = serve(lambda _: (403, b'{"error": {"code": 403, "message": "no"}}', {}))
    with pytest.raises(Exception) as caught:
        access.rest("GET", server.url, action="look")
    shown = repr(access) + repr(access.locked_credentials()) + str(caught.value) + repr(caught.value.raw)
    assert "ya29" not in shown


def test_two_tenants_share_nothing(serve):
    server = serve(well)
    for name in ("alice", "bob"):
        token = Token()
        token.token = name
        Access(project=name, credentials=token).rest("GET", server.url, action="look")
    assert server.tokens == ["Bearer alice", "Bearer bob"]


def test_addresses_are_googles_unless_said():
    assert Access(project="p").url(Api.STORAGE) == "https://storage.googleapis.com"
    elsewhere = Access(project="p", endpoints=Endpoints(aiplatform="http://127.0.0.1:9/"))
    assert elsewhere.url(Api.AIPLATFORM, region="us-central1") == "http://127.0.0.1:9"


def test_something_asked_for_once_is_made_once():
    access, made = Access(project="p"), []
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: access.once("x", lambda: made.append(1) or 1), range(32)))
    assert made == [1]


def test_our_own_errors_pass_a_translation_unchanged():
    with pytest.raises(AuthError), translated("x"):
        raise AuthError("mine")
