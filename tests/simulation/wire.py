"""The way of a request to the emulated clouds and back, and what befalls it there."""

import collections
import functools
import io
import re
from datetime import datetime, timezone
from email.utils import format_datetime
from urllib.parse import quote, urlsplit

import requests
import urllib3

from gputrain_emulator.dispatch import Dropped
from gputrain_emulator.errors import ApiError
from gputrain_emulator.exchanges import Request
from gputrain_emulator.faults import Refuse

HTML = b"<!doctype html><html><body><h1>Sign in to this network</h1></body></html>"


_NAME = re.compile(rb'"name": "([^"]+)"')


class Exchange:
    """One request under way."""

    def __init__(self):
        self.answer = None
        self.is_lost = False
        self.has_come = False


class Wire:
    """Carries the requests of all clients to one emulator, each with its own delays and mishaps."""

    def __init__(self, cloud, dice):
        self.cloud = cloud
        self.dice = dice
        self.mishaps = []
        self._met = collections.Counter()
        """How many requests each client has sent on what a mishap waits for."""
        self._until = {}
        """How long what has befallen one of them befalls the next."""
        self.lag = None
        """What every list of VMs and jobs shows, if it lags."""
        self.log = []
        self.on_upload = lambda do: do()
        """Takes each upload to where it is written."""

    def carry(self, process, prepared, timeout_s):
        """What a client's adapter answers, or raises."""
        number, process.requests = process.requests, process.requests + 1
        found = self._found(process, number, _called(prepared))
        if any(one.kind == "kill before" for one in found):
            process.kill()
        if any(one.kind == "ctrl-c before" for one in found):
            process.interrupt()
        clock, turns = self.cloud.clock, process.turns
        turns.pause(clock.now())  # whoever else is due may come first
        exchange = self._send(process, number, prepared, found)
        if any(one.kind == "kill sent" for one in found):
            process.kill()
        if any(one.kind == "ctrl-c sent" for one in found):
            process.interrupt()
        turns.pause(clock.now() + (timeout_s or 1e9), lambda: exchange.has_come)
        return self._received(prepared, exchange)

    def _found(self, process, number, what):
        """The mishaps of a request, and all that wait for its like count on."""
        now = self.cloud.clock.now()
        mine = [one for one in self.mishaps if one.client == process.name]
        on = {one.on for one in mine if one.on and _is_on(one.on, what)}
        found = []
        for one in mine:
            is_its = (not one.on or one.on in on) and one.number == (
                self._met[process.name, one.on] if one.on else number
            )
            if is_its:
                self._until[one] = now + one.lasts_s
            is_befallen = _is_on(one.befalls, what) if one.befalls else not one.on or one.on in on
            if is_befallen and ((is_its and not one.befalls) or now < self._until.get(one, 0.0)):
                found.append(one)
        for one in on:
            self._met[process.name, one] += 1
        return found

    def _send(self, process, number, prepared, found):
        clock, exchange = self.cloud.clock, Exchange()
        there_s, back_s = 0.01 + 0.05 * self.dice.random(), 0.01 + 0.05 * self.dice.random()
        there_s += sum(one.seconds for one in found if one.kind == "late there")
        back_s += sum(one.seconds for one in found if one.kind == "late back")
        request = _request(prepared)
        note = [clock.now(), process.name, number, prepared.method, urlsplit(prepared.url).path, 0]
        self.log.append(note)

        def deliver():
            for one in found:
                if one.kind == "lost before":
                    exchange.is_lost = True
                    clock.after(back_s, lambda: setattr(exchange, "has_come", True))
                    return
            exchange.answer = self._answer(request, found)
            note[5] = exchange.answer[0]
            exchange.is_lost = any(one.kind == "lost after" for one in found)
            if any(one.kind == "twice" for one in found):
                clock.after(5 * self.dice.random(), lambda: self._answer(request, ()))
            clock.after(back_s, lambda: setattr(exchange, "has_come", True))

        clock.after(there_s, deliver)
        return exchange

    def _answer(self, request, found):
        """Status, headers and body, as the emulator gives them, or what came instead."""
        strange = next((one.kind for one in found if one.kind in ("html", "list")), "")
        if strange:
            body, kind = (HTML, "text/html") if strange == "html" else (b"[]", "application/json")
            return 200, {"Content-Type": kind, "Date": self._date()}, body
        for one in found:
            if one.kind == "refused" and not (request.verb == "GET" and one.status in (409, 412)):
                error = ApiError(one.status, "drawn by the schedule", reason=_REASONS.get(one.status, ""))
                self.cloud.world.faults.order("*", Refuse(error=error))
            elif one.kind == "sees" and one.fault is not None:
                self.cloud.world.faults.order("*", one.fault)
        if self.lag is not None:
            self.cloud.world.faults.order("aiplatform.*", self.lag)

        def handle():
            return self.cloud.dispatcher.handle(request).reply

        try:
            reply = self.on_upload(handle) if request.target.startswith("/upload/") else handle()
        except Dropped:
            return 0, {}, b""
        finally:
            self.cloud.world.faults.clear()
        body = reply.body if isinstance(reply.body, bytes) else b""
        status = reply.status
        headers = {"Content-Type": reply.content_type, "Date": self._date(), **reply.headers}
        for one in found:
            if one.kind == "cut":
                body = body[: len(body) // 2]
            elif one.kind == "doubled":
                body = body * 2
            elif one.kind == "fails after":
                status, body = 503, b""
        return status, headers, body

    def _date(self):
        return _told(int(self.cloud.clock.now()))

    def _received(self, prepared, exchange):
        if not exchange.has_come:
            raise requests.ReadTimeout("no answer came in time", request=prepared)
        if exchange.is_lost or exchange.answer[0] == 0:
            raise requests.ConnectionError("the connection was closed without an answer", request=prepared)
        status, headers, body = exchange.answer
        response = requests.Response()
        response.status_code, response.reason = status, "OK" if status < 300 else "Refused"
        response.headers = requests.structures.CaseInsensitiveDict(headers)
        response.url, response.request = prepared.url, prepared
        response.encoding = requests.utils.get_encoding_from_headers(response.headers)
        response.raw = urllib3.HTTPResponse(
            body=io.BytesIO(body), headers=headers, status=status, preload_content=False
        )
        return response


@functools.lru_cache(16)
def _told(seconds):
    return format_datetime(datetime.fromtimestamp(seconds, timezone.utc), usegmt=True)


_REASONS = {
    403: "forbidden", 404: "notFound", 409: "conflict", 412: "conditionNotMet", 429: "rateLimitExceeded",
    500: "backendError", 503: "backendError",
}  # fmt: skip


def _called(prepared):
    """Method, address, and what an upload is to be called: Google's client gives that in the body."""
    name = _NAME.search(prepared.body or b"") if "/upload/" in prepared.url else None
    return f"{prepared.method} {prepared.url} {quote(name[1].decode(), safe='') if name else ''}"


def _is_on(words, what):
    return all(word in what for word in words.split())


def _request(prepared):
    url = urlsplit(prepared.url)
    body = prepared.body
    if body is not None and not isinstance(body, (bytes, str)):
        body = body.read()
    return Request(
        verb=prepared.method,
        target=url.path + (f"?{url.query}" if url.query else ""),
        headers={name.lower(): _text(value) for name, value in prepared.headers.items()},
        body=body.encode() if isinstance(body, str) else body or b"",
    )


def _text(value):
    return value.decode() if isinstance(value, bytes) else str(value)
