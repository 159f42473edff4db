"""Several processes with one key and several backends: one of them places the job, the others find it."""

import threading
import time
from datetime import timedelta

import attrs
import pytest

import gputrain_emulator
from gputrain import ComputeEngine, Local, State, Trainer, TrainingSpec, VertexAI
from gputrain.errors import RequestError, StoppedError
from gputrain.gcp import Access, Objects
from gputrain.gcp.buckets import BucketPrefix
from gputrain.records import CANCELLED, WITHDRAWN, Ask, BucketBoard, Code, OvertakenError, Record, Way
from gputrain.spec.entry import make_job_id
from gputrain.trainer.boards import Boards
from gputrain.trainer.claim import TURN_S, Claim
from gputrain.trainer.placing import Placing
from tests.unit.trainer.conftest import L4, MACHINE, VERTEX_L4, creates


@pytest.fixture
def board(cloud):
    access = Access(
        project="my-project", credentials=cloud.credentials, endpoints=cloud.endpoints,
        now=cloud.clock.now, sleep=cloud.clock.advance,
    )  # fmt: skip
    return BucketBoard(access, BucketPrefix.parse("gs://my-bucket"))


@pytest.fixture
def asked(board, script):
    """Writes down that another process has asked Compute Engine, and never says what came of it."""
    job_id = make_job_id(TrainingSpec(script=script), "k")
    way = Way(
        backend="compute", place="us-central1-a", region="us-central1", gpu="L4", gpu_count="2",
        machine_type=MACHINE, model="standard",
    )  # fmt: skip
    ask = Ask(way=way, attempt=0, names=(f"{job_id}-0-0",), nonce="0123456789ab")
    spec = TrainingSpec(script=script, **L4).to_dict()
    record = Record(job_id=job_id, home=board.name, spec=spec, code=Code(location="", argv=("train.py",)))
    return lambda: board.write(record.asked(ask))


def test_of_two_who_read_the_same_record_one_writes(board, asked):
    record = asked()
    board.write(attrs.evolve(record, over="cancelled"))
    with pytest.raises(OvertakenError):
        board.write(record)


def test_a_record_is_young_for_so_long_after_it_was_read_and_a_date_that_was_set_back_says_nothing(
    cloud, backend, now, asked
):
    record = asked()
    claim = Claim(Boards({"compute": backend("compute")}), record.job_id, now)
    assert not claim.is_younger(record, 30)  # nothing was read yet
    claim.read()
    ages = []
    for seconds in (0, 29, 2, -60):
        cloud.clock.shift(seconds) if seconds < 0 else cloud.clock.advance(seconds)
        ages.append(claim.is_younger(record, 30))
    assert ages == [True, True, False, False]


def test_an_ask_bears_the_time_of_cloud_storage_and_an_age(cloud, board, asked):
    record = asked()
    cloud.clock.advance(100)
    again = board.read(record.job_id)
    assert again.last.at == record.last.at == pytest.approx(cloud.clock.now() - 100, abs=2)
    assert again.age_s == pytest.approx(100, abs=2)


def test_who_comes_while_another_is_at_it_waits_and_finds_the_job(cloud, trainer, board, asked):
    record, made = asked(), []

    def sleep(seconds):
        if not made:  # the other one's answer comes: it was refused there, and goes on elsewhere
            board.remove(board.read(record.job_id))
            made.append(trainer("compute").submit(record.spec["script"], **L4, idempotency_key="k"))
        cloud.clock.advance(seconds)

    job = trainer(sleep=sleep).submit(record.spec["script"], **L4, idempotency_key="k")
    assert job.uri == made[0].uri
    assert not cloud.vertex.jobs


def test_who_is_at_it_for_long_and_says_so_is_not_taken_over(cloud, trainer, board, asked):
    record, made, begun = asked(), [], cloud.clock.now()

    def sleep(seconds):
        there = board.read(record.job_id)
        if not made and cloud.clock.now() - begun < 2 * TURN_S:
            board.write(there)
        elif not made:
            board.remove(there)
            made.append(trainer("compute").submit(record.spec["script"], **L4, idempotency_key="k"))
        cloud.clock.advance(seconds)

    job = trainer(sleep=sleep).submit(record.spec["script"], **L4, idempotency_key="k")
    assert job.uri == made[0].uri
    assert not cloud.vertex.jobs


