"""What runs first in a container, run for real: python3 -c LOADER JSON, in an emulated cloud."""

import base64
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import threading
import urllib.request
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import gputrain_emulator
from gputrain.backends.vertex.render import loader
from gputrain.entrypoint import contract, zipapp
from gputrain.gcp import Access, Objects
from gputrain.gcp.buckets import BucketPrefix
from gputrain.gcp.uploads import upload
from gputrain.keeper import cloud
from gputrain.staging.archive import pack
from gputrain_emulator import faults
from gputrain_emulator.errors import ApiError
from gputrain_emulator.metadata import Account, Metadata, MetadataServer
from gputrain_emulator.storage import Storage
from tests import shadows

EMAIL = "train@my-project.iam.gserviceaccount.com"
BUCKET = BucketPrefix(name="my-bucket")
AGENT = b"""
import json, os, sys
print("agent", json.dumps({"argv": sys.argv[1:], "cwd": sorted(os.listdir(".")), "env": dict(os.environ)}))
"""


@pytest.fixture
def world():
    with gputrain_emulator.start() as cloud:
        cloud.world.part(Storage).add_bucket("my-bucket", location="us-central1")
        caller = cloud.world.callers.add(EMAIL)
        account = Account(
            email=EMAIL, scopes=("x",), mint=lambda _: (cloud.world.callers.issue(caller), 3600)
        )
        server = MetadataServer(
            Metadata(read=lambda: {"instance": {}, "project": {}}, accounts={EMAIL: account})
        )
        access = Access(project="my-project", credentials=cloud.credentials, endpoints=cloud.endpoints)
        yield World(cloud, server, access)
        server.close()


