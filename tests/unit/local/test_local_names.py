"""Which jobs a folder holds, and by which names they are told and found: no process is started."""

import contextlib
import os
import shutil
import socket
import sys
import threading

import attrs
import pytest

from gputrain.backends.base import JobRef
from gputrain.backends.local import Local, backend, order, render, start, supervisor
from gputrain.backends.local.backend import FolderRecorder
from gputrain.entrypoint import contract
from gputrain.errors import JobLostError, PermissionDeniedError, ProviderError, SpecError, TransientError
from gputrain.keeper import folder
from gputrain.records import WITHDRAWN
from gputrain.spec import TrainingSpec
from tests.each import each
from tests.unit.local.conftest import record_of
from tests.unit.records.values import ASK
from tests.unit.steps import Steps


@pytest.fixture
def root(tmp_path):
    return tmp_path / "jobs"


@pytest.fixture
def keep(root):
    """Leaves a job's folder as one that was made at that time."""

    def write(name, created_at=1.0, mode=0o700, **order):
        root.mkdir(exist_ok=True)
        (root / name).mkdir()
        folder.write_json(str(root / name / folder.ORDER), {"created_at": created_at, "nodes": [], **order})
        (root / name).chmod(mode)

    return write


def test_jobs_are_found_newest_first_by_how_their_names_begin(root, keep):
    for name, at in (("bert-1", 1.0), ("bert-2", 3.0), ("gpt-1", 2.0), ("bert-0", 1.0)):
        keep(name, at)
    keep(".new-1")
    keep("Bert-3")
    keep("open", mode=0o777)
    (root / "empty").mkdir(mode=0o700)
    local = Local(gpus=0, root=root)
    assert [(one.name, one.made_at) for one in local.find()] == [
        ("bert-2", 3.0), ("gpt-1", 2.0), ("bert-1", 1.0), ("bert-0", 1.0),
    ]  # fmt: skip
    assert [one.name for one in local.find(name="bert-")] == ["bert-2", "bert-1", "bert-0"]
    assert Local(gpus=0, root=root / "none").find() == ()


ASKED = {
    "jobs": lambda local: local.find(),
    "records": lambda local: local.recorder().board.entries(),
    "notes": lambda local: local.recorder().board.note("lr-scan"),
}


@each("asked", ASKED)
@each("way", ["a file", "a file above", "a link to itself", "a name that is too long"])
def test_a_folder_that_is_in_no_state_to_be_read_is_told_as_a_submit_tells_it(tmp_path, way, asked):
    (tmp_path / "a file").write_text("in the way")
    (tmp_path / "a link to itself").symlink_to(tmp_path / "a link to itself")
    names = {"a file above": "a file/jobs", "a name that is too long": "a" * 300}
    local = Local(gpus=0, root=tmp_path / names.get(way, way))
    with pytest.raises(PermissionDeniedError, match="cannot be read in") as caught:
        ASKED[asked](local)
    assert "Local(root=...)" in caught.value.fix


@pytest.mark.parametrize("asked", ASKED)
def test_a_folder_that_is_not_there_yet_holds_nothing(tmp_path, asked):
    assert not ASKED[asked](Local(gpus=0, root=tmp_path / "none"))


def test_a_name_tells_of_the_folder_unless_it_is_the_usual_one(root, keep, monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "mine")
    keep("bert-1")
    (ref,) = Local(gpus=0, root=root).find()
    assert (ref.project, ref.place) == ("mine", str(root))
    assert repr(Local.for_ref(ref, gpus=0)) == f"Local(gpus=0, root={str(root)!r})"
    monkeypatch.setenv("GPUTRAIN_HOME", str(root.parent))
    (ref,) = Local(gpus=0).find()
    assert ref.uri == "gputrain://local/bert-1"
    assert Local.for_ref(ref).find() == (ref,)


@pytest.mark.parametrize(
    ("project", "told"), [("", ""), ("mine", ""), ("theirs", "; it was started on theirs, and this is mine")]
)
def test_a_job_that_is_not_here_says_where_it_was_started(root, keep, monkeypatch, project, told):
    monkeypatch.setattr("socket.gethostname", lambda: "mine")
    keep("bert-1")
    for name in ("bert-2", "../jobs/bert-1", "."):
        ref = JobRef(backend="local", project=project, place=str(root), name=name)
        with pytest.raises(JobLostError) as caught:
            Local(gpus=0).observe(ref)
        assert (
            caught.value.why == f"{root / name if name != '.' else f'{root}/.'} is not a job's folder{told}"
        )


@pytest.mark.parametrize(
    ("order", "over", "is_gone"),
    [
        ({"creator": order.creator()}, "", True),
        ({"creator": "another", "ask": ASK.nonce}, WITHDRAWN, True),
        ({"creator": "another", "ask": ASK.nonce}, "", False),
        ({"creator": "another", "ask": "another"}, WITHDRAWN, False),
        ({"creator": "another", "ask": "0"}, WITHDRAWN, False),
    ],
)
def test_what_was_made_for_a_withdrawn_ask_or_by_this_process_goes_and_nothing_else(
    root, keep, order, over, is_gone
):
    keep("bert-1", **order)
    recorder = FolderRecorder(root, JobRef(backend="local", project="", place="", name="job"))
    assert recorder.clear(attrs.evolve(record_of("bert-1"), asks=(ASK,), over=over))
    assert (root / "bert-1").exists() is not is_gone
    assert recorder.clear(attrs.evolve(record_of("bert-2"), asks=(ASK,)))