def test_an_ask_of_vms_whose_asker_died_is_asked_again_as_it_was(cloud, trainer, asked, script):
    nonce, begun = asked().last.nonce, cloud.clock.now()
    job = trainer().submit(script, **L4, idempotency_key="k")
    assert job.ref.backend == "compute"
    assert [vm.resource["labels"]["gputrain-gang"] for vm in cloud.compute.vms.values()] == [nonce]
    assert cloud.clock.now() - begun < 40


def test_an_ask_that_would_be_another_one_now_is_cleared_once_its_turn_is_over(cloud, trainer, board, asked):
    record, begun = asked(), cloud.clock.now()
    last = attrs.evolve(record.last, names=("other-0-0", "other-0-1"))
    board.write(attrs.evolve(record, asks=(last,)))
    job = trainer().submit(record.spec["script"], **L4, idempotency_key="k")
    assert job.ref.backend == "vertex"
    assert TURN_S <= cloud.clock.now() - begun < TURN_S + 60


def test_two_who_ask_for_the_same_vms_at_once_have_one_gang(cloud, trainer, script):
    """The first one is slow, and alive: the second one asks with it."""
    others = []

    def sleep(seconds):
        if creates(cloud) and not others:
            others.append(None)
            cloud.clock.advance(30)
            others.append(trainer("compute").submit(script, **L4, idempotency_key="k"))
        cloud.clock.advance(seconds)

    job = trainer("compute", sleep=sleep).submit(script, **L4, idempotency_key="k")
    assert job.uri == others[1].uri
    cloud.clock.advance(600)
    assert len(cloud.compute.vms) == 1
    assert job.refresh().state.value in ("provisioning", "running")


def test_a_service_whose_clock_stands_keeps_nobody_waiting_for_ever(board, asked, backend, now):
    record, own = asked(), [0.0]
    claim = Claim(Boards({"compute": backend("compute")}), record.job_id, now, lambda: own[0])
    assert claim.read().age_s < 2
    own[0] = 500.0
    assert claim.read().age_s == pytest.approx(500)
    board.write(attrs.evolve(board.read(record.job_id), used_s=1))
    assert claim.read().age_s < 2  # somebody is at it


def test_an_ask_in_doubt_grows_old_for_who_comes_back_to_it_though_the_clock_stands(
    cloud, asked, trainer, script
):
    record, own, mine = asked(), [0.0], trainer("compute")
    around = attrs.evolve(mine._road._around, monotonic=lambda: own[0], waits_for_others=False)
    plan = mine.plan(script, **L4).plan
    with pytest.raises(StoppedError) as caught:
        Placing(around, plan, record.job_id).submit(is_new=False)
    assert caught.value.uri.endswith(record.job_id)
    own[0] = TURN_S + 1
    assert Placing(around, plan, record.job_id).submit(is_new=False).ref.name == record.job_id
    assert len(cloud.compute.vms) == 1
    assert around.memory.put_off == {}


@pytest.mark.parametrize("skew_s", [-86_400.0, 86_400.0])
def test_the_clock_of_who_died_keeps_nobody_waiting(cloud, trainer, now, script, skew_s):
    def die(_seconds):
        raise SystemExit

    clock = {"now": lambda: now() + timedelta(seconds=skew_s), "sleep": die}
    with pytest.raises(SystemExit):
        trainer("compute", **clock).submit(script, **L4, idempotency_key="k")
    for vm in list(cloud.compute.vms.values()):
        cloud.compute.vms.pop((vm.project, vm.zone, vm.name), None)
    begun = cloud.clock.now()
    trainer().submit(script, **L4, idempotency_key="k")
    assert cloud.clock.now() - begun < TURN_S + 60


