"""Backends in memory, which answer as they are told: what a trainer does shows in milliseconds."""

from datetime import datetime, timezone

from gputrain import Trainer, TrainingSpec
from gputrain.backends.base import Backend, Bundle, LogPage, Request, Status
from gputrain.catalog import Price, ProvisioningModel
from gputrain.errors import CapacityError
from gputrain.jobstore import FolderStore
from gputrain.lifecycle import State
from gputrain.planning import Offer, Supply
from gputrain.spec.entry import make_job_id

BEGAN = 1_000_000.0
FULL = CapacityError("it is full")
JOB = make_job_id(TrainingSpec(script="train.py"), "k")
"""What `submit` makes, in a world of places."""


class Records(FolderStore):
    """Documents whose ages go by the world's clock."""

    def __init__(self, root, world):
        super().__init__(root)
        object.__setattr__(self, "written", {})
        object.__setattr__(self, "world", world)

    def read(self, name):
        found = super().read(name)
        return found and _aged(found, self.world.seconds - self.written.get(name, self.world.seconds))

    def swap(self, name, content, version, metadata=None):
        self.written[name] = self.world.seconds
        return super().swap(name, content, version, metadata)


def _aged(document, age_s):
    object.__setattr__(document, "age_s", age_s)
    return document


class World:
    """One clock for all, which whoever waits moves; after each wait, what else happens then."""

    def __init__(self, root):
        self.seconds = BEGAN
        self.slept = []
        self.meanwhile = []
        self.documents = Records(root, self)

    def now(self):
        return datetime.fromtimestamp(self.seconds, timezone.utc)

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.seconds += seconds
        if self.meanwhile:
            self.meanwhile.pop(0)()

    def trainer(self, *backends):
        return Trainer(backends, now=self.now, sleep=self.sleep)


class Place(Backend):
    """A backend with an L4 at each of its places."""

    supply = None
    poll_s = 1.0

    def __init__(self, name, world, places=("east-a", "west-b"), price_usd_h=None, **more):
        self.name, self.documents = name, world.documents
        self.supply = Supply(backend=name, offers=(_offer(places, price_usd_h),), **more)
        self.settings = {}
        self.answers = []
        """Of the next launches: an error to raise, or what happens before it is made."""
        self.asked = []
        """The places that were asked."""
        self.made = {}
        """The records of the attempts that are there, by their ids."""
        self.seen = None
        """What a look sees of an attempt that is there, instead of one that runs."""
        self.code = Bundle(location="here", argv=("train.py",), sha256="0" * 64, content=b"print()")

    def package(self, _spec, _job_id):
        return self.code

    def find_code(self, sha256, argv):
        return Bundle(location="here", argv=tuple(argv), sha256=sha256)

    def build_request(self, record, _spec, attempt, candidate, _bundle):
        return Request(job_id=record.job_id, attempt=attempt, candidate=candidate, body={})

    def launch(self, request):
        self.asked.append(request.candidate.place)
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, BaseException):
            raise answer
        if answer is not None:
            answer()
        self.made[request.attempt.id] = request.candidate.place
        return request.candidate.place

    def inspect_many(self, records):
        return {one.job_id: self._status(one.attempt) for one in records}

    def _status(self, attempt):
        if attempt.id not in self.made:
            return Status(state=State.QUEUED)
        return self.seen or Status(state=State.RUNNING, exists=True, is_whole=True, has_run=True)

    def terminate(self, record, grace_s):
        if not grace_s:
            self.made.pop(record.attempt.id, None)

    def logs(self, _record, cursor=""):
        return LogPage(lines=(), cursor=cursor)


def _offer(places, price_usd_h):
    price = None if price_usd_h is None else Price(usd_h=price_usd_h, source="a list", date="2026-11-23")
    return Offer(
        gpu="L4", gpu_count=1, machine_type="g2-standard-4", places=places,
        provisioning_models=(ProvisioningModel.STANDARD,), region_of=lambda place: place[:-2],
        price_of=lambda _place, _model: price,
    )  # fmt: skip
