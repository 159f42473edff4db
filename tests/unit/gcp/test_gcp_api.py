"""One value to reach Google by: tokens, policies, guarded bodies, pages, and an end in time."""

import gzip
import io
import logging
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gputrain.errors import AuthError, ProviderError, SpecError, TransientError
from gputrain.gcp import Access, Api, Endpoints, UnclearError, translated
from gputrain.gcp.wire import _TimedReader
from gputrain.retry import LOOK, ONCE, QUEUE, READ, Policy
from tests.each import each
from tests.unit.gcp.answering import Token, well

ROOT = Path(__file__).parents[3]


def test_64_threads_with_an_expired_token_make_one_refresh(serve):
    server, token = serve(well), Token()
    access = Access(project="p", credentials=token)
    with ThreadPoolExecutor(64) as pool:
        list(pool.map(lambda _: access.get(server.url, action="look", policy=ONCE), range(64)))
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
        list(pool.map(lambda _: access.get(server.url, action="look", policy=ONCE), range(16)))
    assert token.refreshes == 1


def test_calls_one_after_the_other_share_a_connection(serve):
    server = serve(well)
    access = Access(project="p", credentials=Token())
    for _ in range(5):
        access.get(server.url, action="look", policy=ONCE)
    assert len(server.connections) == 1


FORKING = """
import multiprocessing, sys
from gputrain.gcp import Access
from gputrain.retry import ONCE
from tests.unit.gcp.answering import Token

access = Access(project="p", credentials=Token())

def mixed(who):
    asked = [f"/{who}/{number}" for number in range(50)]
    return asked != [access.get(sys.argv[1] + one, action="look", policy=ONCE)["asked"] for one in asked]

assert not mixed("parent")
forks = multiprocessing.get_context("fork")
others = [forks.Process(target=lambda who=who: sys.exit(mixed(who)), daemon=True) for who in range(3)]
for other in others:
    other.start()
assert not mixed("parent-again")
for other in others:
    other.join(60)
assert [other.exitcode for other in others] == [0, 0, 0]
"""


def test_a_forked_process_reads_its_own_answers(serve):
    server = serve(lambda request: (200, b'{"asked": "%s"}' % request.path.encode(), {}))
    line = [sys.executable, "-c", FORKING, server.url]  # a process without the server's threads
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert len(server.connections) == 4


def test_a_proxys_page_is_unclear(serve):
    server = serve(lambda _: (502, b"<html>Bad Gateway</html>", {}))
    with pytest.raises(UnclearError):
        Access(project="p", credentials=Token()).get(server.url, action="look", policy=ONCE)


BODIES = {
    "a web page": b"<html>Sign in to the network</html>",
    "half of it": b'{"items": [{"na',
    "a list": b"[]",
    "a text": b'"ok"',
    "nothing": b"",
    "too deep": b"[" * 100_000,
}


@each("body", BODIES.values())
def test_a_body_that_is_no_json_object_is_unclear(serve, body):
    server = serve(lambda _: (200, body, {}))
    with pytest.raises(UnclearError):
        Access(project="p", credentials=Token()).get(server.url, action="look", policy=ONCE)


@each("body", BODIES.values())
def test_a_read_gets_over_one_bad_body(serve, body):
    answers = iter([body, b'{"name": "a"}'])
    server = serve(lambda _: (200, next(answers), {}))
    access = Access(project="p", credentials=Token(), sleep=lambda _: None)
    assert access.get(server.url, action="look") == {"name": "a"}


def test_a_write_that_would_do_it_twice_is_not_repeated_after_a_bad_body(serve):
    server = serve(lambda _: (200, b"<html>", {}))
    access = Access(project="p", credentials=Token(), sleep=lambda _: None)
    with pytest.raises(UnclearError):
        access.post(server.url, action="make it", json={}, policy=QUEUE)
    assert len(server.requests) == 1


def test_a_write_that_would_do_it_twice_is_repeated_where_it_was_clearly_refused(serve):
    answers = iter([(429, b"{}", {}), (200, b"{}", {})])
    server = serve(lambda _: next(answers))
    access = Access(project="p", credentials=Token(), sleep=lambda _: None)
    assert access.post(server.url, action="make it", json={}, policy=QUEUE) == {}


def drips(_request):
    def drops():
        while True:
            yield b" "
            time.sleep(0.05)

    return 200, drops(), {"Content-Length": "1000000"}


def dripping_head(_request):
    def drops():
        while True:
            yield b"x"
            time.sleep(0.05)

    return 100, drops(), {}  # after an interim answer everything is still the head of the one that is due


@pytest.mark.parametrize("answer", [drips, dripping_head])
def test_an_answer_that_drips_ends_in_time(serve, answer):
    server = serve(answer)
    started = time.monotonic()
    with pytest.raises(UnclearError):
        Access(project="p", credentials=Token()).get(
            server.url, action="look", policy=Policy(budget_s=0.0, call_s=0.5)
        )
    assert time.monotonic() - started < 5  # half a second, and what a loaded machine adds


