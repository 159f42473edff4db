"""Decides where a spec could run. Pure: no clock, network, randomness, environment or logging."""

from gputrain.planning.candidates import Candidate, Refusal, Wanted, allowed_models, candidates
from gputrain.planning.offers import Fact, Limit, Offer, Supply
from gputrain.planning.plan import Plan, rank
from gputrain.quota import Verdict

__all__ = [
    "Candidate",
    "Fact",
    "Limit",
    "Offer",
    "Plan",
    "Refusal",
    "Supply",
    "Verdict",
    "Wanted",
    "allowed_models",
    "candidates",
    "rank",
]