def test_who_is_overtaken_in_a_long_create_lets_go_of_what_it_made(cloud, trainer, script):
    others = []

    def sleep(seconds):
        if creates(cloud) and not others:
            others.append(None)
            cloud.clock.advance(TURN_S + 1)
            others.append(trainer("compute", "vertex").submit(script, **L4, idempotency_key="k"))
        cloud.clock.advance(seconds)

    job = trainer("compute", "vertex", sleep=sleep).submit(script, **L4, idempotency_key="k")
    assert job.uri == others[1].uri
    cloud.clock.advance(60)
    assert len(cloud.compute.vms) + len(cloud.vertex.jobs) == 1


def test_who_slept_before_a_create_takes_up_what_another_made_meanwhile(cloud, trainer, board, now, script):
    others, job_id = [], make_job_id(TrainingSpec(script=script), "k")

    class Slept(ComputeEngine):
        def create(self, request):
            if not others:
                there = board.read(job_id)  # of names that nobody repeats: the other one asks anew
                board.write(attrs.evolve(there, asks=(attrs.evolve(there.last, names=("other-0-0",)),)))
                cloud.clock.advance(TURN_S + 1)
                others.append(trainer("compute").submit(script, **L4, idempotency_key="k"))
            return super().create(request)

    slept = Slept(
        "my-project", bucket="gs://my-bucket", regions=["us-central1"], endpoints=cloud.endpoints,
        credentials=cloud.credentials, sleep=cloud.clock.advance, now=lambda: now().timestamp(),
    )  # fmt: skip
    job = Trainer(slept, now=now, sleep=cloud.clock.advance).submit(script, **L4, idempotency_key="k")
    assert job.uri == others[0].uri
    assert len(cloud.compute.vms) == 1


@pytest.mark.parametrize("later_s", [0, TURN_S + 1, 3600 * 24])
def test_a_cancel_of_what_never_began_holds_for_whoever_has_its_key(cloud, trainer, asked, script, later_s):
    asked()
    cloud.clock.advance(later_s)
    for job in trainer("compute").jobs():
        job.cancel()
    cloud.clock.advance(60)
    again = trainer("compute").submit(script, **L4, idempotency_key="k")
    again.refresh()
    assert (again.state, len(cloud.compute.vms)) == (State.CANCELLED, 0)


@pytest.mark.parametrize("is_cleared", [False, True])
def test_a_job_that_was_taken_back_too_late_stays_as_it_ended_whoever_cancels_it(
    cloud, trainer, board, script, is_cleared
):
    job = trainer("vertex").submit(script, **L4, idempotency_key="k")
    record = board.write(attrs.evolve(board.read(job.id).answered(""), over=WITHDRAWN))
    cloud.clock.advance(7200)
    number = cloud.vertex.jobs[next(iter(cloud.vertex.jobs))].id
    locks = Objects(board._access, "my-bucket")
    locks.write(f"jobs/{job.id}/lock", str(number).encode(), if_generation=0)  # as each writes that trains
    if is_cleared:
        assert job._backend.recorder().clear(record)
    trainer("vertex").attach(job.uri).cancel()
    cloud.clock.advance(60)
    assert trainer("vertex").attach(job.uri).refresh().state is State.SUCCEEDED
    assert trainer("vertex").submit(script, **L4, idempotency_key="k").refresh().state is State.SUCCEEDED
    assert len(cloud.vertex.jobs) == 1


@pytest.mark.parametrize("kind", ["vertex", "compute"])
@pytest.mark.parametrize("is_over", [True, False])
def test_a_cancel_of_what_a_ctrl_c_took_back_too_late_holds_for_whoever_has_its_key(
    cloud, trainer, board, script, kind, is_over
):
    job = trainer(kind).submit(script, **L4, idempotency_key="k")
    record, made = board.read(job.id), len(creates(cloud))
    board.write(attrs.evolve(record.answered(""), over=WITHDRAWN))
    cloud.clock.advance(7200 if is_over else 0)
    assert job.refresh().state.is_terminal == is_over
    trainer(kind).attach(job.uri).cancel()
    cloud.clock.advance(60)
    assert board.read(job.id).over == CANCELLED
    assert trainer(kind).submit(script, **L4, idempotency_key="k").uri == job.uri
    assert len(creates(cloud)) == made


