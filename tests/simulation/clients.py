"""The users' processes: gputrain's own Trainer with its own backends, over the simulated wire."""

import traceback
from datetime import datetime, timezone

from google.oauth2.credentials import Credentials

from gputrain.backends.compute import ComputeEngine
from gputrain.backends.vertex import VertexAI
from gputrain.errors import GputrainError
from gputrain.spec.entry import make_job_id, make_spec
from gputrain.trainer import Trainer
from tests.simulation.told import set_back_s
from tests.simulation.truth import Act, Told
from tests.simulation.turns import Process

KEY = "one key"
BUCKET = "gs://my-bucket/team"
BOUNDS_S = {
    "submit": 3600.0, "attach": 600.0, "look": 3600.0, "cancel": 1800.0, "jobs": 900.0, "clean up": 1800.0,
    "supervise": 5400.0, "watch": 5400.0,
}  # fmt: skip
"""How long a call may take of the emulator's time, beyond the time that it was told to wait."""


POLL_S = 20.0
"""Between two looks of one who waits; one every second meets nothing that one in 20 s does not."""


class PatientVertexAI(VertexAI):
    """It looks as often as the simulated Compute Engine."""

    poll_s = POLL_S


class NothingToDo(Exception):
    """A client has no job in hand."""


def new_trainer(cloud, process, token, names):
    """A trainer as a fresh process has it."""

    def sleep(seconds):
        process.turns.pause(process.turns.clock.now() + max(0.0, seconds))

    reach = {
        "endpoints": cloud.endpoints, "credentials": Credentials(token=token), "sleep": sleep,
        "now": process.now,
    }  # fmt: skip
    made = {
        "compute": lambda: ComputeEngine(
            "my-project",
            regions=["us-central1"],
            bucket=BUCKET,
            poll_s=POLL_S,
            capacity_advice=False,
            **reach,
        ),
        "vertex": lambda: PatientVertexAI(
            "my-project", regions=["us-central1", "us-east4"], bucket=BUCKET, **reach
        ),
    }
    return Trainer(
        [made[name]() for name in names],
        now=lambda: datetime.fromtimestamp(process.now(), timezone.utc),
        sleep=sleep,
    )


class Client:
    """One process: it does what its plan says until it is killed."""

    def __init__(self, world, plan):
        self.world, self.plan = world, plan
        self.process = Process(
            world.turns, plan.name, dice=world.dice_of(plan.name), clock_off_s=plan.clock_off_s
        )
        self.job = None
        self.trainer = None

    def start(self):
        at = self.world.cloud.clock.now() + self.plan.starts_s
        self.world.turns.spawn(self.process, self.live, "main", at=at)

    def live(self):
        world = self.world
        for act in self.plan.acts:
            began_at, error = world.cloud.clock.now(), ""
            try:
                if self.trainer is None:
                    names = self.plan.backends or world.schedule.backends
                    self.trainer = new_trainer(world.cloud, self.process, world.token, names)
                getattr(self, act.name.replace(" ", "_"))(act)
            except NothingToDo:
                continue
            except (GputrainError, KeyboardInterrupt) as told:
                error = f"{type(told).__name__}: {told}"
            except Exception as told:  # noqa: BLE001  # that is what the law forbids
                error = f"{type(told).__name__}: {told}"
                world.truth.violate("errors are ours", f"{act}: {traceback.format_exc()[-1500:]}")
            ended_at = world.cloud.clock.now()
            world.truth.acts.append(
                Act(
                    client=self.plan.name, name=act.name, job_id=world.job_id, began_at=began_at,
                    ended_at=ended_at, error=error,
                )
            )  # fmt: skip
            waits_s = world.schedule.wait_s if act.name in ("submit", "supervise", "watch") else 0.0
            bound_s = BOUNDS_S[act.name] + act.seconds + waits_s + self.set_back_s
            world.truth.waits.append(
                ((ended_at - began_at) / bound_s, f"{act}: {ended_at - began_at:.0f} s of {bound_s:.0f}")
            )
            if ended_at - began_at > bound_s:
                world.truth.violate("no wait beyond its bound", f"{act}: {ended_at - began_at:g} s, {error}")

    @property
    def set_back_s(self):
        """How far its clock is set back in all: it waits for room by that clock."""
        return set_back_s(self.world, self.plan.name)

    def submit(self, _):
        world = self.world
        self.job = self.trainer.submit(**world.spec, idempotency_key=KEY)
        world.uris.append(self.job.uri)

    def attach(self, _):
        if self.world.uris:
            self.told(lambda: self._keep(self.trainer.attach(self.world.uris[-1])))
        else:
            self.jobs(_)

    def _keep(self, job):
        self.job = job
        return job.state

    def watch(self, act):
        if self.job is None:
            self.submit(act)
        self.told(lambda: self.job.wait(timeout=act.seconds, progress="none"))

    def look(self, act):
        if self.job is None:
            self.submit(act)
        self.told(lambda: self.job.refresh() and self.job.state)

    def cancel(self, act):
        if self.job is None:
            self.jobs(act)
        if self.job is None:
            raise NothingToDo
        is_ended = self.world.is_withdrawn
        self.job.cancel()
        if is_ended:  # a list may show what a Ctrl-C has taken back: its key is free, and stays so
            raise NothingToDo

    def jobs(self, _):
        asked_at = self.world.cloud.clock.now()
        for job in self.trainer.jobs():
            self._told(job.id, job.state, asked_at)
            if job.id == self.world.job_id:
                self.job = self.job or job

    def clean_up(self, _):
        self.trainer.clean_up()

    def supervise(self, _):
        self.trainer.supervise()

    def told(self, ask):
        asked_at = self.world.cloud.clock.now()
        state = ask()
        if state is not None:
            self._told(self.job.id, state, asked_at)

    def _told(self, job_id, state, asked_at):
        now = self.world.cloud.clock.now()
        self.world.truth.told.append(
            Told(client=self.plan.name, job_id=job_id, state=state.value, asked_at=asked_at, told_at=now)
        )


def job_id_of(spec):
    """The id that the key gives to a spec."""
    return make_job_id(make_spec(None, spec), KEY)