def test_a_connection_whose_answer_came_in_time_is_used_again_with_its_own_time(serve):
    server = serve(well)
    access = Access(project="p", credentials=Token())
    access.get(server.url, action="look", policy=Policy(budget_s=0.0, call_s=0.3))
    time.sleep(0.4)
    access.get(server.url, action="look", policy=ONCE)
    assert len(server.connections) == 1


def test_google_is_told_by_both_words_that_an_answer_may_be_packed(serve):
    said = []

    def packed(request):
        said.append((request.headers["Accept-Encoding"], request.headers["User-Agent"]))
        return 200, gzip.compress(b'{"name": "a"}'), {"Content-Encoding": "gzip"}

    server = serve(packed)
    assert Access(project="p", credentials=Token()).get(server.url, action="look") == {"name": "a"}
    assert all("gzip" in word for word in said[0])


def test_a_packed_answer_that_is_damaged_is_unclear(serve):
    server = serve(lambda _: (200, gzip.compress(b'{"name": "a"}')[:-9] + b"!", {"Content-Encoding": "gzip"}))
    with pytest.raises(UnclearError):
        Access(project="p", credentials=Token()).get(server.url, action="look", policy=ONCE)


def test_an_answer_that_is_too_large_is_not_taken_into_memory(serve):
    server = serve(lambda _: (200, b"x" * 5000, {}))
    with pytest.raises(ProviderError, match="more than 4096 bytes"):
        Access(project="p", credentials=Token()).reply(
            "GET", server.url, action="look", policy=LOOK, most_bytes=4096
        )
    assert len(server.requests) == 1


@pytest.mark.parametrize("most_bytes", [5000, 4999])
def test_an_answer_may_be_as_large_as_it_was_said(serve, most_bytes):
    url = serve(lambda _: (200, b"x" * 5000, {})).url
    access = Access(project="p", credentials=Token())
    options = {"action": "look", "policy": ONCE, "most_bytes": most_bytes}
    if most_bytes == 5000:
        assert len(access.reply("GET", url, **options).content) == 5000
    else:
        with pytest.raises(ProviderError) as caught:
            access.reply("GET", f"{url}/a?token=hush", **options)
        assert caught.value.why == f"GET {url}/a was due to be smaller"


def test_a_small_answer_that_unpacks_to_a_large_one_is_not_taken_into_memory(serve):
    bomb = gzip.compress(b" " * (1 << 20)) * 65
    server = serve(lambda _: (200, bomb, {"Content-Encoding": "gzip"}))
    with pytest.raises(ProviderError, match="more than 67108864 bytes"):
        Access(project="p", credentials=Token()).get(server.url, action="look", policy=ONCE)


def test_all_reads_of_an_answer_share_its_time_and_the_next_answer_has_its_own():
    class Line:
        timeouts: list[float] = []  # noqa: RUF012  # one test's

        def gettimeout(self):
            return 3.0

        def settimeout(self, seconds):
            self.timeouts.append(seconds)

        def fileno(self):
            return 5

    moments = iter([100.0, 100.0, 102.5, 102.5, 103.0])
    line = Line()
    reader = _TimedReader(io.BytesIO(b"abc"), line, now=lambda: next(moments))
    assert (reader.readinto(bytearray(2)), reader.readinto(bytearray(2))) == (2, 1)
    assert reader.readinto(bytearray(2)) == 0
    with pytest.raises(TimeoutError, match="took too long"):
        reader.readinto(bytearray(2))
    reader.close()
    reader.close()
    assert line.timeouts == [3.0, 0.5, 0.5, 3.0]


@pytest.mark.parametrize(("status", "is_refused"), [(200, False), (299, False), (300, True), (304, True)])
def test_a_status_from_300_on_is_a_refusal_unless_its_caller_understands_it(serve, status, is_refused):
    access, url = Access(project="p", credentials=Token()), serve(lambda _: (status, b"", {})).url
    options = {"action": "look", "policy": ONCE}
    if is_refused:
        with pytest.raises(ProviderError):
            access.reply("GET", url, **options)
    assert access.reply("GET", url, accept=(300, 304), **options).status_code == status


def test_what_came_is_quoted_by_its_beginning(serve):
    letters = "".join(chr(ord("a") + number % 26) for number in range(300))
    page = f"HTTP 418 I'm a Teapot: {letters[:200]}"
    for status, body, why, raw in (
        (200, letters, f"a JSON object was due, text beginning {letters[:40]!r} came", letters[:200]),
        (200, "[7]", "a JSON object was due, list came", [7]),
        (418, letters, page, page),
    ):
        answer = status, body.encode(), {}
        url = serve(lambda _, told=answer: told).url
        with pytest.raises((UnclearError, ProviderError)) as caught:
            Access(project="p", credentials=Token()).get(url, action="look", policy=ONCE)
        assert (caught.value.why, caught.value.raw) == (why, raw)


