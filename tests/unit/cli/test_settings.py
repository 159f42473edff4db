"""Where a command runs, and what it says when something is wrong."""

import pytest

from gputrain import errors
from gputrain.backends.base import JobRef
from gputrain.cli import main
from gputrain.cli.parser import read as parse
from gputrain.cli.screen import Exit
from gputrain.cli.settings import read as settings
from gputrain.errors import SpecError
from tests import present
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
PLACES = ("plan", "train.py")


def of(*words, **environ):
    return settings(parse([*PLACES, *words]), environ)


def test_this_machine_is_where_things_run_unless_said():
    assert of().backends == ("local",)
    assert [backend.name for backend in of().make()] == ["local"]


def test_flags_win_over_the_environment_and_that_over_the_file(folder):
    (folder / "gputrain.toml").write_text(FILE)
    assert of().shared["project"] == "file-project"
    assert of(GPUTRAIN_PROJECT="their-project").shared["project"] == "their-project"
    assert of("--project", "my-project", GPUTRAIN_PROJECT="their-project").shared["project"] == "my-project"
    assert of("--region", "a", "--region", "b").shared["regions"] == ["a", "b"]
    assert of(GPUTRAIN_REGIONS="a, b").shared["regions"] == ["a", "b"]
    assert of(GPUTRAIN_BACKENDS="local").backends == ("local",)


@pytest.mark.parametrize("backend", ["compute", "vertex"])
def test_a_job_of_another_project_than_the_files_is_followed_by_its_name(folder, backend):
    present.backend(backend)
    (folder / "gputrain.toml").write_text(FILE)
    place = {"compute": "us-central1-a~file-bucket", "vertex": "us-central1"}[backend]
    for project in ("file-project", "their-project"):
        ref = JobRef(backend=backend, project=project, place=place, name="bert-1")
        made = of(GOOGLE_APPLICATION_CREDENTIALS="").backend_of(ref)
        assert f"project={project!r}" in repr(made)


def test_the_sections_of_the_file_reach_their_backend(folder):
    (folder / "gputrain.toml").write_text(FILE)
    vertex, compute = of().make()
    assert repr(vertex) == "VertexAI(project='file-project', regions=['us-central1'])"
    assert (compute._settings.network, compute._settings.disk_gib) == ("training", 300)


def test_googles_own_variable_names_the_project_last():
    assert of(GOOGLE_CLOUD_PROJECT="theirs").shared["project"] == "theirs"
    assert of(GOOGLE_CLOUD_PROJECT="theirs", GPUTRAIN_PROJECT="mine").shared["project"] == "mine"


@each(
    ("text", "said"),
    [
        ("projct = 'x'", "did you mean 'project'?"),
        ("[compute]\nservice_acount = 'x'", "did you mean 'service_account'?"),
        ("compute = 3", "compute=3: a section. Fix: [compute] on a line of its own"),
        ("[[compute]]\nnetwork = 'x'", "a section. Fix: [compute] on a line of its own"),
        ("[compute]\nnetwrok = 'x'", "did you mean 'network'?"),
        ("[compute]\ncredentials = 'x'", "compute.credentials"),
        ("regions = 'us-central1'", 'regions = ["us-central1"]'),
        ("backends = ['computer']", "did you mean compute?"),
        ("backends = [", "is not TOML"),
        ("backends = [7]", "backends=[7]: a list of names"),
        ("project = 7", "project=7: a project's id"),
        ("bucket = ['gs://b']", "bucket=['gs://b']: gs://bucket"),
        ("endpoint = 8080", "endpoint=8080: the address of an emulator"),
        ("projct = 'x'\nendpoint = 8080", "has 2 faults"),
    ],
)
def test_a_slip_in_the_file_is_told_with_its_place(folder, text, said):
    (folder / "gputrain.toml").write_text(text)
    with pytest.raises(SpecError) as caught:
        of().make()
    assert said in str(caught.value)


def test_what_a_backend_lacks_is_told_in_the_words_of_the_command_line(run):
    status, _, err = run("plan", "train.py", "--backend", "compute")
    assert status == 2
    for argument, flag in (("project", "--project"), ("regions", "--region"), ("bucket", "--bucket")):
        assert f"{flag}: needed. Fix: {flag}, " in err
        assert f"{flag}, GPUTRAIN_{argument.upper()} or {argument} = ... in gputrain.toml" in err


