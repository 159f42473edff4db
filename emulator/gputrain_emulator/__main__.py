"""``gputrain-emulator --port N``: the emulator in a terminal of its own."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import traceback
from queue import SimpleQueue

import gputrain_emulator
from gputrain_emulator import gcloud


def main(arguments: list[str] | None = None) -> int:
    """Serve until interrupted."""
    options = _parser().parse_args(arguments)
    try:
        cloud = gputrain_emulator.start(
            project=options.project,
            wall_clock=not options.frozen_clock,
            live=options.live,
            allow_unconfined=options.allow_unconfined,
            userland=options.userland,
            host=options.host,
            port=options.port,
            rate_limits=not options.no_rate_limits,
            polls_move_clock=True,
        )
    except (OSError, OverflowError, ValueError) as error:
        print(f"emulator: {error}", file=sys.stderr)
        return 1
    cloud.dispatcher.failed = _tell
    # Not an Event: its lock may be held by the very thread that a signal interrupts.
    ended: SimpleQueue[int] = SimpleQueue()
    endings = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup means it to outlive its terminal
        endings.append(signal.SIGHUP)
    for number in endings:
        signal.signal(number, lambda number, _frame: ended.put(number))
    with cloud:
        print(_welcome(cloud), flush=True)
        ended.get()
        print(cloud.ledger, flush=True)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gputrain-emulator", description=gputrain_emulator.__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--port", type=int, default=18080, help="TCP port, 0 for a free one (default: 18080)")
    parser.add_argument("--host", default="127.0.0.1", help="a loopback address (default: 127.0.0.1)")
    parser.add_argument(
        "--project", default="my-project", help="the project that exists (default: my-project)"
    )
    parser.add_argument(
        "--live", action="store_true", help="run startup scripts and container commands as real processes"
    )
    parser.add_argument(
        "--allow-unconfined",
        action="store_true",
        help="with --live: where the kernel gives no namespaces, run replicas as ordinary processes",
    )
    parser.add_argument(
        "--userland",
        metavar="IMAGE",
        default="",
        help="with --live: virtual machines boot this image of Podman's, with Google's guest agent",
    )
    parser.add_argument(
        "--frozen-clock",
        action="store_true",
        help="time moves when told to (POST /_emulator/advance), and when a client waits or polls",
    )
    parser.add_argument("--no-rate-limits", action="store_true", help="do not count requests per minute")
    return parser


def _tell(error: Exception) -> None:
    """A fault of the emulator's own: its client was told no more than 500."""
    print("emulator: this is a fault of the emulator, answered with 500:", file=sys.stderr)
    traceback.print_exception(error, file=sys.stderr)


def _welcome(cloud: gputrain_emulator.Cloud) -> str:
    """Where it is, and what to type to come here with gputrain's own commands."""
    url, project = cloud.endpoints.url, cloud.project
    served = f"project {project} is served at {url}; end it with Ctrl-C\n"
    if cloud.world.callers.anonymous is None:
        token = cloud.world.callers.issue(cloud.owner)
        served += f"live mode runs submitted code, so requests need this token: {token}\n"
        url = f"{url}/_emulator/as/{token}"
    variables = gcloud.environment(url, f"{tempfile.gettempdir()}/gputrain-gcloud", project=project)
    exports = " ".join(f"{name}={value}" for name, value in variables.items())
    return (
        f"{served}"
        f"to use it from gputrain: export GPUTRAIN_ENDPOINT={url} GPUTRAIN_PROJECT={project}\n"
        f'a bucket for code: curl --data \'{{"name": "my-bucket"}}\' {url}/_emulator/add_bucket\n'
        f"to use it from gcloud: export {exports}"
    )


if __name__ == "__main__":
    sys.exit(main())
