"""Images built by the emulated Cloud Build: once for the same content, run by their digest."""

import re
import shlex

import attrs
import pytest

from gputrain import Image, PermissionDeniedError, RequestError, SpecError, Trainer, VertexAI
from gputrain.cli import parser
from gputrain.gcp import MissingError
from gputrain.images import ImageHome, home
from gputrain.preflight.google import BUILDS
from gputrain.preflight.project import On
from gputrain_emulator.builds import Builds
from gputrain_emulator.faults import server_error
from tests.each import each

BASE = "us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.2-4.py310:latest"
NAME = re.compile(
    r"us-central1-docker\.pkg\.dev/my-project/gputrain/train:[0-9a-f]{20}-[\w.-]+@sha256:[0-9a-f]{64}"
)


def sent(cloud, since):
    return [one for one in cloud.requests[since:] if "oauth" not in one.path and one.path != "/token"]


def started(cloud):
    return [one for one in cloud.requests if one.verb == "POST" and one.path.endswith("/builds")]


def test_an_image_is_built_once_and_found_with_two_reads(cloud, trainer):
    image, lines = Image(base=BASE, requirements=["einops==0.8.0"]), []
    built = trainer.build(image, told=lines.append, create_repository=True)
    assert NAME.fullmatch(built.reference)
    assert any("RUN python3 -m pip install" in line for line in lines)
    assert lines[-1] == "DONE"
    before = len(cloud.requests)
    assert trainer.build(image).reference == built.reference
    seen = sent(cloud, before)
    assert [one.verb for one in seen] == ["HEAD", "HEAD"]
    assert sum(len(one.body or b"") for one in seen) == 0
    assert len(started(cloud)) == 1


def test_an_image_is_built_again_where_a_base_of_its_dockerfile_was_pushed_anew(cloud, trainer, context):
    base = "us-docker.pkg.dev/my-project/base/torch:latest"
    cloud.add_image(base)
    (context / "Dockerfile").write_text(
        f"ARG BASE={base}\nFROM $BASE AS one\nFROM debian\nCOPY --from=one / /\n"
    )
    image = Image(dockerfile=context / "Dockerfile")
    first = trainer.build(image, create_repository=True)
    before = len(cloud.requests)
    assert trainer.build(image).reference == first.reference
    assert [one.verb for one in sent(cloud, before)] == ["HEAD", "HEAD"]
    cloud.add_image(base, platforms=("linux/amd64", "linux/arm64"))
    assert trainer.build(image).name != first.name
    assert len(started(cloud)) == 2


def test_a_submit_builds_its_image_and_runs_it_by_digest(cloud, trainer, context, script):
    trainer.build(Image(base="a:1"), create_repository=True)
    plan = trainer.plan(script, gpu="L4:1", image=context / "Dockerfile")
    assert any("would be built" in one for one in plan.warnings)
    assert plan.plan.to_dict()["builds"]["dockerfile"] == str(context / "Dockerfile")
    assert len(started(cloud)) == 1
    job = plan.submit()
    assert NAME.fullmatch(job.spec.image)
    digest = job.spec.image.partition("@")[2]
    again = trainer.plan(script, gpu="L4:1", image=context / "Dockerfile")
    assert again.plan.builds is None
    assert f"gputrain/train@{digest}" in str(again.requests)
    job.cancel()


@each(
    ("parts", "typed"),
    [
        ({"dockerfile": "Dockerfile"}, ["Dockerfile", "--context", "."]),
        ({"base": "a:1", "requirements": ["x>=0.8"]}, ["--base", "a:1", "--requirements", "x>=0.8"]),
        ({"dockerfile": "my docker/Dockerfile", "context": ".", "builder": "podman"},
         ["my docker/Dockerfile", "--context", ".", "--builder", "podman"]),
    ],
)  # fmt: skip
def test_the_remedy_for_a_missing_repository_is_a_command_of_the_same_image(backend, parts, typed):
    works = backend.works
    with pytest.raises(MissingError) as caught:
        home.check(works.access, works.home, Image(**parts))
    command = caught.value.fix.partition(", or ")[0]
    read = parser.read(shlex.split(command)[1:])
    assert read.create_repository
    assert shlex.split(command)[3:] == typed
    asked = {name: getattr(read, name) for name in ("base", "dockerfile", "context", "builder")}
    assert Image(**asked, requirements=read.requirements or ()) == Image(**parts)


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


