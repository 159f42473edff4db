"""Images built by the emulated Cloud Build: once for the same content, run by their digest."""

import re

import pytest

from gputrain import Image, PermissionDeniedError, RequestError, SpecError, Trainer, VertexAI
from gputrain.doctor.google import On, needs
from gputrain.google import MissingError

BASE = "us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.2-4.py310:latest"
NAME = re.compile(
    r"us-central1-docker\.pkg\.dev/my-project/gputrain/train:[0-9a-f]{20}-[\w.-]+@sha256:[0-9a-f]{64}"
)


def sent(cloud, since):
    return [one for one in cloud.requests[since:] if "oauth" not in one.path and one.path != "/token"]


def started(cloud):
    return [one for one in cloud.requests if one.verb == "POST" and one.path.endswith("/builds")]


def test_an_image_is_built_once_and_found_with_one_read(cloud, trainer):
    image, lines = Image(base=BASE, requirements=["einops==0.8.0"]), []
    built = trainer.build(image, on_line=lines.append, create_repository=True)
    assert NAME.fullmatch(built.reference)
    assert any("RUN python3 -m pip install" in line for line in lines)
    assert lines[-1] == "DONE"
    before = len(cloud.requests)
    assert trainer.build(image).reference == built.reference
    seen = sent(cloud, before)
    assert [one.verb for one in seen] == ["HEAD"]
    assert sum(len(one.body or b"") for one in seen) == 0
    assert len(started(cloud)) == 1


def test_a_build_has_buildkit(cloud, trainer):
    trainer.build(Image(base="a:1"), create_repository=True)
    assert b'"env": ["DOCKER_BUILDKIT=1"]' in started(cloud)[0].body


def test_a_submit_builds_its_image_and_runs_it_by_digest(cloud, trainer, context, script):
    trainer.build(Image(base="a:1"), create_repository=True)
    plan = trainer.plan(script, gpu="L4:1", image=context / "Dockerfile")
    assert any("would be built" in one for one in plan.warnings)
    assert plan.to_dict()["builds"]["dockerfile"] == str(context / "Dockerfile")
    assert len(started(cloud)) == 1
    job = plan.submit()
    assert NAME.fullmatch(job.spec.image)
    digest = job.spec.image.partition("@")[2]
    again = trainer.plan(script, gpu="L4:1", image=context / "Dockerfile")
    assert again.builds is None
    assert f"gputrain/train@{digest}" in str(again.requests)
    job.cancel()


def test_no_repository_is_made_without_being_asked_for(cloud, trainer):
    with pytest.raises(MissingError, match="gputrain build --create-repository --base a:1, or"):
        trainer.build(Image(base="a:1"))
    assert not started(cloud)


def test_a_failed_build_ends_with_its_log_and_no_job(cloud, trainer, context, script):
    trainer.build(Image(base="a:1"), create_repository=True)
    (context / "Dockerfile").write_text("FROM nvidia/cuda:12.8.1-runtime\nCOPY missing.txt /\n")
    with pytest.raises(RequestError, match=r"file not found in build context: missing\.txt"):
        trainer.submit(script, gpu="L4:1", image=context / "Dockerfile")
    assert not trainer.jobs()


def test_what_no_gpu_can_run_is_refused_before_it_is_built(cloud, trainer, context, script):
    (context / "Dockerfile").write_text("FROM nvidia/cuda:11.8.0-runtime\n")
    with pytest.raises(SpecError, match=r"CUDA 11\.8"):
        trainer.submit(script, gpu="B200:8", provisioning_model="spot", image=context / "Dockerfile")
    assert not started(cloud)


NEEDED = [one.name for one in needs("builds") if one.on is On.PROJECT and not one.only_with]


@pytest.mark.parametrize("missing", ["", *(one for one in NEEDED if "Artifacts" not in one)])
def test_a_build_needs_what_the_page_of_permissions_says(cloud, context, missing):
    """Whoever may pull is asked by the registry itself, which the emulator leaves open."""
    where = {"regions": ["us-central1"], "bucket": "gs://my-bucket", "endpoints": cloud.endpoints}
    clock = {"sleep": cloud.clock.advance, "now": cloud.clock.now}
    owner = VertexAI("my-project", **where, **clock, credentials=cloud.credentials)
    Trainer(owner).build(Image(base="a:1"), create_repository=True)
    objects = {f"storage.objects.{verb}" for verb in ("create", "get", "delete")}
    on_bucket = {*objects, "storage.buckets.list"}
    caller = cloud.caller("me@example.com", {*NEEDED, *on_bucket} - {missing})
    trainer = Trainer(VertexAI("my-project", **where, **clock, credentials=cloud.credentials_of(caller)))
    if not missing:
        assert trainer.build(context / "Dockerfile", create_repository=True).digest  # which is there
    else:
        with pytest.raises(PermissionDeniedError, match=missing):
            trainer.build(context / "Dockerfile")
