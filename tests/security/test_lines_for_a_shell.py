"""A line that somebody pastes into a shell runs what it says, whoever wrote the names in it."""

import shlex

import pytest
import yaml
from hypothesis import given, settings, strategies as st

from gputrain import ComputeEngine, TrainingSpec, VertexAI
from gputrain.backends.vertex.request import to_gcloud
from gputrain.errors import SpecError
from tests.each import each

EVIL = (
    "a;touch x", "$(id)", "`id`", "a|b", "a&b", "a'b", 'a"b', "a>b", "a\nb", "--x", "a b", "a\\b", "a*", "~",
    "a{b,c}",
    "!a", "#a", "a\u202eb", "", "a\x00b", "-v/:/host",
)  # fmt: skip
CLOUD = {"project": "my-project", "regions": ["us-central1"], "bucket": "gs://my-bucket"}
SHAPED = {
    "bucket": "gs://{}", "service_account": "{}@p.iam.gserviceaccount.com", "python": "/{}",
    "boot_image": "projects/p/global/images/{}", "image_family": "p/{}", "network": "{}",
    "kms_key": "projects/p/locations/us-central1/keyRings/r/cryptoKeys/{}",
    "tensorboard": "projects/p/locations/us-central1/tensorboards/{}",
}  # fmt: skip


@each("evil", EVIL)
@each(
    ("backend", "field"),
    [(ComputeEngine, one) for one in (
        "project", "bucket", "network", "subnetwork", "service_account", "boot_image", "image_family",
        "python",
        "placement_policy")]
    + [(VertexAI, one) for one in ("project", "bucket", "network", "service_account", "kms_key",
                                    "tensorboard")],
)  # fmt: skip
def test_a_setting_is_a_name_and_nothing_else(backend, field, evil):
    with pytest.raises(SpecError):
        backend(**{**CLOUD, field: SHAPED.get(field, "{}").format(evil)})


@each("evil", EVIL)
@each("field", ["image", "machine_type", "reservation", "name"])
def test_a_name_in_a_spec_is_a_name_and_nothing_else(field, evil):
    with pytest.raises(SpecError):
        TrainingSpec(script="train.py", **{field: evil})


@each(
    "image",
    ["python", "pytorch-gpu.2-4.py310", "us-docker.pkg.dev/p/r/i:v1", "localhost:5000/i@sha256:" + "a" * 64,
     "us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.2-4.py310:latest", "ghcr.io/Org/img_x:1.0-cu124"],
)  # fmt: skip
def test_an_image_is_named_as_engines_name_it(image):
    assert TrainingSpec(script="train.py", image=image).image == image


TEXTS = st.text(st.characters(blacklist_categories=("Cs",)), max_size=30)


@settings(max_examples=150)
@given(st.lists(TEXTS, max_size=4), st.dictionaries(st.sampled_from(["A", "B"]), TEXTS))
def test_a_file_for_gcloud_says_every_letter_and_its_command_no_more(words, env):
    container = {"imageUri": "i", "command": words, "env": [{"name": k, "value": v} for k, v in env.items()]}
    job = {
        "displayName": "n",
        "labels": {"a": "b"},
        "jobSpec": {"workerPoolSpecs": [{"containerSpec": container}]},
    }
    made = to_gcloud({"parent": "projects/p/locations/us-central1", "customJob": job})
    assert yaml.safe_load(made.config) == {"workerPoolSpecs": [{"containerSpec": container}]}
    assert shlex.split(shlex.join(made.command)) == list(made.command)
