"""How many requests a second the emulator answers, beside a bare http.server in the same run.

Server and clients are processes of their own. The raw client has its requests ready and looks for nothing but
the status and the length, so what is measured is the server's side; the official client's own time counts in
its row.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from typing import Any

from measure import Measure, Spread

THREADS, SECONDS, ROUNDS = 8, 1.0, 5
COMPUTE = "/compute/v1/projects/my-project"
ZONE = f"{COMPUTE}/zones/us-central1-a"
AGGREGATED = f"{COMPUTE}/aggregated/machineTypes"


def bare(told: Connection) -> None:
    """The standard library's server with a document of a zone's size."""
    body = b'{"kind": "compute#zone", "filler": "' + b"x" * 600 + b'"}'

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json; charset=UTF-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing, as the emulator does."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    tell(told, server.server_address[1])


def emulator(told: Connection) -> None:
    import gputrain_emulator

    with gputrain_emulator.start(rate_limits=False) as cloud:
        tell(told, cloud.server.server_address[1])


def tell(told: Connection, port: int) -> None:
    """Say the port, and then the processor's seconds of this process as often as asked."""
    told.send(port)
    with contextlib.suppress(EOFError):
        while told.recv():
            told.send(time.process_time())


def raw(port: int, path: str, seconds: float) -> int:
    """Requests that one connection had answered with 200 in ``seconds``."""
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: */*\r\n\r\n".encode()
    count, until = 0, time.perf_counter() + seconds
    with socket.create_connection(("127.0.0.1", port)) as wire:
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while time.perf_counter() < until:
            wire.sendall(request)
            text = wire.recv(1 << 16)
            while b"\r\n\r\n" not in text:
                text += wire.recv(1 << 16)
            head, _, body = text.partition(b"\r\n\r\n")
            if b" 200 " not in head[:20]:
                raise RuntimeError(text[:300])
            left = int(head.lower().partition(b"content-length:")[2].split()[0]) - len(body)
            while left > 0:
                left -= len(wire.recv(min(left, 1 << 20)))
            count += 1
    return count


def crowd(port: int, path: str, threads: int = THREADS) -> float:
    """Requests a second of all threads together."""
    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(lambda _: raw(port, path, SECONDS), range(threads))) / SECONDS


def official(port: int) -> float:
    """Pages a second that google-cloud-compute reads of the aggregated machine types, decoding included."""
    from google.api_core.client_options import ClientOptions
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import compute_v1

    options = ClientOptions(api_endpoint=f"http://127.0.0.1:{port}")
    client = compute_v1.MachineTypesClient(credentials=AnonymousCredentials(), client_options=options)
    pages, begin = 0, time.perf_counter()
    while time.perf_counter() < begin + SECONDS:
        pages += sum(1 for _ in client.aggregated_list(project="my-project").pages)
    return pages / (time.perf_counter() - begin)


class Served:
    """A server in a process of its own."""

    def __init__(self, run: Callable[[Connection], None]) -> None:
        context = multiprocessing.get_context("spawn")
        self._here, there = context.Pipe()
        self._process = context.Process(target=run, args=(there,), daemon=True)
        self._process.start()
        self.port: int = self._here.recv()

    def processor_s(self) -> float:
        self._here.send(True)
        return float(self._here.recv())

    def end(self) -> None:
        self._here.close()
        self._process.kill()


def costs(server: Served, path: str) -> tuple[float, float]:
    """Requests a second of eight threads, and the server's microseconds of the processor for each."""
    before = server.processor_s()
    rate = crowd(server.port, path)
    return rate, 1e6 * (server.processor_s() - before) / (rate * SECONDS)


def measure() -> Iterator[Measure]:
    """Both servers take turns; each figure is the median of its turns."""
    plain, cloud = Served(bare), Served(emulator)
    turns = []
    for number in range(ROUNDS):
        order = (plain, cloud) if number % 2 else (cloud, plain)
        spent = {server: costs(server, "/" if server is plain else ZONE) for server in order}
        turns.append((spent[plain], spent[cloud], crowd(cloud.port, AGGREGATED, 1), official(cloud.port)))
    wall = statistics.median(bare_s / zone_s for (bare_s, _), (zone_s, _), *_ in turns)
    processor = Spread.of([zone_us / bare_us for (_, bare_us), (_, zone_us), *_ in turns])
    zone_s, zone_us = (statistics.median(turn[1][at] for turn in turns) for at in (0, 1))
    note = f"{zone_s:.0f} a second, {zone_us:.0f} us each; in wall time {wall:.2f} times"
    what = "processor of zones.get over a bare http.server's, 8 threads"
    yield processor.measure(what, target=2.0, note=note)
    pages_s, official_s = (statistics.median(turn[at] for turn in turns) for at in (2, 3))
    note = f"{pages_s:.0f} a second; the official client, its decoding included: {official_s:.0f} a second"
    page = Spread.of_times([1 / turn[2] for turn in turns], per=1e-3)
    yield page.measure("page of aggregated machine types, raw client", target=5.0, unit="ms", note=note)
    plain.end()
    cloud.end()
