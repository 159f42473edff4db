import json
import pickle
from datetime import datetime, timezone

import attrs

from gputrain import TrainingSpec, catalog
from gputrain.catalog import Service
from gputrain.planning import Fact, Verdict, candidates, rank
from gputrain.planning.explain import warnings
from gputrain.trainer import Plan
from tests.market import supply

NOW = datetime(2026, 11, 21, tzinfo=timezone.utc)


def plan(**fields):
    spec = TrainingSpec(**{"script": "train.py", **fields})
    wanted = candidates(spec, [supply(Service.COMPUTE)])
    return Plan(spec=spec, candidates=rank(wanted.candidates, {}), refusals=wanted.refusals, made_at=NOW)


def test_places_go_by_verdict_then_advice_then_price():
    spec = TrainingSpec(script="t.py", gpu="L4:2")
    found = candidates(spec, [supply(Service.COMPUTE)])
    short, advised, unknown, cheap = (found.candidates[n] for n in (0, 5, 7, 9))
    facts = {
        short: Fact(verdict=Verdict.SHORT),
        advised: Fact(verdict=Verdict.FITS, obtainability=0.9),
        unknown: Fact(verdict=Verdict.FITS),
        cheap: Fact(verdict=Verdict.FITS, obtainability=0.2),
    }
    ranked = [one.place for one in rank(found.candidates, facts)]
    assert ranked[:3] == [advised.place, unknown.place, cheap.place]
    assert ranked[-1] == short.place


def test_regions_keep_the_users_order_whatever_they_cost():
    for asked in (["us-east4", "us-central1"], ["us-central1", "us-east4"]):
        market = attrs.evolve(supply(Service.COMPUTE), regions=tuple(asked))
        found = candidates(TrainingSpec(script="t.py", gpu="L4:2"), [market])
        places = (catalog.region_of(one.place) for one in rank(found.candidates, {}))
        assert list(dict.fromkeys(one for one in places if one in asked)) == asked


def test_a_plan_says_itself_in_plain_words():
    text = plan(gpu="H100:8", provisioning_model="spot", max_run_duration="2h").explain()
    assert "8 x H100 (a3-highgpu-8g)" in text
    assert "an hour (" in text
    assert "2026-07-30" in text


def test_a_plan_shows_candidates_and_refusals_in_text_and_html():
    shown = plan(gpu=["H100:2", "L4:2"])
    assert "a3-highgpu-2g" in str(shown)
    assert "sold only as &#x27;spot&#x27;" in shown._repr_mimebundle_()["text/html"]


def test_a_plan_is_data_that_travels():
    one = plan(gpu=["H100:2", "L4:2"], provisioning_model="spot")
    assert pickle.loads(pickle.dumps(one)) == one
    assert not [field.name for field in attrs.fields(Plan) if callable(getattr(one, field.name))]
    told = json.loads(json.dumps(one.to_dict()))
    assert [each["place"] for each in told["candidates"]] == [each.place for each in one.candidates]
    assert [each["price_date"] for each in told["candidates"]] == [each.price.date for each in one.candidates]


def test_an_image_that_cannot_run_the_gpu_is_warned_of():
    old = plan(gpu="H100:8", provisioning_model="spot", image="pytorch/pytorch:2.0.0-cuda11.7-cudnn8-runtime")
    assert any("CUDA 11.7 cannot run on H100" in warning for warning in old.warnings)
    assert "CUDA 11.7 cannot run on H100" in str(old)
    new = "pytorch/pytorch:2.9.0-cuda12.8-cudnn9-runtime"
    assert not plan(gpu="H100:8", image=new, output_dir="gs://b/out").warnings


def test_a_gpu_that_is_about_to_go_is_warned_of_and_one_that_is_gone_is_refused_with_its_day():
    assert any("2027-08-01" in warning for warning in plan(gpu="T4:2").warnings)
    assert any("2026-09-15" in refusal.why for refusal in plan(gpu="P100:1").refusals)


def test_a_rented_machine_takes_along_what_the_script_writes_beside_itself():
    assert any("lost with the machine" in warning for warning in plan(gpu="H100:8").warnings)
    for kept in ({"output_dir": "gs://b/out"}, {"checkpoint_dir": "gs://b/ck"}, {"keep_outputs": True}):
        assert not plan(gpu="H100:8", **kept).warnings
    as_it_is = plan(script=None, gpu="H100:8", image="us-docker.pkg.dev/p/r/i")
    assert "keep_outputs" not in str(as_it_is.warnings)


def test_requirements_that_cost_gpu_time_or_contradict_the_image_are_told():
    asked = {"requirements": ["flash_attn>=2", "Torch==2.1", "einops", "jax @ https://host/private.whl"]}
    compiled, stays, heavy = plan(gpu="H100:8", output_dir="gs://b/out", **asked).warnings
    assert compiled.startswith("flash-attn is compiled on every node")
    assert stays.startswith("the image's torch stays")
    assert heavy.startswith("jax brings some gigabytes")
    assert "private" not in heavy  # an address may hold a password


def test_a_backend_of_whose_places_nothing_could_be_read_is_told_once_and_with_its_own_reason():
    sold = plan(gpu="L4:2").candidates[:2]
    notes = ("no permission", "no answer")
    blind = [attrs.evolve(one, fact=Fact(note=note)) for one, note in zip(sold, notes)]
    spec = TrainingSpec(script="t.py", gpu="L4:2", output_dir="gs://b/o")
    (told,) = (one for one in warnings(spec, blind) if "could not read" in one)
    assert told.startswith("compute: could not read quotas (no permission)")
    one_read = [blind[0], attrs.evolve(blind[1], fact=Fact(verdict=Verdict.FITS))]
    assert not [one for one in warnings(spec, one_read) if "could not read" in one]
