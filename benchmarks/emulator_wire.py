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
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from typing import Any

from measure import Measure

THREADS, SECONDS, ROUNDS = 8, 2.0, 5
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
    told.send(server.server_address[1])
    server.serve_forever()


def emulator(told: Connection) -> None:
    import gputrain_emulator

    with gputrain_emulator.start(rate_limits=False) as cloud:
        told.send(cloud.server.server_address[1])
        with contextlib.suppress(EOFError):
            told.recv()


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


def served(run: Callable[[Connection], None]) -> tuple[int, Callable[[], None]]:
    """The port of a server in a process of its own, and what ends it."""
    here, there = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=run, args=(there,), daemon=True)
    process.start()
    port: int = here.recv()

    def end() -> None:
        here.close()
        process.kill()

    return port, end


def measure() -> Iterator[Measure]:
    """Each figure beside its limit, the median of five turns."""
    (plain, end_plain), (port, end) = served(bare), served(emulator)
    rates: dict[str, list[float]] = {name: [] for name in ("bare", "zone", "pages", "official")}
    for _ in range(ROUNDS):
        rates["bare"].append(crowd(plain, "/"))
        rates["zone"].append(crowd(port, ZONE))
        rates["pages"].append(crowd(port, AGGREGATED, 1))
        rates["official"].append(official(port))
    bare_s, zone_s, pages_s, official_s = (statistics.median(values) for values in rates.values())
    note = f"{zone_s:.0f} a second, {bare_s:.0f} of a bare http.server"
    yield Measure(
        what="bare http.server over zones.get, 8 threads",
        value=bare_s / zone_s,
        target=2.0,
        unit="times",
        note=note,
    )
    note = f"{pages_s:.0f} a second; the official client, its decoding included: {official_s:.0f} a second"
    yield Measure(
        what="page of aggregated machine types, raw client",
        value=1000 / pages_s,
        target=5.0,
        unit="ms",
        note=note,
    )
    end_plain()
    end()
