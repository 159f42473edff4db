"""Google's own client libraries, made by `Access`: one of each, which send our token and follow nobody."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from google.cloud.compute_v1 import ImagesClient

from gputrain.errors import ProviderError, RequestError
from gputrain.gcp import Access, MissingError, UnclearError
from gputrain.retry import LOOK, ONCE
from tests.each import each
from tests.unit.gcp.answering import Token


def look(access, server, policy=LOOK):
    client = access.client(ImagesClient, server.url)
    asked = {"project": "p", "image": "mine"}
    return access.tried(
        lambda: client.get(request=asked, timeout=policy.call_s, retry=None), action="look", policy=policy
    )


def well(_request):
    return 200, b'{"name": "mine"}', {"Content-Type": "application/json"}


def test_a_client_is_made_once_for_all_threads(serve):
    server, access = serve(well), Access(project="p", credentials=Token("ours"))
    with ThreadPoolExecutor(8) as pool:
        clients = set(pool.map(lambda _: access.client(ImagesClient, server.url), range(32)))
    assert len(clients) == 1


def test_a_service_is_spoken_to_on_one_connection_by_clients_and_by_ourselves(serve):
    server, access = serve(well), Access(project="p", credentials=Token("ours"))
    for _ in range(3):
        look(access, server)
        access.get(server.url, action="look", policy=ONCE)
    assert len(server.connections) == 1


def test_a_login_in_netrc_does_not_take_the_place_of_a_clients_token(serve, tmp_path, monkeypatch):
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login somebody password else\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    server = serve(well)
    assert look(Access(project="p", credentials=Token("ours")), server).name == "mine"
    assert server.tokens == ["Bearer ours"]


def test_a_client_follows_no_redirect(serve):
    elsewhere = serve(well)
    server = serve(lambda _: (307, b"{}", {"Location": f"{elsewhere.url}/stolen"}))
    with pytest.raises(ProviderError):
        look(Access(project="p", credentials=Token("ours")), server)
    assert (len(server.requests), elsewhere.requests) == (1, [])


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
        look(Access(project="p", credentials=Token("ours")), server, ONCE)


@pytest.mark.parametrize(("status", "error"), [(400, RequestError), (404, MissingError), (503, UnclearError)])
def test_a_refusal_to_a_client_counts_by_its_status_where_its_body_is_a_page(serve, status, error):
    server = serve(lambda _: (status, b"<html>", {"Content-Type": "text/html"}))
    with pytest.raises(error):
        look(Access(project="p", credentials=Token("ours")), server, ONCE)
