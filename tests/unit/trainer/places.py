"""Backends in memory, which answer as they are told: what a trainer does shows in milliseconds."""

from datetime import datetime, timezone

from gputrain import Trainer, TrainingSpec
from gputrain.backends.base import Bundle, JobRef, LogPage, Request
from gputrain.catalog import Price, ProvisioningModel
from gputrain.errors import CapacityError, JobLostError
from gputrain.lifecycle import Observation, State
from gputrain.planning import Offer, Supply
from gputrain.records import MemoryBoard
from gputrain.spec.entry import make_job_id

BEGAN = 1_000_000.0
FULL = CapacityError("it is full")
JOB = make_job_id(TrainingSpec(script="train.py"), "k")
"""What `submit` makes, in a world of places."""


class World:
    """One clock for all, which whoever waits moves; after each wait, what else happens then."""

    def __init__(self):
        self.seconds = BEGAN
        self.slept = []
        self.meanwhile = []

    def now(self):
        return datetime.fromtimestamp(self.seconds, timezone.utc)

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.seconds += seconds
        if self.meanwhile:
            self.meanwhile.pop(0)()

    def board(self):
        return MemoryBoard(lambda: self.seconds)

    def trainer(self, *backends):
        return Trainer(backends, now=self.now, sleep=self.sleep)


class Place:
    """A backend with an L4 at each of its places; it keeps records where it has a board."""

    poll_s = 1.0
    settles_s = 0.0
    turn_s = 20.0
    repeats = False

    def __init__(self, name, board=None, places=("east-a", "west-b"), price_usd_h=None, **more):
        self.name, self.board = name, board
        self.supply = Supply(backend=name, offers=(_offer(places, price_usd_h),), **more)
        self.choices = {}
        self.answers = []
        """Of the next creates: an error to raise, or what happens before it is made."""
        self.asked = []
        """The names of what was asked for, and the places."""
        self.made = {}
        """The jobs that are there, by the nonces of their asks."""
        self.seen = Observation(state=State.RUNNING)
        self.absent = None
        """What a look for an ask raises, where nothing is made."""
        self.clears = []
        """What the next clears answer; all others, that it is gone."""
        self.cleared = []

    def availability(self, _wanted):
        return {}

    def stage(self, _spec, _job_id):
        return Bundle(location="here", argv=("train.py",))

    def render(self, start):
        ref = self._ref(start.candidate.place, start.job_id)
        names = (f"{start.job_id}-{start.attempt}",)
        return Request(ref=ref, candidate=start.candidate, body={"nonce": start.nonce}, names=names)

    def create(self, request):
        self.asked.append((request.names[0], request.candidate.place))
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, BaseException):
            raise answer
        if answer is not None:
            answer()
        self.made[request.body["nonce"]] = request.ref
        return request.ref

    def observe(self, ref):
        if ref.name not in [request[0].rpartition("-")[0] for request in self.asked]:
            raise JobLostError(f"there is no {ref.name}")
        return self.seen

    def logs(self, _ref, cursor=""):
        return LogPage(lines=(), cursor=cursor)

    def cancel(self, ref):
        self.cleared.append(ref.name)
        left = {nonce: one for nonce, one in self.made.items() if one.name != ref.name}
        if left == self.made:
            raise JobLostError(f"there is no {ref.name}")
        self.made = left

    def find(self, *, name=""):
        return tuple(ref for ref in self.made.values() if ref.name.startswith(name))

    def recorder(self):
        return None if self.board is None else self

    def code(self, code):
        return Bundle(location=code.location, argv=code.argv, sha256=code.sha256)

    def name_of(self, record):
        return self._ref(record.latest.way.place, record.job_id)

    def there(self, record):
        found = self.made.get(record.latest.nonce)
        if found is None and self.absent is not None:
            raise self.absent
        return found

    def clear(self, record):
        self.cleared.append(record.job_id)
        self.made.pop(record.latest.nonce, None)
        return self.clears.pop(0) if self.clears else True

    def _ref(self, place, name):
        return JobRef(backend=self.name, project="p", place=place, name=name)


def _offer(places, price_usd_h):
    price = None if price_usd_h is None else Price(usd_h=price_usd_h, source="a list", date="2026-11-23")
    return Offer(
        gpu="L4", gpu_count=1, machine_type="g2-standard-4", places=places,
        provisioning_models=(ProvisioningModel.STANDARD,), region_of=lambda place: place[:-2],
        price_of=lambda _place, _model: price,
    )  # fmt: skip