@pytest.mark.parametrize("call", ["list", "get"])
def test_a_build_outlasts_an_outage_of_a_minute(cloud, trainer, call):
    cloud.fail(f"cloudbuild.projects.locations.builds.{call}", server_error(), times=8)
    assert NAME.fullmatch(trainer.build(Image(base="a:1"), create_repository=True).reference)
    assert len(started(cloud)) == 1


def test_a_build_that_lives_already_is_watched(cloud, backend, trainer):
    trainer.build(Image(base="a:1"), create_repository=True)
    image, others = Image(base="a:2"), []

    def other(line):
        if not others:
            others.append(backend.works.build(image, told=lambda _: None).reference)

    mine = trainer.build(image, told=other).reference
    assert others == [mine]
    assert len(started(cloud)) == 2
    assert len(cloud.world.part(Builds).kept) == 2


def test_a_build_of_the_same_for_another_repository_is_another(cloud, backend, trainer):
    other = attrs.evolve(backend.works, home=ImageHome.parse("us-central1-docker.pkg.dev/my-project/other"))
    image, others = Image(base="a:2"), []

    def told(_line):
        if not others:
            others.append(other.build(image, told=lambda _: None, create_repository=True).reference)

    mine = trainer.build(image, told=told, create_repository=True).reference
    assert others[0].partition("@")[0] == mine.partition("@")[0].replace("/gputrain/", "/other/")
    assert len(started(cloud)) == 2


def test_the_next_plan_tells_how_long_a_build_takes(cloud, trainer, script):
    cloud.world.part(Builds).settings.work_s = 600
    trainer.build(Image(base="a:1"), create_repository=True)
    plan = trainer.plan(script, gpu="L4:1", image=Image(base="a:2"))
    assert any("10 min last time" in one for one in plan.warnings)


def test_a_bucket_of_somebody_else_gets_nothing(cloud, trainer):
    cloud.add_project("other-project")
    cloud.storage.buckets.drop("my-bucket")
    cloud.storage.add_bucket("my-bucket", location="us-central1", project="other-project")
    with pytest.raises(PermissionDeniedError) as caught:
        trainer.build(Image(base="a:1"), create_repository=True)
    assert "my-bucket" in str(caught.value)
    assert not started(cloud)


@pytest.mark.parametrize(
    "text", ["", "docker.io/a/b", "us-docker.pkg.dev/p", "us-docker.pkg.dev/p/r/i:1", "x" * 999]
)
def test_other_places_are_no_repositories(text):
    with pytest.raises(ValueError, match="Artifact Registry"):
        ImageHome.parse(text)


def test_an_image_that_is_yet_to_be_built_is_no_fault_of_its_registry(trainer, context, script):
    trainer.build(Image(base="a:1"), create_repository=True)
    checks = trainer.doctor(script, gpu="L4:1", image=context / "Dockerfile")
    (told,) = [one for one in checks if one.subject.endswith("in its registry")]
    assert (told.finding.value, told.fix) == ("ok", "")
    assert [one for one in checks if "would be built" in one.why] == [told]


def test_what_an_image_lacks_that_is_yet_to_be_built_is_told_by_doctor(cloud, trainer, context, script):
    asked = {"gpu": "L4:1", "image": context / "Dockerfile"}
    (told,) = trainer.doctor(script, **asked).faults
    assert told.subject == "repository gputrain"
    assert "gputrain build --create-repository" in told.fix
    for api in ("cloudbuild", "artifactregistry"):
        cloud.enable_api(api, enabled=False)
    off = {f"{api}.googleapis.com" for api in ("cloudbuild", "artifactregistry")}
    assert {one.subject for one in trainer.doctor(script, **asked).faults} == off
    by_hand = Image(dockerfile=context / "Dockerfile", builder="podman")
    assert len(trainer.doctor(script, gpu="L4:1", image=by_hand).faults) == 1
    assert trainer.doctor(script, gpu="L4:1").is_ok


NEEDED = [one.permission for one in BUILDS if one.on is On.PROJECT and not one.only_with]


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
