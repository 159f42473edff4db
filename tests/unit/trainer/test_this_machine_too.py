"""Trainers of this machine and of a cloud: which of their boards decides, and what another's copy is."""

import attrs
import pytest

import gputrain
from gputrain import Local, State, Trainer
from gputrain.errors import RequestError, TransientError
from gputrain.records import FolderBoard, OvertakenError
from gputrain.trainer.boards import Boards
from gputrain.trainer.claim import Claim
from gputrain.trainer.placing import Placing
from tests.unit.records.values import ASK, WAY, record
from tests.unit.trainer.test_claim_alone import Keeper

ORDERS = pytest.mark.parametrize("order", [("local", "compute"), ("compute", "local")])
L4 = {"gpu": "L4:1", "max_run_duration": "1h"}


@pytest.fixture
def machine(backend, cloud, now, tmp_path):
    """Makes trainers of a machine, in some order of its backends; machines share the bucket alone."""

    def build(order=("local", "compute"), name="here"):
        made = {"local": Local(gpus=0, root=tmp_path / name), "compute": backend("compute")}
        return Trainer([made[one] for one in order], now=now, sleep=cloud.clock.advance)

    return build


@ORDERS
def test_a_bucket_decides_wherever_a_backend_has_one_and_the_nearest_board_is_read_first(
    backend, tmp_path, order
):
    made = {"local": Local(gpus=0, root=tmp_path / "here"), "compute": backend("compute")}
    boards = Boards({name: made[name] for name in order})
    folder = made["local"].recorder().board.name
    assert [board.name for board in boards.all()] == ["gs://my-bucket/", folder]
    assert [board.name for board in boards.all(near="local")] == [folder, "gs://my-bucket/"]
    assert [board.name for board in boards.all(near="vertex")] == ["gs://my-bucket/", folder]


@ORDERS
def test_a_key_is_one_job_on_two_machines_that_run_it_themselves(machine, script, order):
    job = machine(order).submit(script, idempotency_key="k")
    with pytest.raises(RequestError, match="in another folder"):
        machine(order, "there").submit(script, idempotency_key="k")
    assert machine(reversed(order)).submit(script, idempotency_key="k") == job
    assert job.wait(timeout=60, progress="none") is State.SUCCEEDED


@ORDERS
def test_two_machines_that_ask_a_cloud_at_once_have_one_job_which_is_nobodys_orphan(
    cloud, machine, script, monkeypatch, order
):
    found, told = Placing._found, []

    def meanwhile(placing):
        answer = found(placing)
        if not told:
            told.append(None)
            told[0] = machine(order, "there").submit(script, **L4, idempotency_key="k")
        return answer

    monkeypatch.setattr(Placing, "_found", meanwhile)
    job = machine(order).submit(script, **L4, idempotency_key="k")
    assert [job] == told
    cloud.clock.advance(1200)
    assert machine(("compute",)).clean_up() == ()
    assert len(cloud.compute.vms) == 1


@ORDERS
def test_a_job_without_a_key_that_runs_here_asks_nothing_of_the_cloud(cloud, machine, script, order):
    trainer = machine(order)
    before = len(cloud.requests)
    job = trainer.submit(script)
    assert job.wait(timeout=60, progress="none") is State.SUCCEEDED
    trainer.attach(job.uri).cancel()
    assert len(cloud.requests) == before


def test_a_job_whose_record_lies_in_the_folder_is_found_by_its_key(cloud, machine, script):
    job = machine(("local",)).submit(script, idempotency_key="k")
    for order in (("local", "compute"), ("compute", "local")):
        assert machine(order).submit(script, idempotency_key="k") == job
    assert not cloud.compute.vms
    job.wait(timeout=60, progress="none")


def test_whoever_has_this_machine_alone_follows_a_job_whose_record_is_in_a_bucket(machine, tmp_path):
    script = tmp_path / "long.py"
    script.write_text("import time; time.sleep(600)\n")
    job = machine().submit(str(script), idempotency_key="k")
    alone = gputrain.attach(job.uri)
    assert not alone.refresh().state.is_terminal
    alone.cancel()
    assert alone.wait(timeout=60, progress="none") is State.CANCELLED
    assert machine().submit(str(script), idempotency_key="k").refresh().state is State.CANCELLED


