"""What runs first in a container, run for real: python3 -c LOADER JSON, in an emulated cloud."""

import base64
import contextlib
import json
import os

import pytest

from gputrain.code.bundle import pack
from gputrain.google import Objects
from gputrain.runtime import contract
from gputrain_emulator import faults
from gputrain_emulator.errors import ApiError
from tests import shadows
from tests.unit.code.containers import BUCKET, containers, told
from tests.unit.google.answering import Server


@pytest.fixture
def world():
    with containers() as world:
        yield world


@pytest.fixture
def code(tmp_path):
    (tmp_path / "train.py").write_text("pass")
    return tmp_path


def test_nothing_of_the_users_code_or_of_the_images_folder_stands_before_pythons_own(
    world, code, monkeypatch
):
    shadows.cast(code)
    order = world.stage(code)
    monkeypatch.chdir(code)
    status, output = world.run(order)
    assert status == 0, output
    assert told(output)["argv"] == ["--", "train.py", "--lr", "$(id)"]


def test_code_of_another_hash_is_never_unpacked_or_run(world, code):
    order = {**world.stage(code), "sha256": "0" * 64}
    status, output = world.run(order)
    assert status == 1
    assert "not what was submitted" in output
    assert "agent" not in output


def test_code_that_was_exchanged_under_its_name_is_never_unpacked_or_run(world, code):
    order = world.stage(code)
    (code / "train.py").write_text("print('theirs')")
    other = pack(str(code)).data
    Objects(world.access, BUCKET.name).write(order["object"], other, if_generation=None)
    status, output = world.run(order)
    assert status == 1
    assert "not what was submitted" in output
    assert "agent" not in output


def test_requirements_are_installed_once_and_seen_by_the_ranks(world, code, tmp_path_factory):
    package = tmp_path_factory.mktemp("package")
    (package / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "told-you"\nversion = "1.0"\n'
    )
    (package / "told_you.py").write_text("WORD = 'so'\n")
    agent = b"import told_you; print('agent', '{}', told_you.WORD)"
    order = {**world.stage(code, agent), "requirements": ["--no-build-isolation", "--no-index", str(package)]}
    scratch = str(tmp_path_factory.mktemp("scratch"))
    for _ in range(2):
        status, output = world.run(order, TMPDIR=scratch)
        assert status == 0, output
        assert "agent {} so" in output
    assert (
        len(
            [
                name
                for name in os.listdir(scratch)
                if name.startswith("gputrain-packages-") and not name.endswith(".lock")
            ]
        )
        == 1
    )


def test_requirements_that_cannot_be_installed_say_what_pip_said(world, code, tmp_path):
    order = {**world.stage(code), "requirements": ["--no-index", "no-such-package-at-all"]}
    status, output = world.run(order, TMPDIR=str(tmp_path))
    assert status == contract.BAD_ENVIRONMENT
    assert "no-such-package-at-all" in output


@pytest.fixture
def secrets():
    """Where a secret lies that the test chooses."""

    def answer(_request):
        return 200, json.dumps({"payload": {"data": base64.b64encode(server.value).decode()}}).encode(), {}

    server = Server(answer)
    server.value = b"hunter2"
    yield server
    server.close()


def with_secret(world, code, secrets):
    return {
        **world.stage(code, b"import os; print('agent', len(os.environ['KEY']))"),
        "secretmanager": secrets.url,
        "secrets": {"KEY": "secret://projects/p/secrets/s/versions/3"},
    }


def test_a_secret_is_read_by_its_reference_and_never_written(world, code, secrets):
    status, output = world.run(with_secret(world, code, secrets))
    assert (status, "agent 7" in output, "hunter2" in output) == (0, True, False)
    assert secrets.requests == ["/v1/projects/p/secrets/s/versions/3:access"]
    assert secrets.tokens[0].startswith("Bearer emulator-token")


@pytest.mark.parametrize("value", [b"\xff\xfe\x00key", b"hunter\x002"])
def test_a_secret_that_is_no_text_is_named_and_not_shown(world, code, secrets, value):
    secrets.value = value
    status, output = world.run(with_secret(world, code, secrets))
    assert status == contract.BAD_ENVIRONMENT
    assert "secret://projects/p/secrets/s/versions/3 is no UTF-8 text" in output
    assert "Traceback" not in output
    assert "hunter" not in output


def test_the_metadata_server_is_asked_past_any_proxy(world, code):
    """A proxy would answer with its own machine's token."""
    storage = world.cloud.endpoints.storage.partition("//")[2]
    with contextlib.closing(Server(lambda _: (418, b"", {}))) as proxy:
        env = {"http_proxy": proxy.url, "HTTP_PROXY": proxy.url, "no_proxy": storage, "NO_PROXY": storage}
        status, output = world.run(world.stage(code), CLOUD_ML_JOB_ID="7", **env)
    assert (status, proxy.requests) == (0, []), output


def test_what_may_pass_is_asked_again_and_what_may_not_is_told(world, code):
    order = world.stage(code)
    world.cloud.fail("storage.objects.get", faults.Refuse(error=ApiError(503, "soon", reason="backendError")))
    assert world.run(order)[0] == 0
    world.cloud.fail("storage.objects.get", faults.Refuse(error=ApiError(403, "no", reason="forbidden")))
    status, output = world.run(order)
    assert status == 1
    assert "cannot call" in output
    assert "403" in output
