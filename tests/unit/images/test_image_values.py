"""What an image is made of, as people write it."""

import io
import os
import re
import tarfile

import pytest

from gputrain import Image, SpecError, TrainingSpec
from gputrain.images.recipe import recipe
from tests.each import each


def spec(image):
    return TrainingSpec(script="train.py", gpu="L4:1", image=image)


@each(
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


@pytest.mark.parametrize(
    "name", ["Containerfile", "docker/gpu.Dockerfile", "Dockerfile-12.8", "a/Containerfile.gpu"]
)
def test_what_is_called_as_a_dockerfile_is_one(name):
    assert spec(name).image == Image(dockerfile=name)


@each(
    "name",
    ["My/Image:1", "a/B", "a:", "a@b", "a//b", "a/-b", "a:b/c:d", ":latest",
     "a:" + "x" * 129, "http://a/b", "a b", "-a", "a\n"],
)  # fmt: skip
def test_what_no_registry_can_hold_is_no_name_of_an_image(name):
    for make in (spec, lambda one: Image(base=one)):
        with pytest.raises(SpecError, match="container image"):
            make(name)


@each(
    "name",
    ["debian", "a/b_c/d--e.f:V1.2_x-y", "localhost:5000/a", "GHCR.io/a/b", "us-docker.pkg.dev/p/r/i:1",
     "gcr.io/example.com/p/i@sha256:" + "0a" * 32, "a:1@sha256:" + "0" * 64],
)  # fmt: skip
def test_what_a_registry_can_hold_is_a_name_of_an_image(name):
    assert spec(name).image == name
    assert Image(base=name).base == name


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


@each(
    ("text", "ends"),
    [
        ("FROM \\\n  a/b:cuda10.1\n", "-b-cuda10.1"),
        ("ARG B=a/b:cuda10.1\nFROM $B\n", "-b-cuda10.1"),
        ("ARG A=10.1 V=cuda${A}\nFROM a/b:${V:-x} AS one\nfrom ONE\n", "-b-cuda10.1"),
        ("\ufeffFROM a/b:cuda10.1\n", "-b-cuda10.1"),
        ("# escape=`\nFROM a/b`\n:cuda10.1\nRUN dir C:\\\nRUN x\n", "-b-cuda10.1"),
        ("FROM a:12.8\nRUN printf 'SELECT \\\nFROM b:cuda10.1'\n", "-a-12.8"),
        ("FROM a:12.8\nRUN cat <<-'END' > q.sql\nSELECT a\nFROM b:cuda10.1\n\tEND\n", "-a-12.8"),
        ("FROM a:12.8\nCOPY <<A <<B /to/\nFROM x:1\nA\nFROM x:2\nB\nFROM c:3\n", "-c-3"),
        ("FROM a:12.8\nRUN echo $((1 <<2)) <<<word\nFROM c:3\n", "-c-3"),
        ("FROM a:12.8\nRUN echo '<<END' \\\n# FROM b:1\n\n && true\nFROM c:3\n", "-c-3"),
        ("FROM a:${NONE}1\n", "-a-1"),
        ("FROM a:1\nFROM $NONE\n", ""),
        ("FROM a:1\r\nFROM b:2\r\n", "-b-2"),
        ("FROM a:1\nRUN x\x0cFROM b:2\n", "-a-1"),
        ("FROM a:1 \\\n# the end\n", "-a-1"),
    ],
)
def test_a_dockerfile_is_read_by_its_instructions(context, text, ends):
    (context / "Dockerfile").write_text(text, encoding="utf-8")
    assert recipe(Image(dockerfile=context / "Dockerfile")).tag[20:] == ends


def test_what_a_base_means_today_names_what_is_made_of_it(context):
    (context / "Dockerfile").write_text(
        "ARG V=1\nFROM a.pkg.dev/p/r/x:$V AS one\nFROM b:2\nCOPY --from=one / /\n"
    )
    image = Image(dockerfile=context / "Dockerfile")
    asked = []

    def pin(digest):
        return lambda base: asked.append(base) or (f"x@{digest}" if "pkg.dev" in base else base)

    tags = [recipe(image).tag, *(recipe(image, pin(digest)).tag for digest in ("1", "2", "2"))]
    assert len(set(tags)) == 3
    assert tags[2] == tags[3]
    assert asked == ["a.pkg.dev/p/r/x:1", "b:2"] * 3


def names(image):
    with tarfile.open(fileobj=io.BytesIO(recipe(image).archive.data)) as tar:
        return {one.name for one in tar}


def test_what_dockerignore_names_is_not_sent_and_names_nothing(context):
    image = Image(dockerfile=context / "Dockerfile")
    (context / ".dockerignore").write_text("run.log\ndata\n!data/vocab.txt\nlink\n")
    (context / "data").mkdir()
    (context / "data" / "vocab.txt").write_text("a\n")
    before = recipe(image).tag
    (context / "run.log").write_text("1\n")
    (context / "data" / "weights.bin").write_text("1\n")
    (context / "link").symlink_to("/etc/passwd")
    assert recipe(image).tag == before
    assert names(image) == {
        ".dockerignore", "Dockerfile", "tool.py", "data/vocab.txt", "gputrain.Dockerfile"
    }  # fmt: skip
    (context / "data" / "vocab.txt").write_text("b\n")
    assert recipe(image).tag != before


def test_one_for_a_single_dockerfile_counts_instead_of_the_folder_s(context):
    (context / ".dockerignore").write_text("tool.py\n")
    (context / "gpu.Dockerfile").write_text("FROM a:1\n")
    (context / "gpu.Dockerfile.dockerignore").write_text("*.dockerignore\n")
    image = Image(dockerfile=context / "gpu.Dockerfile")
    assert "tool.py" in names(image)
    with tarfile.open(fileobj=io.BytesIO(recipe(image).archive.data)) as tar:
        assert tar.extractfile(".dockerignore").read() == b"*.dockerignore\n"
    assert "tool.py" not in names(Image(dockerfile=context / "Dockerfile"))


def test_an_ignore_file_that_cannot_be_read_is_a_fault_of_its_folder(context):
    (context / ".dockerignore").write_text("[\n")
    with pytest.raises(SpecError, match=r"\.dockerignore: \[ is no pattern") as caught:
        recipe(Image(dockerfile=context / "Dockerfile"))
    assert [one.field for one in caught.value.faults] == ["context"]


def test_a_dockerfile_that_is_no_file_is_refused_and_not_waited_for(context):
    os.mkfifo(context / "pipe.Dockerfile")
    with pytest.raises(SpecError, match="it is no file"):
        recipe(Image(dockerfile=context / "pipe.Dockerfile"))


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