def test_a_trainer_without_the_backend_that_was_asked_makes_no_second_job(cloud, trainer, asked, script):
    asked()
    with pytest.raises(RequestError, match="was asked of compute"):
        trainer("vertex").submit(script, **L4, idempotency_key="k")
    assert not cloud.vertex.jobs


def test_threads_that_submit_under_one_key_make_one_job_whatever_the_quotas_do(script):
    with gputrain_emulator.start(wall_clock=True) as cloud:
        cloud.add_bucket("my-bucket", location="us-central1")
        times = cloud.compute.settings
        times.provision_s = times.staging_s = times.rollback_s = times.delete_s = 0.05
        reach = {"bucket": "gs://my-bucket", "regions": ["us-central1"], "project": "my-project",
                 "endpoints": cloud.endpoints, "credentials": cloud.credentials}  # fmt: skip
        uris = []

        def submit():
            backends = [VertexAI(**reach), ComputeEngine(**reach)]
            trainer = Trainer(backends, sleep=lambda seconds: time.sleep(min(seconds, 0.1)))
            uris.append(trainer.submit(script, **L4, idempotency_key="k").uri)

        cloud.quota(VERTEX_L4, 0)
        threads = [threading.Thread(target=submit) for _ in range(3)]
        for thread in threads:
            thread.start()
        cloud.quota(VERTEX_L4, 64)  # some have read that there is none, some that there is
        for thread in threads:
            thread.join()
        assert len(uris) == 3
        assert len(set(uris)) == 1
        assert len(cloud.compute.vms) + len(cloud.vertex.jobs) == 1


def test_the_order_of_backends_decides_nothing_about_where_a_key_is_kept(cloud, backend):
    cloud.add_bucket("another", location="us-central1")
    both = {"vertex": backend("vertex"), "compute": backend("compute", bucket="gs://another")}
    homes = [Boards({name: both[name] for name in names}).all()[0].name for names in (both, reversed(both))]
    assert homes == ["gs://another/", "gs://another/"]


def tells_once_that_there_is_none(monkeypatch, board):
    answers = iter([lambda _: None])
    truth = board.read
    monkeypatch.setattr(board, "read", lambda job_id: next(answers, truth)(job_id))


def test_one_answer_that_another_board_has_none_makes_no_second_job(cloud, backend, now, script, monkeypatch):
    cloud.add_bucket("other", location="us-central1")
    compute, vertex = backend("compute", bucket="gs://other"), backend("vertex")
    sleep = cloud.clock.advance
    first = Trainer([compute], now=now, sleep=sleep).submit(script, **L4, idempotency_key="k")
    tells_once_that_there_is_none(monkeypatch, compute.recorder().board)
    again = Trainer([vertex, compute], now=now, sleep=sleep).submit(script, **L4, idempotency_key="k")
    assert (again.uri, len(creates(cloud))) == (first.uri, 1)


def test_one_answer_that_its_home_has_none_gives_the_place_of_a_job_to_no_other(
    cloud, backend, board, asked, monkeypatch
):
    cloud.add_bucket("another", location="us-central1")
    both = {"compute": backend("compute"), "vertex": backend("vertex", bucket="gs://another")}
    boards = Boards(both)
    copy = attrs.evolve(asked(), home="gs://another/")
    boards.named("gs://another/").write(attrs.evolve(copy, generation=0))
    record = attrs.evolve(copy, home="gs://third/")
    tells_once_that_there_is_none(monkeypatch, boards.named("gs://another/"))
    assert boards.is_anothers(copy, record)


def test_a_copy_whose_folder_is_another_machines_makes_no_second_job(cloud, backend, board, asked, tmp_path):
    local = Local(root=tmp_path / "home", gpus=0)
    record = asked()
    home = Boards({"local": local}).all()[0].name
    board.write(attrs.evolve(record, home=home))
    both = Trainer([local, backend("vertex")], sleep=cloud.clock.advance)
    with pytest.raises(RequestError, match="that folder is another machine's"):
        both.submit(record.spec["script"], **L4, idempotency_key="k")
    assert not cloud.vertex.jobs
