"""Tags become digests where the registry tells them, and nothing stands in the way where it does not."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from google.oauth2.credentials import Credentials

from gputrain.google import Endpoints, GoogleClient
from gputrain.google.registry import resolve_digest

DIGEST = "sha256:" + "ab" * 32
IMAGE = "us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.2-4.py310"


@pytest.fixture
def registry():
    """A registry that knows one tag; `asked` holds the requests."""
    asked = []

    class Registry(BaseHTTPRequestHandler):
        def do_HEAD(self):
            asked.append((self.path, self.headers["Authorization"], "index" in self.headers["Accept"]))
            self.send_response(200 if self.path.endswith("/latest") else 404)
            self.send_header("Docker-Content-Digest", DIGEST)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()


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
