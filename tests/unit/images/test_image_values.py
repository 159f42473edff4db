"""What an image is made of, as people write it."""

import io
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


@each(
    "name",
    ["My/Image:1", "a/B", "a:", "a@b", "a//b", "a/-b", "a:b/c:d", ":latest",
     "a:" + "x" * 129, "http://a/b", "a b", "-a", "a\n"],
)  # fmt: skip
def test_what_no_registry_can_hold_is_no_name_of_an_image(name):
    for make in (spec, lambda one: Image(base=one)):
        with pytest.raises(SpecError, match="container image"):
            make(name)


def test_content_names_a_recipe_and_nothing_else_does(context):
    first = recipe(Image(dockerfile=context / "Dockerfile"))
    assert recipe(Image(dockerfile=context / "Dockerfile", builder="podman")).tag == first.tag
    (context / "tool.py").touch()
    assert recipe(Image(dockerfile=context / "Dockerfile")).tag == first.tag
    (context / "tool.py").write_text("print()\n")
    assert recipe(Image(dockerfile=context / "Dockerfile")).tag != first.tag


@each(
    ("text", "ends"),
    [
        ("FROM \\\n  a/b:cuda10.1\n", "-b-cuda10.1"),
        ("ARG B=a/b:cuda10.1\nFROM ${B}\n", "-b-cuda10.1"),
        ("\ufeffFROM a/b:cuda10.1\n", "-b-cuda10.1"),
        ("FROM a:12.8\nRUN echo x \\\n# FROM b:1\n && true\nFROM c:3\n", "-c-3"),
        ("FROM a:1\nFROM $NONE\n", ""),
        ("FROM a:1\r\nFROM b:2\r\n", "-b-2"),
    ],
)
def test_a_tag_names_the_base_of_a_dockerfile(context, text, ends):
    (context / "Dockerfile").write_text(text, encoding="utf-8")
    assert recipe(Image(dockerfile=context / "Dockerfile")).tag[20:] == ends


def names(image):
    with tarfile.open(fileobj=io.BytesIO(recipe(image).archive.data)) as tar:
        return {one.name for one in tar}


def test_a_copy_of_what_stays_behind_is_told_before_a_build(context):
    (context / ".gitignore").write_text("dist/\n*.bin\n")
    for name in ("dist/ours.whl", "data/a.bin", "data/a.txt"):
        (context / name).parent.mkdir(exist_ok=True)
        (context / name).touch()
    travels = [
        "COPY . /app",
        "COPY data /d",
        "COPY --from=one dist/* /d",
        "ADD https://a.b/dist/x /d",
        "COPY none /d",
    ]
    for line in (*travels, "COPY dist/*.whl /tmp/", "add ./dist /d", "COPY data/*.bin data/a.txt /d"):
        (context / "Dockerfile").write_text(f"FROM a:1\n{line}\n")
        if line in travels:
            recipe(Image(dockerfile=context / "Dockerfile"))
            continue
        with pytest.raises(SpecError, match=r"matches none \(\.gitignore: (dist/|\*\.bin)\)"):
            recipe(Image(dockerfile=context / "Dockerfile"))


def test_keys_never_travel_into_an_image(context):
    (context / "key.txt").write_text("token = ghp_" + "a1B2" * 9)
    with pytest.raises(SpecError, match=r"key\.txt"):
        recipe(Image(dockerfile=context / "Dockerfile"))


def test_a_credential_in_what_it_is_made_of_is_refused(tmp_path):
    (tmp_path / "context").mkdir()
    (tmp_path / "Dockerfile").write_text(f"FROM debian\nENV HF_TOKEN=hf_{'aB3' * 12}\n")
    beside = Image(dockerfile=tmp_path / "Dockerfile", context=tmp_path / "context")
    asked = Image(base="debian", requirements=[f"x @ https://ghp_{'aB3' * 12}@github.com/a/b.zip"])
    for image, told in ((beside, "a Hugging Face token"), (asked, "a GitHub token")):
        with pytest.raises(SpecError, match=told) as caught:
            recipe(image)
        assert "aB3" not in str(caught.value)
