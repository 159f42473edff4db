"""Google's own client libraries, made by `GoogleClient`: one of each, with our token, following nobody."""

import pytest
from google.cloud.compute_v1 import ImagesClient

from gputrain.google import GoogleClient, UnclearError
from gputrain.retry import LOOK, ONCE
from tests.each import each
from tests.unit.google.answering import Token


def look(access, server, policy=LOOK):
    client = access.client(ImagesClient, server.url)
    asked = {"project": "p", "image": "mine"}
    return access.tried(
        lambda: client.get(request=asked, timeout=policy.call_s, retry=None), action="look", policy=policy
    )


def well(_request):
    return 200, b'{"name": "mine"}', {"Content-Type": "application/json"}


def test_a_service_is_spoken_to_on_one_connection_by_clients_and_by_ourselves(serve):
    server, access = serve(well), GoogleClient(project="p", credentials=Token("ours"))
    for _ in range(3):
        look(access, server)
        access.get(server.url, action="look", policy=ONCE)
    assert len(server.connections) == 1


def test_a_login_in_netrc_does_not_take_the_place_of_a_clients_token(serve, tmp_path, monkeypatch):
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login somebody password else\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    server = serve(well)
    assert look(GoogleClient(project="p", credentials=Token("ours")), server).name == "mine"
    assert server.tokens == ["Bearer ours"]


BODIES = {
    "a web page": b"<html>Sign in to the network</html>",
    "half of it": b'{"name": "mi',
    "a list": b"[]",
    "a text": b'"ok"',
    "nothing": b"",
    "too deep": b"[" * 100_000,
    "an object in a list": b' [{"name": "mine"}]',
    "twice": b'{"name": "mine"}{"name": "mine"}',
}


@each("body", BODIES.values())
def test_a_body_that_is_no_json_object_is_unclear_to_a_client_too(serve, body):
    server = serve(lambda _: (200, body, {"Content-Type": "application/json"}))
    with pytest.raises(UnclearError):
        look(GoogleClient(project="p", credentials=Token("ours")), server, ONCE)