def test_a_cancel_ends_what_is_here_although_its_record_cannot_be_read(machine, tmp_path, monkeypatch):
    script = tmp_path / "long.py"
    script.write_text("import time; time.sleep(600)\n")
    job = machine().submit(str(script), idempotency_key="k")

    def refusing(_claim):
        raise TransientError("the bucket does not answer")

    with monkeypatch.context() as context:
        context.setattr(Claim, "read", refusing)
        with pytest.raises(TransientError, match="does not answer"):
            job.cancel()
    assert job.wait(timeout=60, progress="none") is State.CANCELLED


def test_an_experiment_whose_record_lies_in_the_folder_goes_on_there(machine, script, tmp_path):
    machine(("local",)).map(script, [{"x": 0}], name="scan").wait(timeout="5m")
    found = machine().experiment("scan").wait(timeout="5m")
    more = machine().map(script, [{"x": 0}, {"x": 1}], name="scan").wait(timeout="5m")
    assert [len(one.jobs) for one in (found, more)] == [1, 2]
    assert len(machine(("local",)).experiment("scan").wait(timeout="5m").jobs) == 2


@pytest.fixture
def home(world):
    return world.board()


@pytest.fixture
def other(world):
    return world.board()


@pytest.fixture
def claim(world):
    """Makes claims of a process whose backends keep records on these boards."""

    def build(*boards, near=""):
        backends = {f"backend-{number}": Keeper(board) for number, board in enumerate(boards)}
        return Claim(Boards(backends), "bert-1", world.now, near=near)

    return build


def asking(backend, nonce="0123456789ab"):
    return attrs.evolve(ASK, at=0.0, nonce=nonce, way=attrs.evolve(WAY, backend=backend))


def placed(mine, home):
    """A claim whose job was refused at home, before it is asked for elsewhere."""
    mine.ask(record(home=home.name, asks=()), asking("backend-0"))
    mine.answer("no room")
    return mine


def test_the_nearest_board_is_home_to_what_nobody_has_written_and_is_read_first(claim, home, other):
    assert (claim(home, other).home, claim(home, other, near="backend-1").home) == (home.name, other.name)
    there = other.write(record(home=other.name))
    home.write(record(home=home.name))
    assert claim(home, other, near="backend-1").read() == there


@pytest.mark.parametrize("is_first", [True, False])
def test_a_copy_whose_home_is_out_of_reach_is_neither_written_over_nor_removed(claim, home, other, is_first):
    copy = other.write(record(home="gs://elsewhere/"))
    mine = claim(home, other)
    if is_first:
        with pytest.raises(OvertakenError):
            mine.ask(record(home=home.name, asks=()), asking("backend-1"))
    else:
        placed(mine, home)
        with pytest.raises(RequestError, match="another job of that key"):
            mine.ask(mine.record, asking("backend-1"))
        mine.drop()
    assert (home.read("bert-1"), other.read("bert-1")) == (None, copy)


def test_a_copy_whose_home_has_it_is_anothers_and_one_whose_home_has_not_is_none(claim, world, home, other):
    third = world.board()
    for there, is_written_over in ((third.write(record(home=third.name)), False), (None, True)):
        copy = other.write(record(home=third.name))
        mine = placed(claim(home, other, third), home)
        if is_written_over:
            mine.ask(mine.record, asking("backend-1"))
            assert other.read("bert-1") == home.read("bert-1")
            continue
        with pytest.raises(RequestError, match="another job of that key"):
            mine.ask(mine.record, asking("backend-1"))
        mine.drop()
        assert (other.read("bert-1"), third.read("bert-1")) == (copy, there)
        other.remove(copy)
        third.remove(there)


@pytest.mark.parametrize("is_ours", [True, False])
def test_a_copy_that_names_a_folder_of_the_same_path_is_ours_where_it_began_with_ours(
    claim, other, tmp_path, is_ours
):
    folder = FolderBoard(tmp_path)
    mine = placed(claim(folder, other), folder)
    began = mine.record.created_at - (not is_ours)
    copy = other.write(attrs.evolve(mine.record, generation=0, created_at=began))
    if is_ours:
        mine.ask(mine.record, asking("backend-1", "ba9876543210"))
        assert other.read("bert-1") == folder.read("bert-1")
        return
    with pytest.raises(RequestError, match="another job of that key"):
        mine.ask(mine.record, asking("backend-1", "ba9876543210"))
    mine.drop()
    assert (folder.read("bert-1"), other.read("bert-1")) == (None, copy)
