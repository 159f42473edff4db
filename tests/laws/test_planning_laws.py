"""Over the whole catalog: what a spec asks for is found with exactly that count, or refused with the counts
that exist; and every wanted shape ends in exactly one of the two lists."""

from hypothesis import example, given, settings, strategies as st

from gputrain import TrainingSpec, catalog
from gputrain.catalog import ProvisioningModel, Service
from gputrain.planning import candidates
from gputrain.planning.candidates import allowed_models
from tests.market import supply

KINDS = [gpu.kind for gpu in catalog.gpus()]
SOLD = sorted({f"{shape.gpu.kind}:{shape.gpu_count}" for shape in catalog.shapes()})
EVERY_MODEL = list(ProvisioningModel)

specs = st.fixed_dictionaries(
    {
        "gpu": st.lists(
            st.sampled_from(SOLD) | st.builds("{}:{}".format, st.sampled_from(KINDS), st.integers(1, 17)),
            min_size=1,
            max_size=3,
        ),
        "num_nodes": st.integers(1, 64),
        "provisioning_model": st.lists(st.sampled_from(EVERY_MODEL), unique=True, max_size=4),
        "max_cost": st.none() | st.floats(0.01, 1e5),
    }
)


@settings(max_examples=60)
@given(fields=specs, service=st.sampled_from(Service))
def test_every_shape_that_was_asked_for_ends_in_exactly_one_of_the_two_lists(fields, service):
    spec = TrainingSpec(script="t.py", reservation="mine", **fields)
    market = supply(service)
    found = candidates(spec, [market])
    kept = {(one.machine_type, one.gpu, one.gpu_count, one.provisioning_model) for one in found.candidates}
    requests, allowed = {str(one) for one in spec.gpu}, set(allowed_models(spec))
    shapes = {
        (offer.machine_type, offer.gpu, offer.gpu_count, model)
        for offer in market.offers
        if f"{offer.gpu}:{offer.gpu_count}" in requests
        for model in (allowed & set(offer.provisioning_models) or (None,))
    }
    refused_requests = sum(1 for refusal in found.refusals if refusal.subject in requests)
    assert kept <= shapes
    assert len(kept) + len(found.refusals) - refused_requests == len(shapes)


@settings(max_examples=60)
@example(fields={"gpu": ["L4:1"], "num_nodes": 4, "max_cost": 5.0}, service=Service.COMPUTE)
@given(fields=specs, service=st.sampled_from(Service))
def test_no_candidate_costs_more_than_max_cost(fields, service):
    spec = TrainingSpec(script="t.py", reservation="mine", **fields)
    found = candidates(spec, [supply(service)])
    for one in found.candidates:
        if fields["max_cost"] is not None:
            assert one.cost_at_most_usd <= fields["max_cost"] * (1 + 1e-9)
        assert one.max_run_duration.total_seconds() > 0