def test_a_failure_of_a_look_is_believed_for_15_seconds_and_a_success_for_a_minute():
    time_s, asked = [1000.0], []
    looks = Access(project="p", now=lambda: time_s[0]).looks

    def fail():
        asked.append("fail")
        raise TransientError("no")

    def ask():
        looks.ask({"a": fail, "b": lambda: asked.append("well")})
        return asked.count("fail"), asked.count("well")

    told = []
    for later_s in (0.0, 14.5, 0.5, 44.5, 0.5):
        time_s[0] += later_s
        told.append(ask())
    assert told == [(1, 1), (1, 1), (2, 1), (3, 1), (3, 2)]


def test_who_waits_is_told_why_once_a_minute_however_many_calls_fail(caplog):
    time_s = [1000.0]
    access = Access(project="p", now=lambda: time_s[0], sleep=lambda _: None)
    caplog.set_level(logging.WARNING, "gputrain")

    def lines(later_s):
        time_s[0] += later_s
        caplog.clear()
        with pytest.raises(TransientError):
            access.tried(fail, action="look", policy=READ)
        return sum("the network is down" in record.getMessage() for record in caplog.records)

    def fail():
        raise TransientError("the network is down")

    assert [lines(later_s) for later_s in (0.0, 59.5, 0.5, 1.0, -61.0)] == [1, 0, 1, 0, 1]


def test_a_request_with_a_token_follows_no_redirect(serve):
    elsewhere = serve(well)
    server = serve(lambda _: (307, b"{}", {"Location": f"{elsewhere.url}/stolen"}))
    with pytest.raises(ProviderError):
        Access(project="p", credentials=Token()).get(server.url, action="look")
    assert (len(server.requests), elsewhere.requests) == (1, [])


def test_a_login_in_netrc_does_not_take_the_place_of_our_token(serve, tmp_path, monkeypatch):
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login somebody password else\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    server = serve(well)
    Access(project="p", credentials=Token("ours")).get(server.url, action="look")
    assert server.tokens == ["Bearer ours"]


def test_pages_are_read_to_the_last(serve):
    pages = {
        "/l?size=2": b'{"items": [{"a": 1}, {"a": 2}], "nextPageToken": "x"}',
        "/l?size=2&pageToken=x": b'{"items": [{"a": 3}]}',
    }
    server = serve(lambda request: (200, pages[request.path], {}))
    listing = Access(project="p", credentials=Token()).pages(
        f"{server.url}/l", action="list", params={"size": 2, "filter": ""}
    )
    assert listing.whole("list") == ({"a": 1}, {"a": 2}, {"a": 3})


def test_a_list_that_cannot_be_read_is_not_whole(serve):
    server = serve(lambda _: (200, b'{"items": [3]}', {}))
    assert not Access(project="p", credentials=Token()).pages(server.url, action="list").is_whole


def test_the_wait_a_server_asks_for_is_carried(serve):
    server = serve(lambda _: (503, b"{}", {"Retry-After": "7"}))
    with pytest.raises(UnclearError) as caught:
        Access(project="p", credentials=Token()).get(server.url, action="look", policy=ONCE)
    assert caught.value.retry_after_s == 7


def test_a_refused_connection_is_unclear_and_says_of_which_address():
    with pytest.raises(UnclearError, match=r"nobody answers at http://127\.0\.0\.1:1: Connection refused"):
        Access(project="p", credentials=Token()).get("http://127.0.0.1:1/", action="look", policy=ONCE)


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
        access.get(server.url, action="look", policy=ONCE)
    shown = repr(access) + repr(access.locked_credentials()) + str(caught.value) + repr(caught.value.raw)
    assert "ya29" not in shown


def test_two_tenants_share_nothing(serve):
    server = serve(well)
    for name in ("alice", "bob"):
        token = Token()
        token.token = name
        Access(project=name, credentials=token).get(server.url, action="look", policy=ONCE)
    assert server.tokens == ["Bearer alice", "Bearer bob"]


def test_addresses_are_googles_unless_said():
    assert Access(project="p").url(Api.STORAGE) == "https://storage.googleapis.com"
    elsewhere = Access(project="p", endpoints=Endpoints(aiplatform="http://127.0.0.1:9/"))
    assert elsewhere.url(Api.AIPLATFORM, region="us-central1") == "http://127.0.0.1:9"


def test_no_token_goes_where_endpoints_lead_that_are_not_ours():
    class Theirs:
        storage = "http://example.com"

    with pytest.raises(SpecError):
        Access(project="p", endpoints=Theirs()).url(Api.STORAGE)


def test_our_own_errors_pass_a_translation_unchanged():
    with pytest.raises(AuthError), translated("x"):
        raise AuthError("mine")