def test_a_variable_that_names_no_folder_is_not_told_as_a_key_of_the_file(run, monkeypatch):
    monkeypatch.setenv("GPUTRAIN_HOME", "~nosuch/x")
    status, _, err = run("jobs")
    assert status == Exit.REQUEST
    assert "Fix: set GPUTRAIN_HOME to the path of a folder" in err
    assert "[local]" not in err


def test_a_slip_in_the_file_is_told_in_the_words_of_the_file(run, folder):
    (folder / "gputrain.toml").write_text("[compute]\nservice_acount = 'x'\n")
    assert "did you mean 'service_account'?" in run("plan", "train.py")[2]


def test_a_region_is_said_where_its_lack_is_told(run, script, folder):
    script()
    words = ("plan", "train.py", "--gpu", "L4:1", "--backend", "vertex", "--project", "my-project")
    words = (*words, "--endpoint", "http://127.0.0.1:9")
    status, _, err = run(*words)
    assert (status, "region = ... under [vertex] in gputrain.toml" in err) == (2, True)
    (folder / "gputrain.toml").write_text("[vertex]\nregion = 'us-central1'\n")
    assert repr(settings(parse([*words]), {}).make()[0]).startswith(
        "VertexAI(project='my-project', regions=['us-central1'])"
    )


def test_an_argument_of_one_backend_alone_is_said_in_its_section(run, folder):
    (folder / "gputrain.toml").write_text(FILE + "python = 'python3'\n")
    status, _, err = run("plan", "train.py")
    assert status == 2
    assert "python = ... under [compute] in gputrain.toml" in err


def test_a_backend_is_handed_what_it_takes_and_nothing_else(folder):
    (folder / "gputrain.toml").write_text(FILE)
    (local,) = of("--backend", "local").make()
    assert local.name == "local"


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


@each(
    ("words", "status", "said"),
    [
        (("gpus", "RTX 4090"), 2, "not sold on Google Cloud"),
        (("gpus", "H100:many"), 2, "not a count"),
        (("plan",), 2, "one of SCRIPT, -m MODULE"),
        (("plan", "train.py", "--env", "X"), 2, "NAME=VALUE"),
        (("plan", "train.py", "--max-run-duration", "soon"), 2, "--max-run-duration soon"),
        (("logs", "gputrain://nothing"), 2, "gputrain://backend/project/place/name"),
        (("logs", "gputrain://mars/p/x/y"), 2, "mars"),
        (("cancel", "nobody"), 2, "no job is called 'nobody'"),
        (("logs", "gputrain://local/host/nowhere/job"), 1, "there is no job"),
    ],
)
def test_errors_are_told_without_a_traceback(run, words, status, said):
    found, out, err = run(*words)
    assert (found, out) == (status, "")
    assert err.startswith("error: ")
    assert said in err
    assert "Traceback" not in err


def test_an_error_as_json_is_a_document_of_its_own(read):
    status, document = read("plan", "train.py", "--gpu", "H101:2")
    assert status == 2
    error = document["error"]
    assert error["type"] == "UnknownGpuError"
    assert [fault["field"] for fault in error["faults"]] == ["gpu"]


def test_debug_raises_with_the_traceback():
    with pytest.raises(SpecError):
        main(["gpus", "RTX 4090", "--debug"])


def test_an_api_that_is_off_exits_3(cloud, run):
    cloud.enable_api("compute", enabled=False)
    status, _, err = run("clean-up")
    assert status == 3
    assert """fix: curl --data '{"api":"compute"}' $GPUTRAIN_ENDPOINT/_emulator/enable_api""" in err


def test_no_room_anywhere_exits_4(cloud, run, script):
    script()
    for zone in "abcf":
        cloud.stock(f"us-central1-{zone}", "g2-standard-24", 0)
    status, _, err = run(
        "submit", "train.py", "--gpu", "L4:2", "--detach", "--machine-type", "g2-standard-24"
    )
    assert status == 4
    assert "no room" in err


def test_no_credentials_for_any_backend_is_no_access_and_not_no_room(run, script, monkeypatch, tmp_path):
    script()
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "gone.json"))
    both = ("--backend", "vertex", "--backend", "compute", "--project", "my-project")
    where = ("--region", "us-central1", "--bucket", "gs://my-bucket")
    status, _, err = run("submit", "train.py", "--gpu", "L4:2", *both, *where)
    assert status == 3
    assert err.count("DefaultCredentialsError") == 2  # what follows is cut where the folder's name is long
    assert "allow more" not in err


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
