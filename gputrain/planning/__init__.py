"""Decides where a spec could run. Pure: no clock, network, randomness, environment or logging."""

from gputrain.planning.attempts import Attempt, Ledger, Outcome
from gputrain.planning.candidates import Candidate, Wanted, candidates
from gputrain.planning.ladder import Blocks, Ladder
from gputrain.planning.offers import Fact, Refusal, allowed_models
from gputrain.planning.plan import GcloudJob, Plan, rank, weigh
from gputrain.planning.supply import Limit, Network, Offer, Supply
from gputrain.quota import Verdict

__all__ = [
    "Attempt",
    "Blocks",
    "Candidate",
    "Fact",
    "GcloudJob",
    "Ladder",
    "Ledger",
    "Limit",
    "Network",
    "Offer",
    "Outcome",
    "Plan",
    "Refusal",
    "Supply",
    "Verdict",
    "Wanted",
    "allowed_models",
    "candidates",
    "rank",
    "weigh",
]
