"""Decides where a spec could run. Pure: no clock, network, randomness, environment or logging."""

from gputrain.planning.attempts import Attempt, Ledger, Outcome
from gputrain.planning.candidates import (
    Candidate,
    GcloudJob,
    Wanted,
    candidates,
    few_places,
    is_open,
    rank,
    unknown_gpu,
    unknown_regions,
    weigh,
)  # fmt: skip
from gputrain.planning.failover import Blocks, Failover
from gputrain.planning.offers import Fact, Limit, Network, Offer, Refusal, Supply
from gputrain.quota import Verdict

__all__ = [
    "Attempt", "Blocks", "Candidate", "Fact", "Failover", "GcloudJob", "Ledger", "Limit", "Network", "Offer",
    "Outcome", "Refusal", "Supply", "Verdict", "Wanted", "candidates", "few_places",
    "is_open", "rank", "unknown_gpu", "unknown_regions", "weigh",
]  # fmt: skip