def test_a_job_whose_processes_have_not_ended_is_not_said_to_be_gone(root, keep, monkeypatch):
    monkeypatch.setattr(start, "GONE_WITHIN_S", 0.05)
    keep("bert-1", creator=order.creator())
    held = folder.take(str(root / "bert-1"))
    recorder = FolderRecorder(root, JobRef(backend="local", project="", place="", name="job"))
    try:
        with pytest.raises(TransientError, match="its processes have not ended yet"):
            recorder.clear(attrs.evolve(record_of("bert-1"), asks=(ASK,)))
    finally:
        os.close(held)


def test_a_job_that_is_being_started_is_waited_for_as_its_maker_may_die(root, keep):
    keep("bert-1")
    held = folder.take(str(root / "bert-1"))
    threading.Timer(0.3, os.close, [held]).start()
    recorder = FolderRecorder(root, JobRef(backend="local", project="", place="", name="job"))
    assert recorder.there(record_of("bert-1")) is None


def test_a_job_whose_maker_died_is_still_there_when_it_cannot_be_started(root, keep, monkeypatch, tmp_path):
    local = Local(gpus=0, root=root)
    request = Steps(local).request(TrainingSpec(command=["true"]), "bert-1")
    keep("bert-1", **request.body)
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(ProviderError, match="supervisor did not start") as caught:
        local.create(request)
    assert caught.value.why == "it said nothing"
    assert [ref.name for ref in local.find()] == ["bert-1"]


def test_where_there_is_no_fork_it_is_refused_by_the_name_of_the_system(monkeypatch):
    monkeypatch.delattr(os, "fork")
    monkeypatch.setattr("platform.system", lambda: "Windows")
    with pytest.raises(SpecError, match="Local does not run on Windows"):
        Local()


def node(address="127.0.0.1", **env):
    return {"address": address, "env": env}


@pytest.mark.parametrize(
    ("names", "given", "interface"),
    [
        (["lo", "eth0"], "lo", "lo"),
        (["lo0", "en0"], "lo", "lo0"),
        (["en0"], "lo", "lo"),
        (["lo0", "en0"], "en0", "en0"),
        (["lo0", "en0"], None, None),
    ],
)
def test_gloo_gets_the_loopback_by_the_name_it_has_here(monkeypatch, names, given, interface):
    monkeypatch.setattr("socket.if_nameindex", lambda: list(enumerate(names, 1)))
    env = {} if given is None else {"GLOO_SOCKET_IFNAME": given}
    assert order._placed(node(**env))["env"].get("GLOO_SOCKET_IFNAME") == interface


def test_a_node_whose_address_this_machine_lacks_gets_the_one_it_has():
    placed = order._placed(node("203.0.113.7"))
    assert (placed["address"], placed["env"][contract.LOCAL_ADDR]) == ("127.0.0.1", "127.0.0.1")
    placed = order._placed(node("127.0.0.1"))
    assert (placed["address"], contract.LOCAL_ADDR in placed["env"]) == ("127.0.0.1", False)


def test_ranks_meet_at_a_port_that_nobody_has():
    with contextlib.ExitStack() as held:
        ports = [supervisor._free_port("127.0.0.1")]
        for _ in range(3):
            held.enter_context(socket.create_server(("127.0.0.1", ports[-1])))
            ports.append(supervisor._free_port("127.0.0.1"))
    assert len(set(ports)) == 4


@pytest.mark.parametrize("words", [[], ["attrs>=1"]])
def test_nothing_is_installed_where_nothing_is_missing(root, tmp_path, words):
    assert order._required(str(root), {"requirements": words, "location": str(tmp_path)}) == []
    assert not root.exists()


def test_what_is_missing_is_told_to_all_jobs_that_want_the_same_in_one_file(root, tmp_path):
    (tmp_path / "needs.txt").write_text("nowhere==1\n")
    body = {"requirements": ["-r", "needs.txt"], "location": str(tmp_path)}
    told = order._required(str(root), body)
    assert told == order._required(str(root), body)
    assert folder.read_json(told[-1])["requirements"] == ["-r", str(tmp_path / "needs.txt")]
    other = order._required(str(root), {**body, "requirements": ["nowhere==1"]})
    assert folder.read_json(other[-1])["requirements"] == ["nowhere==1"]
    assert other[-1] != told[-1]


def test_an_order_is_completed_with_what_only_this_machine_knows(root, tmp_path):
    body = {
        "checkpoint_dir": str(tmp_path / "ckpt"), "output_dir": None, "requirements": [],
        "location": str(tmp_path), "nodes": [node(A="1"), node("203.0.113.7", A="2")],
    }  # fmt: skip
    for _ in range(2):  # the folder is made, and used again by the job that goes on
        whole = order.complete(str(root), body)
    assert (tmp_path / "ckpt").is_dir()
    for one, a in zip(whole["nodes"], "12"):
        assert (one["env"]["A"], one["env"][contract.CHECKPOINT_DIR]) == (a, str(tmp_path / "ckpt"))
        assert contract.OUTPUT_DIR not in one["env"]
    assert whole["nodes"][1]["address"] == "127.0.0.1"
    assert (whole["start"][0], whole["creator"]) == (sys.executable, order.creator())
    assert whole["created_at"] == pytest.approx(folder.now(), abs=30)


def test_addresses_of_two_nodes_differ_in_their_last_number_alone():
    first, second = (render.address("bert-1", rank).rpartition(".") for rank in (0, 6))
    assert (first[0], first[2], second[2]) == (second[0], "1", "7")


def test_the_record_of_a_job_lies_beside_it(root):
    recorder = Local(gpus=0, root=root).recorder()
    assert recorder.board.name.endswith(str(root / backend.RECORDS))
    assert recorder.name_of(record_of("bert-1")).name == "bert-1"
    assert (recorder.code(record_of("bert-1").code), recorder.there(record_of("bert-1"))) == (None, None)
