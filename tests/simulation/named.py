"""Schedules that broke a promise once, each kept under a name."""

import attrs

from gputrain_emulator import faults
from tests.simulation.schedule import DAY_S, Act, Client, Happening, Mishap, Schedule

_ZONES = ("us-central1-a", "us-central1-b", "us-central1-c", "us-central1-f")
_CALM = Schedule(
    seed=0, backends=("compute",), nodes=1, model="standard", limit_s=600, wait_s=0, restarts=0,
    rolls_back=False, lag_s=0.0, stock=(), quota=1000, ends=("hangs",), clients=(), mishaps=(), happenings=(),
)  # fmt: skip


def _client(name, *acts, starts_s=0.0, clock_off_s=0.0, watch_s=60.0, backends=()):
    told = tuple(Act(name=act, seconds=watch_s if act == "watch" else 0.0) for act in acts)
    return Client(name=name, starts_s=starts_s, clock_off_s=clock_off_s, acts=told, backends=backends)


def _mishaps(client, kind, *numbers, on="", **more):
    return tuple(Mishap(client=client, number=number, kind=kind, on=on, **more) for number in numbers)


def _calm(**fields):
    return attrs.evolve(_CALM, **fields)


ALONE = (_client("A", "submit", "look"),)
NAMED = {
    "a clean-up beside VMs of another bucket": _calm(clients=(_client("A", "submit", "clean up", "look"),)),
    "an operation that may not be read": _calm(
        nodes=4, clients=ALONE, mishaps=_mishaps("A", "refused", *range(9), on="/operations", status=403)
    ),
    "half a gang, and lists that lag": _calm(
        nodes=4, lag_s=60.0, stock=tuple((zone, 3) for zone in _ZONES), clients=ALONE
    ),
    "half a gang, and lists that a zone is missing from": _calm(
        nodes=4, stock=(("us-central1-a", 3),), clients=ALONE,
        mishaps=_mishaps(
            "A", "sees", *range(12), on="/instances?",
            fault=faults.named("unreachable", zone="us-central1-a"),
        ),
    ),
    "a client killed while it removes half a gang": _calm(
        nodes=4, stock=tuple((zone, 3) for zone in _ZONES),
        clients=(_client("A", "submit"), _client("B", "submit", starts_s=30.0)),
        mishaps=_mishaps("A", "kill sent", 0, on="DELETE"),
    ),
    "a client of two backends, its clock a day ahead, killed at its create": _calm(
        backends=("vertex", "compute"),
        clients=(_client("A", "submit", clock_off_s=DAY_S), _client("B", "submit", "look", starts_s=5.0)),
        mishaps=_mishaps("A", "kill before", 0, on="POST /customJobs"),
    ),
    "a host that is lost while its VM starts": _calm(
        nodes=2, ends=("done",), clients=(_client("A", "submit", "watch", "look"),),
        happenings=(Happening(at_s=2.5, kind="host error"),),
    ),
    "a watcher a day ahead of a submit that is at its first call": _calm(
        clients=(_client("A", "submit"), _client("B", "jobs", "look", starts_s=0.7, clock_off_s=DAY_S)),
        mishaps=_mishaps("A", "late there", 0, on="/bulkInsert", seconds=20.0),
    ),
    "a group that a person deletes": _calm(
        nodes=2, model="flex-start", stock=tuple((zone, 0) for zone in _ZONES),
        clients=(_client("A", "submit", "watch", "watch", "look"),),
        happenings=(Happening(at_s=30.0, kind="delete group"),),
    ),
    "three processes with one key at Vertex AI": _calm(
        backends=("vertex",), lag_s=10.0,
        clients=tuple(_client(name, "submit", "look") for name in "ABC"),
    ),
    "a client killed once its create was sent": _calm(
        backends=("vertex",), lag_s=60.0,
        clients=(_client("A", "submit"), _client("B", "submit", "cancel", starts_s=5.0)),
        mishaps=_mishaps("A", "kill sent", 0, on="/customJobs"),
    ),
    "a client killed between the record and the VMs": _calm(
        clients=(_client("A", "submit", clock_off_s=DAY_S), _client("B", "submit", "look", starts_s=5.0)),
        mishaps=_mishaps("A", "kill before", 0, on="/bulkInsert"),
    ),
    "a cancel whose deletes fail": _calm(
        nodes=2, clients=(_client("A", "submit", "watch", "cancel"),),
        mishaps=_mishaps("A", "refused", *range(30), on="DELETE", status=503),
    ),
    "a refusal that follows a lost answer": _calm(
        clients=ALONE,
        mishaps=(
            *_mishaps("A", "fails after", 0, on="/bulkInsert"),
            *_mishaps("A", "refused", 1, on="/bulkInsert", status=403),
        ),
    ),
    "a Ctrl-C whose job lists show late, and the next submit of its key": _calm(
        backends=("vertex",), lag_s=60.0,
        clients=(_client("A", "submit"), _client("B", "submit", "look", starts_s=75.0)),
        mishaps=_mishaps("A", "ctrl-c sent", 0, on="POST /customJobs"),
    ),
    "a record that may not be read once its job was made": _calm(
        backends=("vertex", "compute"), lag_s=30.0, clients=ALONE,
        mishaps=(
            *_mishaps("A", "lost after", 0, on="POST /customJobs"),
            *_mishaps(
                "A", "refused", 0, on="POST /customJobs", status=403, befalls="GET records%2F", lasts_s=600.0
            ),
        ),
    ),
    "a clock set back while a submit waits for room": _calm(
        backends=("vertex", "compute"), nodes=4, wait_s=300, quota=1, clients=(_client("A", "submit"),),
        happenings=(Happening(at_s=92.0, kind="clock jumps", client="A", seconds=-DAY_S),),
    ),
    "a Ctrl-C once VMs are being withdrawn, and the next submit of their key": _calm(
        nodes=2, clients=(_client("A", "submit"), _client("B", "submit", "look", starts_s=60.0)),
        mishaps=(
            *_mishaps("A", "late back", 1, on="GET /operations", seconds=20.0),
            *_mishaps("A", "ctrl-c sent", 1, on="DELETE"),
        ),
        happenings=(Happening(at_s=10.0, kind="ctrl-c", client="A"),),
    ),
    "a key withdrawn and asked anew while another looked": _calm(
        backends=("vertex",), ends=("done",),
        clients=(_client("A", "submit", "watch"), _client("B", "watch", starts_s=1.0)),
        mishaps=(
            *_mishaps("A", "ctrl-c sent", 0, on="POST /customJobs"),
            *_mishaps("B", "lost before", *range(6), on="GET /customJobs"),
        ),
    ),
    "a page of nothing for a job": _calm(
        backends=("vertex",), clients=(_client("A", "watch", "watch"),),
        mishaps=_mishaps("A", "list", *range(3, 40, 3)),
    ),
    "a guest's word that is cut on its way": _calm(
        clients=(_client("A", "submit"), _client("B", "look", starts_s=180.0)),
        mishaps=_mishaps("B", "cut", 0, on="status-0"),
    ),
    "a create of two minutes, lists that lag, and the next submit of its key": _calm(
        backends=("vertex",), limit_s=1800, lag_s=60.0, quota=1,
        clients=(_client("A", "submit", "submit"),),
        mishaps=(
            *_mishaps("A", "refused", 0, on="POST /customJobs", status=500, lasts_s=120.0),
            *_mishaps("A", "late there", 10, seconds=12.0),
        ),
    ),
    "a job that comes late at one service, and a client that only the other lets in": _calm(
        backends=("vertex", "compute"), lag_s=60.0, limit_s=1800,
        clients=(_client("A", "submit"), _client("B", "submit", "look", "cancel", starts_s=5.0)),
        mishaps=(
            *_mishaps("A", "kill sent", 0, on="POST /customJobs"),
            *_mishaps("A", "late there", 0, on="POST /customJobs", seconds=185.0),
            *_mishaps("B", "refused", 0, on="POST /customJobs", status=403, lasts_s=600.0),
        ),
    ),
    "a create that comes late once its repetition was refused, and the next submit of its key": _calm(
        backends=("vertex",), limit_s=1800,
        clients=(_client("A", "submit"), _client("B", "submit", "look", starts_s=170.0)),
        mishaps=(
            *_mishaps("A", "late there", 0, on="POST /customJobs", seconds=150.0),
            *_mishaps("A", "refused", 1, on="POST /customJobs", status=403, lasts_s=60.0),
        ),
    ),
    "VMs that come late, after a Ctrl-C": _calm(
        limit_s=1800, clients=(_client("A", "submit"),),
        mishaps=(
            *_mishaps("A", "late there", 0, on="POST /bulkInsert", seconds=10.0),
            *_mishaps("A", "ctrl-c sent", 0, on="POST /bulkInsert"),
        ),
    ),
    "two jobs of one attempt": _calm(
        backends=("vertex",), lag_s=60.0, clients=(_client("A", "submit", "watch", "look"),),
        mishaps=_mishaps("A", "lost after", 0, on="POST /customJobs"),
    ),
    "VMs that come late, after a cancel": _calm(
        limit_s=1800, clients=(_client("A", "submit"), _client("B", "jobs", "cancel", starts_s=5.0)),
        mishaps=(
            *_mishaps("A", "kill sent", 0, on="POST /bulkInsert"),
            *_mishaps("A", "late there", 0, on="POST /bulkInsert", seconds=100.0),
        ),
    ),
    "VMs that come late once the job has ended": _calm(
        seed=7, limit_s=3600, ends=("done",),
        clients=(
            _client("A", "submit"), _client("B", "submit", *["watch"] * 9, "look", starts_s=30.0),
            _client("D", "jobs", starts_s=610.0),
        ),
        mishaps=(
            *_mishaps("A", "ctrl-c sent", 0, on="POST /bulkInsert"),
            *_mishaps("A", "late there", 0, on="POST /bulkInsert", seconds=600.0),
        ),
    ),
    "a cancel beside a hop to another service": _calm(
        backends=("compute", "vertex"), limit_s=1800, model="spot", restarts=2,
        clients=(
            _client("A", "submit", "watch", watch_s=600.0),
            _client("C", "attach", "cancel", "look", starts_s=307.2),
            _client("D", "jobs", starts_s=800.0),
        ),
        mishaps=(
            *_mishaps("A", "refused", 1, on="POST /bulkInsert", status=403, lasts_s=9000.0),
            *_mishaps("C", "late back", 11, on="GET ", seconds=8.0),
        ),
        happenings=(Happening(at_s=150.0, kind="preempt"),),
    ),
    "a cancel within a slow create of what waits in the queue": _calm(
        model="flex-start", limit_s=1800, ends=("done",), stock=tuple((zone, 0) for zone in _ZONES),
        clients=(_client("A", "submit"), _client("B", "jobs", "cancel", starts_s=1.0)),
        mishaps=_mishaps("A", "late there", 0, on="POST /instances", seconds=8.0),
    ),
    "a cancel while lists show the VM of before under its name": _calm(
        limit_s=600, lag_s=45.0, ends=("hangs",),
        clients=(_client("A", "submit", "submit"), _client("B", "submit", "cancel", starts_s=60.0)),
        mishaps=_mishaps("A", "ctrl-c before", 1, on="GET records%2F"),
    ),
    "a record that comes as a web page": _calm(
        clients=(_client("A", "submit", "watch", "cancel"),),
        mishaps=_mishaps("A", "html", *range(1, 12, 2), on="records%2F"),
    ),
}  # fmt: skip
