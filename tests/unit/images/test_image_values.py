"""What an image is made of, as people write it."""

import re

import pytest

from gputrain import Image, SpecError, TrainingSpec
from gputrain.images.recipe import recipe


def spec(image):
    return TrainingSpec(script="train.py", gpu="L4:1", image=image)


@pytest.mark.parametrize(
    ("parts", "field"),
    [
        ({}, "base"),
        ({"base": "a:1", "dockerfile": "Dockerfile"}, "base"),
        ({"base": "a b"}, "base"),
        ({"base": "a:1\nRUN evil"}, "base"),
        ({"base": "a:1", "requirements": ["--index-url=http://evil"]}, "requirements"),
        ({"base": "a:1", "requirements": ["x\nRUN evil"]}, "requirements"),
        ({"base": "a:1", "requirements": "einops"}, "requirements"),
        ({"base": "a:1", "context": "."}, "context"),
        ({"dockerfile": "Dockerfile", "requirements": ["einops"]}, "requirements"),
        ({"dockerfile": ""}, "dockerfile"),
        ({"base": "a:1", "builder": "kaniko"}, "builder"),
    ],
)
def test_what_makes_no_image_is_refused_by_its_field(parts, field):
    with pytest.raises(SpecError) as caught:
        Image(**parts)
    assert field in {one.field for one in caught.value.faults}


def test_a_spec_takes_an_image_its_parts_or_a_path_of_a_dockerfile(tmp_path):
    image = Image(dockerfile="docker/Dockerfile.gpu")
    for said in (image, image.to_dict(), "docker/Dockerfile.gpu", tmp_path / "x" / "Dockerfile"):
        assert isinstance(spec(said).image, Image)
    assert spec("us-docker.pkg.dev/p/r/i:1").image == "us-docker.pkg.dev/p/r/i:1"
    again = TrainingSpec.from_dict(spec(image).to_dict())
    assert again.image == image


def test_faults_of_an_image_are_among_those_of_its_spec():
    with pytest.raises(SpecError) as caught:
        TrainingSpec(script="train.py", num_nodes=0, image={"base": "a b", "bilder": "docker"})
    assert {one.field for one in caught.value.faults} == {"num_nodes", "base", "bilder"}


def test_content_names_a_recipe_and_nothing_else_does(context):
    first = recipe(Image(dockerfile=context / "Dockerfile"))
    assert recipe(Image(dockerfile=context / "Dockerfile", builder="podman")).tag == first.tag
    (context / "tool.py").touch()
    assert recipe(Image(dockerfile=context / "Dockerfile")).tag == first.tag
    (context / "tool.py").write_text("print()\n")
    assert recipe(Image(dockerfile=context / "Dockerfile")).tag != first.tag


def test_a_tag_tells_the_cuda_of_the_last_stage(context):
    (context / "Dockerfile").write_text(
        "FROM --platform=linux/amd64 nvidia/cuda:12.8.1-runtime AS run\nFROM gcc:14 AS make\nfrom run\n"
    )
    assert recipe(Image(dockerfile=context / "Dockerfile")).tag.endswith("-cuda-12.8.1-runtime")


def test_a_tag_is_one_whatever_a_dockerfile_is_made_from(context):
    (context / "Dockerfile").write_text("FROM b\u00e4se/\u4e2d:${\u00fc}-1\n", encoding="utf-8")
    tag = recipe(Image(dockerfile=context / "Dockerfile")).tag
    assert re.fullmatch(r"[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}", tag)


def test_keys_never_travel_into_an_image(context):
    (context / "key.txt").write_text("token = ghp_" + "a1B2" * 9)
    with pytest.raises(SpecError, match=r"key\.txt"):
        recipe(Image(dockerfile=context / "Dockerfile"))


@pytest.mark.parametrize("lost", ["Dockerfile", "folder"])
def test_what_is_not_there_is_named(tmp_path, lost):
    image = Image(dockerfile=tmp_path / "Dockerfile", context=tmp_path / "nowhere")
    if lost == "folder":
        (tmp_path / "Dockerfile").write_text("FROM a:1\n")
    with pytest.raises(SpecError, match="cannot be built"):
        recipe(image)


def test_a_credential_in_what_it_is_made_of_is_refused(tmp_path):
    (tmp_path / "context").mkdir()
    (tmp_path / "Dockerfile").write_text(f"FROM debian\nENV HF_TOKEN=hf_{'aB3' * 12}\n")
    beside = Image(dockerfile=tmp_path / "Dockerfile", context=tmp_path / "context")
    asked = Image(base="debian", requirements=[f"x @ https://ghp_{'aB3' * 12}@github.com/a/b.zip"])
    for image, told in ((beside, "a Hugging Face token"), (asked, "a GitHub token")):
        with pytest.raises(SpecError, match=told) as caught:
            recipe(image)
        assert "aB3" not in str(caught.value)
