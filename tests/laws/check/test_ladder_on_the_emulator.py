"""The ladder against the emulated Compute Engine: no more creates than somebody needs who goes by hand."""

import random
import secrets

import attrs

import gputrain_emulator
from gputrain import ComputeEngine, GputrainError, NoPlacementError, QuotaExceededError, Trainer, TrainingSpec
from gputrain.backends.base import Start
from gputrain.planning import Fact
from tests.laws.capacity_maps import oracle

MACHINE = "g2-standard-24"
REGIONS = [
    "us-central1",
    "us-east1",
    "us-east4",
    "europe-west4",
    "asia-southeast1",
    "us-west1",
    "us-west4",
    "europe-west1",
]
BULK = "compute.instances.bulkInsert"


class Market:
    """A cloud of its own, whose stock and quotas are as drawn; the same twice for the same seed."""

    def __init__(self, cloud, spec):
        cloud.add_bucket("my-bucket", location=REGIONS[0])
        times = cloud.compute.settings
        times.provision_s = times.staging_s = times.rollback_s = times.delete_s = 0.5
        self.cloud = cloud
        self.backend = ComputeEngine(
            "my-project", regions=REGIONS, bucket="gs://my-bucket", endpoints=cloud.endpoints,
            credentials=cloud.credentials, sleep=cloud.clock.advance, now=cloud.clock.now,
        )  # fmt: skip
        self.spec = spec
        self.plan = Trainer(self.backend, sleep=cloud.clock.advance).plan(spec)

    def refusal(self, one):
        """One create, as somebody would send it by hand."""
        job_id = "by-hand"
        there = next(known for known in self.plan.candidates if attrs.evolve(known, fact=Fact()) == one)
        bundle, nonce = self.backend.stage(self.spec, job_id), secrets.token_hex(6)
        start = Start(spec=self.spec, candidate=there, job_id=job_id, bundle=bundle, nonce=nonce)
        try:
            self.backend.create(self.backend.complete(self.backend.render(start)))
        except GputrainError as error:
            return error
        return None

    @property
    def creates(self):
        return sum(seen.method == BULK for seen in self.cloud.requests)


def both(spec, arrange):
    """The creates of a submit, those of somebody who goes by hand, and where the job came to be."""
    with gputrain_emulator.start() as cloud, gputrain_emulator.start() as twin:
        ours, by_hand = Market(cloud, spec), Market(twin, spec)
        for market in (ours, by_hand):
            arrange(market.cloud, [one.place for one in market.plan.candidates])
        try:
            place = ours.plan.submit().candidate.place
        except (NoPlacementError, QuotaExceededError):
            place = None
        _, found = oracle(by_hand, by_hand.plan.candidates)
        assert found == (place is not None)
        return ours.creates, by_hand.creates, place


def test_one_free_zone_of_twenty_in_five_regions_is_found_as_soon_as_by_hand():
    free = "us-west1-b"

    def arrange(cloud, zones):
        assert len(zones) >= 20
        assert len({zone[:-2] for zone in zones}) >= 5
        for zone in zones:
            if zone != free:
                cloud.stock(zone, MACHINE, 0)

    creates, by_hand, place = both(TrainingSpec(script="examples/train_plain_ddp.py", gpu="L4:2"), arrange)
    assert place == free
    assert creates <= by_hand


def test_stock_and_quotas_at_random_cost_no_more_creates_than_by_hand():
    def arrange(cloud, zones):
        dice = random.Random(3)
        for zone in zones:
            if dice.random() < 0.85:
                cloud.stock(zone, MACHINE, 0)
        for region in REGIONS:
            if dice.random() < 0.4:
                cloud.quota("NVIDIA_L4_GPUS", dice.choice([0, 1]), region=region)
        if dice.random() < 0.3:
            cloud.quota("GPUS_ALL_REGIONS", 0)

    creates, by_hand, _ = both(TrainingSpec(script="examples/train_plain_ddp.py", gpu="L4:2"), arrange)
    assert creates <= by_hand
