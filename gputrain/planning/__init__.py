"""Decides where a spec could run. Pure: no clock, network, randomness, environment or logging."""

from gputrain.planning.attempts import Attempt, Ledger, Outcome
from gputrain.planning.candidates import Candidate, Wanted, candidates
from gputrain.planning.failover import Blocks, Failover
from gputrain.planning.offers import Fact, Limit, Network, Offer, Refusal, Supply, allowed_models
from gputrain.planning.plan import GcloudJob, Plan, rank, weigh
from gputrain.quota import Verdict

__all__ = [
    "Attempt",
    "Blocks",
    "Candidate",
    "Fact",
    "GcloudJob",
    "Failover",
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