class World:
    """A bucket, an identity, and containers that start in a folder of their own."""

    def __init__(self, cloud, server, access):
        self.cloud, self.server, self.access = cloud, server, access

    def stage(self, folder, agent=AGENT):
        buffer = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(zipapp.build())) as whole, zipfile.ZipFile(buffer, "w") as made:
            for name in whole.namelist():
                made.writestr(name, agent if name == "__main__.py" else whole.read(name))
        archive = pack(str(folder), made={".gputrain/agent.pyz": buffer.getvalue()})
        return self.put(archive.data)

    def put(self, data):
        sha = hashlib.sha256(data).hexdigest()
        name = f"code/{sha}.tar.gz"
        upload(self.access, BUCKET, name, data)
        return {
            "storage": self.cloud.endpoints.storage, "secretmanager": "http://127.0.0.1:1",
            "bucket": "my-bucket", "object": name, "sha256": sha,
            "argv": ["train.py", "--lr", "$(id)"],
        }  # fmt: skip

    def run(self, order, **env):
        done = subprocess.run(
            [sys.executable, "-c", loader(), json.dumps(order)],
            env={**os.environ, "GCE_METADATA_HOST": self.server.host, **env},
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def code(tmp_path):
    (tmp_path / "train.py").write_text("pass")
    return tmp_path


def told(output):
    return json.loads(next(line for line in output.splitlines() if line.startswith("agent "))[6:])


def test_the_agent_starts_in_the_unpacked_code_with_the_users_words_as_they_are(world, code):
    status, output = world.run(world.stage(code))
    assert status == 0, output
    assert told(output)["argv"] == ["--", "train.py", "--lr", "$(id)"]
    assert told(output)["cwd"] == [".gputrain", "train.py"]


def test_nothing_of_the_users_code_or_of_the_images_folder_stands_before_pythons_own(
    world, code, monkeypatch
):
    shadows.cast(code)
    order = world.stage(code)
    monkeypatch.chdir(code)
    status, output = world.run(order)
    assert status == 0, output
    assert told(output)["argv"] == ["--", "train.py", "--lr", "$(id)"]


@pytest.mark.parametrize(("passes", "told"), [("", True), ("127.0.0.1", False)])
def test_a_proxy_that_does_not_answer_is_named_and_its_password_is_not(monkeypatch, passes, told):
    proxy = urllib.request.ProxyHandler({"https": "http://me:hunter2@127.0.0.1:9"})
    monkeypatch.setattr(cloud, "OPENER", urllib.request.build_opener(proxy, cloud.Stay))
    monkeypatch.setattr(cloud, "PAUSES_S", (0,))
    monkeypatch.setattr(cloud, "access_token", lambda: "token")
    monkeypatch.setenv("no_proxy", passes)
    with pytest.raises(cloud.CallFailed, match="refused") as error:
        cloud.Bucket("https://127.0.0.1:9", "b").get("o")
    assert ("by way of the proxy that HTTPS_PROXY names" in str(error.value)) is told
    assert "hunter2" not in str(error.value)


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


@pytest.mark.parametrize("name", ["/etc/evil", "../evil", "a/../../evil", "./a", "a//b"])
def test_a_hostile_path_is_not_unpacked(world, name):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        entry = tarfile.TarInfo("x")
        entry.name, entry.size = name, 1
        tar.addfile(entry, io.BytesIO(b"x"))
    status, output = world.run(world.put(buffer.getvalue()))
    assert status == 1
    assert "no plain file below its root" in output


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices_are_not_unpacked(world, kind):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        entry = tarfile.TarInfo("link")
        entry.type, entry.linkname = kind, "/etc/passwd"
        tar.addfile(entry)
    status, output = world.run(world.put(buffer.getvalue()))
    assert status == 1
    assert "no plain file" in output


def test_the_first_job_takes_the_lock_and_its_restart_goes_on(world, code):
    order = {**world.stage(code), "lock": "jobs/a-1/lock"}
    for restarts in (b"0", b"1", b"2"):
        status, output = world.run(order, CLOUD_ML_JOB_ID="7")
        assert (status, "agent" in output) == (0, True), output
        assert held(world).split()[:2] == [b"7", restarts]


def held(world):
    return Objects(world.access, BUCKET.name).read("jobs/a-1/lock").content


def idle(world):
    return [one.name for one in Objects(world.access, BUCKET.name).list("jobs/a-1/lock-idle-").seen]


def test_a_lock_that_was_taken_though_the_answer_was_lost_is_no_restart(world, code):
    order = {**world.stage(code), "lock": "jobs/a-1/lock"}
    world.cloud.fail("storage.objects.insert", faults.DropAfterCommit())
    status, output = world.run(order, CLOUD_ML_JOB_ID="7")
    assert (status, "agent" in output) == (0, True), output
    assert "started again" not in output
    assert held(world).split()[:2] == [b"7", b"0"]


def test_a_restart_that_may_not_be_noted_goes_on(world, code):
    order = {**world.stage(code), "lock": "jobs/a-1/lock"}
    world.run(order, CLOUD_ML_JOB_ID="7")
    taken = ApiError(412, "At least one of the pre-conditions did not hold.", reason="conditionNotMet")
    refused = ApiError(403, "no storage.objects.delete access", reason="forbidden")
    for error in (taken, refused):
        world.cloud.fail("storage.objects.insert", faults.Refuse(error=error))
    status, output = world.run(order, CLOUD_ML_JOB_ID="7")
    assert (status, "agent" in output) == (0, True), output


def test_the_second_job_of_a_key_does_nothing_and_ends_well(world, code):
    order = {**world.stage(code), "lock": "jobs/a-1/lock"}
    world.run(order, CLOUD_ML_JOB_ID="7")
    status, output = world.run(order, CLOUD_ML_JOB_ID="8")
    assert status == 0
    assert "superseded: job 7" in output
    assert "agent" not in output
    assert idle(world) == ["jobs/a-1/lock-idle-8"]


def test_a_job_whose_lock_a_cancel_has_taken_does_nothing_and_ends_well(world, code):
    order = {**world.stage(code), "lock": "jobs/a-1/lock"}
    Objects(world.access, BUCKET.name).write("jobs/a-1/lock", b"cancelled", if_generation=0)
    status, output = world.run(order, CLOUD_ML_JOB_ID="7")
    assert status == 0
    assert "cancelled before it began" in output
    assert "agent" not in output
    assert idle(world) == ["jobs/a-1/lock-idle-7"]


def test_a_job_that_has_nothing_to_do_says_nothing_of_it_where_that_is_refused_and_ends_well(world, code):
    order = {**world.stage(code), "lock": "jobs/a-1/lock"}
    Objects(world.access, BUCKET.name).write("jobs/a-1/lock", b"cancelled", if_generation=0)
    for error in (
        ApiError(412, "At least one of the pre-conditions did not hold.", reason="conditionNotMet"),
        ApiError(403, "no storage.objects.create access", reason="forbidden"),
    ):
        world.cloud.fail("storage.objects.insert", faults.Refuse(error=error))
    status, output = world.run(order, CLOUD_ML_JOB_ID="7")
    assert (status, "cancelled before it began" in output) == (0, True), output


def test_only_node_0_asks_for_the_lock(world, code):
    order = {**world.stage(code), "lock": "jobs/a-1/lock"}
    worker = json.dumps({"cluster": {}, "task": {"type": "workerpool1", "index": 0}})
    status, output = world.run(order, CLOUD_ML_JOB_ID="7", CLUSTER_SPEC=worker)
    assert (status, "agent" in output) == (0, True)
    assert Objects(world.access, BUCKET.name).read("jobs/a-1/lock") is None


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
    """Where a secret lies that the test chooses, and who asked for it."""

    class Secrets(BaseHTTPRequestHandler):
        def do_GET(self):
            server.asked.append(
                (self.path, self.headers["Authorization"].startswith("Bearer emulator-token"))
            )
            body = json.dumps({"payload": {"data": base64.b64encode(server.value).decode()}}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Secrets)
    server.value, server.asked = b"hunter2", []
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def with_secret(world, code, secrets):
    return {
        **world.stage(code, b"import os; print('agent', len(os.environ['KEY']))"),
        "secretmanager": f"http://127.0.0.1:{secrets.server_port}",
        "secrets": {"KEY": "secret://projects/p/secrets/s/versions/3"},
    }


def test_a_secret_is_read_by_its_reference_and_never_written(world, code, secrets):
    status, output = world.run(with_secret(world, code, secrets))
    assert (status, "agent 7" in output, "hunter2" in output) == (0, True, False)
    assert secrets.asked == [("/v1/projects/p/secrets/s/versions/3:access", True)]


@pytest.mark.parametrize("value", [b"\xff\xfe\x00key", b"hunter\x002"])
def test_a_secret_that_is_no_text_is_named_and_not_shown(world, code, secrets, value):
    secrets.value = value
    status, output = world.run(with_secret(world, code, secrets))
    assert status == contract.BAD_ENVIRONMENT
    assert "secret://projects/p/secrets/s/versions/3 is no UTF-8 text" in output
    assert "Traceback" not in output
    assert "hunter" not in output


CLUSTER = {"workerpool0": ["a:2222"], "workerpool1": ["b:2222"]}


def replica(kind):
    return json.dumps({"cluster": CLUSTER, "task": {"type": kind, "index": 0}})


def test_the_replicas_of_a_job_share_a_secret_that_node_0_made(world, code):
    order = {**world.stage(code), "lock": "jobs/a-1/lock"}
    seen = []
    for kind, number in (("workerpool0", "7"), ("workerpool1", "7"), ("workerpool0", "7")):
        status, output = world.run(order, CLOUD_ML_JOB_ID=number, CLUSTER_SPEC=replica(kind))
        assert status == 0, output
        seen.append(told(output)["env"]["GPUTRAIN_TOKEN"])
    assert len(set(seen)) == 1
    assert len(seen[0]) == 64
    assert Objects(world.access, BUCKET.name).read("jobs/a-1/lock-token").content.decode() == seen[0]


def test_a_replica_whose_node_0_never_comes_ends_when_the_time_to_join_is_over(world, code):
    order = {**world.stage(code), "lock": "jobs/a-1/lock"}
    status, output = world.run(order, CLUSTER_SPEC=replica("workerpool1"), GPUTRAIN_JOIN_TIMEOUT="0")
    assert status == contract.NODE_LOST
    assert "node 0 made no secret" in output


def test_a_replica_alone_needs_no_secret(world, code):
    status, output = world.run({**world.stage(code), "lock": "jobs/a-1/lock"}, CLOUD_ML_JOB_ID="7")
    assert status == 0
    assert "GPUTRAIN_TOKEN" not in told(output)["env"]


def test_the_metadata_server_is_asked_past_any_proxy(world, code):
    """A proxy would answer with its own machine's token."""
    asked = []

    class Proxy(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_error(418)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    proxy = f"http://127.0.0.1:{server.server_port}"
    storage = world.cloud.endpoints.storage.partition("//")[2]
    env = {"http_proxy": proxy, "HTTP_PROXY": proxy, "no_proxy": storage, "NO_PROXY": storage}
    try:
        order = {**world.stage(code), "lock": "jobs/a-1/lock"}
        status, output = world.run(order, CLOUD_ML_JOB_ID="7", **env)
    finally:
        server.shutdown()
        server.server_close()
    assert (status, asked) == (0, []), output


def test_what_may_pass_is_asked_again_and_what_may_not_is_told(world, code):
    order = world.stage(code)
    world.cloud.fail("storage.objects.get", faults.Refuse(error=ApiError(503, "soon", reason="backendError")))
    assert world.run(order)[0] == 0
    world.cloud.fail("storage.objects.get", faults.Refuse(error=ApiError(403, "no", reason="forbidden")))
    status, output = world.run(order)
    assert status == 1
    assert "cannot call" in output
    assert "403" in output
