"""Where a command runs, and what it says when something is wrong."""

import pytest

from gputrain import errors
from gputrain.cli import main
from gputrain.cli.output import Exit
from gputrain.errors import SpecError
from tests.each import each

FILE = """
backends = ["vertex", "compute"]
project = "file-project"
regions = ["us-central1"]
bucket = "gs://file-bucket"

[compute]
network = "training"
disk_gib = 300
"""


def test_flags_win_over_the_environment_and_that_over_the_file(settings, folder, monkeypatch):
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "googles-project")
    assert settings().shared["project"] == "googles-project"
    (folder / "gputrain.toml").write_text(FILE)
    assert settings().shared["project"] == "file-project"
    monkeypatch.setenv("GPUTRAIN_PROJECT", "their-project")
    assert settings().shared["project"] == "their-project"
    assert settings("--project", "my-project").shared["project"] == "my-project"
    assert settings("--region", "a", "--region", "b").shared["regions"] == ("a", "b")
    monkeypatch.setenv("GPUTRAIN_REGIONS", "a, b")
    assert settings().shared["regions"] == ("a", "b")
    monkeypatch.setenv("GPUTRAIN_BACKENDS", "local")
    assert settings().backends == ("local",)


def test_the_sections_of_the_file_reach_their_backend(settings, folder):
    (folder / "gputrain.toml").write_text(FILE)
    vertex, compute = settings().make()
    assert repr(vertex) == "VertexAI(project='file-project', regions=['us-central1'])"
    assert (compute._settings.network, compute._settings.disk_gib) == ("training", 300)
    assert settings("--backend", "local").make()[0].name == "local"  # which takes none of it


@each(
    ("text", "said"),
    [
        ("projct = 'x'", "did you mean project?"),
        (
            "[compute]\nservice_acount = 'x'",
            "[compute] service_acount: no such key; did you mean service_account?",
        ),
        ("compute = 3", "compute: expected a section: [compute] on a line of its own"),
        ("[compute]\ncredentials = 'x'", "[compute] credentials: no such key"),
        ("regions = 'us-central1'", 'regions = ["..."]'),
        ("backends = ['computer']", "did you mean compute?"),
        ("backends = [", "gputrain.toml cannot be read"),
        ("projct = 'x'\nendpoint = 8080", "endpoint: expected a text"),
    ],
)
def test_a_mistake_in_the_file_is_named(settings, folder, text, said):
    (folder / "gputrain.toml").write_text(text)
    with pytest.raises(SpecError) as caught:
        settings().make()
    assert said in str(caught.value)


def test_what_a_backend_lacks_is_named_with_where_to_give_it(run):
    status, _, err = run("submit", "train.py", "--backend", "compute")
    assert status == 2
    for argument, flag in (("project", "--project"), ("regions", "--region"), ("bucket", "--bucket")):
        assert f"{flag}, $GPUTRAIN_{argument.upper()}, or {argument} = ... in gputrain.toml" in err


@pytest.mark.parametrize(
    "url",
    ["http://example.com", "https://127.0.0.1:1", "http://127.0.0.1.example.com", "127.0.0.1:18080", "x"],
)
def test_an_endpoint_that_is_not_of_this_machine_is_refused(run, url):
    words = ("doctor", "--backend", "vertex", "--project", "my-project", "--region", "us-central1")
    status, _, err = run(*words, "--endpoint", url)
    assert status == 2
    assert "an emulator on this machine" in err


def test_no_token_of_the_user_goes_to_an_endpoint(cloud, run, folder, monkeypatch):
    key = folder / "key.json"
    key.write_text(
        '{"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "mine"}'
    )
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key))
    assert run("doctor")[0] == 0
    assert {seen.caller for seen in cloud.requests} == {"anonymous"}


def test_a_uri_of_a_backend_that_is_not_set_up_is_taken_up_all_the_same(
    cloud, run, read, monkeypatch, script
):
    script()
    _, job = read("submit", "train.py", "--gpu", "L4:1", "--detach")
    for name in ("BACKENDS", "REGIONS", "BUCKET"):
        monkeypatch.delenv(f"GPUTRAIN_{name}")
    status, cancelled = read("cancel", job["uri"])
    assert (status, cancelled["uri"]) == (0, job["uri"])


def test_debug_raises_with_the_traceback():
    with pytest.raises(SpecError):
        main(["gpus", "RTX 4090", "--debug"])


@each(
    ("error", "status"),
    [
        (errors.SpecError("w"), 2), (errors.NoFitError("w"), 2), (errors.AuthError("w"), 3),
        (errors.QuotaExceededError("w"), 3), (errors.CapacityError("w"), 4),
        (errors.NoPlacementError("w"), 4), (errors.TransientError("w"), 5),
        (errors.JobFailedError("w"), 1), (errors.JobLostError("w"), 1), (errors.ProviderError("w"), 6),
    ],
)  # fmt: skip
def test_each_remedy_has_its_exit_status(error, status):
    assert Exit.of(error) == status
