"""Files of this machine that Google's libraries need and cannot use: told as such, and tried once."""

import json
import shutil
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from gputrain.errors import AuthError, RequestError
from gputrain.google import Endpoints, GoogleClient
from gputrain.retry import READ
from tests.unit.google.answering import Token


@pytest.fixture
def key(tmp_path, monkeypatch):
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "key.json"))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    return tmp_path / "key.json"


def of_default():
    GoogleClient(project="my-project", sleep=lambda _: None).token()


def test_a_folder_in_the_place_of_credentials_is_named(key):
    """As docker makes one for a bind mount whose file is not there."""
    key.mkdir()
    with pytest.raises(AuthError, match=str(key)):
        of_default()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """An HTTPS server with a certificate that nobody signed."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl that makes a certificate")
    folder = tmp_path_factory.mktemp("tls")
    words = "req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 1 -subj /CN=localhost"
    words += " -addext subjectAltName=DNS:localhost"
    subprocess.run(["openssl", *words.split()], cwd=folder, capture_output=True, check=True)

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"name": "mine"}).encode())

    secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    secure.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    found = HTTPServer(("127.0.0.1", 0), Answering)
    found.socket = secure.wrap_socket(found.socket, server_side=True)
    threading.Thread(target=found.serve_forever, args=(0.02,), daemon=True).start()
    yield f"https://localhost:{found.server_port}", folder
    found.shutdown()
    found.server_close()


def ask(url):
    waits = []
    access = GoogleClient(
        project="p", credentials=Token("ours"), endpoints=Endpoints(storage=url), sleep=waits.append
    )
    try:
        return access.get(f"{url}/x", action="look", policy=READ)
    finally:
        assert waits == []


@pytest.mark.parametrize("name", ["not there", "a text", "empty", "half", "of others"])
def test_certificates_that_cannot_be_used_are_told_at_once(server, monkeypatch, name):
    url, folder = server
    begun = "-----BEGIN CERTIFICATE-----\n"
    texts = {"a text": "no certificates", "empty": "", "half": f"{begun}MIIB\n-----END CERTIFICATE-----\n"}
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    if name in texts:
        (folder / name).write_text(texts[name])
    if name != "of others":
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(folder / name))
    with pytest.raises(RequestError, match="cannot be trusted") as caught:
        ask(url)
    assert "REQUESTS_CA_BUNDLE" in caught.value.fix
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(folder / "cert.pem"))
    assert ask(url) == {"name": "mine"}
