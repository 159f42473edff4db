"""Boards keep records: of two that read the same one, one writes. The bucket's is tried with the trainer."""

import fcntl
import multiprocessing
import os
import signal
import threading
import time

import attrs
import pytest

import gputrain_emulator
from gputrain.errors import PermissionDeniedError, RequestError, TransientError
from gputrain.gcp import Access, MissingError, Objects
from gputrain.gcp.buckets import BucketPrefix
from gputrain.records import (
    BucketBoard,
    Code,
    FolderBoard,
    MemoryBoard,
    OvertakenError,
    RecordError,
    ended,
    folder,
    surely,
)
from gputrain.records.board import MOST
from gputrain.records.record import LARGEST_BYTES
from tests.each import each
from tests.unit.records.values import ASK, record


@pytest.fixture
def cloud():
    with gputrain_emulator.start() as running:
        running.add_bucket("my-bucket", location="us-central1")
        yield running


@pytest.fixture(params=["folder", "memory", "bucket"])
def board(request, tmp_path):
    if request.param == "folder":
        return FolderBoard(tmp_path / "records")
    if request.param == "memory":
        return MemoryBoard()
    return bucket_board(request.getfixturevalue("cloud"))


def bucket_board(cloud, project="my-project", name="gs://my-bucket/team"):
    access = Access(
        project=project, credentials=cloud.credentials, endpoints=cloud.endpoints,
        now=cloud.clock.now, sleep=cloud.clock.advance,
    )  # fmt: skip
    return BucketBoard(access, BucketPrefix.parse(name))


def test_what_was_written_is_there(board):
    assert board.read("bert-1") is None
    first = board.write(record())
    again = board.read("bert-1")
    assert (again, again.generation) == (first, first.generation)


def test_a_board_in_memory_does_not_grow_with_every_job():
    board, first, jobs = MemoryBoard(), record(), range(MOST + 10)
    for number in jobs:
        board.write(attrs.evolve(first, job_id=f"bert-{number}"))
        assert board.read("bert-0") is not None  # it is come back to
    assert sum(board.read(f"bert-{number}") is not None for number in jobs) == MOST


def test_of_two_that_read_the_same_one_writes(board):
    first = board.write(record())
    board.write(attrs.evolve(first, used_s=1))
    with pytest.raises(OvertakenError):
        board.write(attrs.evolve(first, used_s=2))
    with pytest.raises(OvertakenError):
        board.write(record())
    assert board.read("bert-1").used_s == 1


def test_a_record_that_somebody_has_written_since_is_not_removed(board):
    first = board.write(record())
    second = board.write(attrs.evolve(first, used_s=1))
    board.remove(first)
    assert board.read("bert-1") is not None
    board.remove(second)
    assert board.read("bert-1") is None


def test_a_record_that_was_written_anew_is_not_taken_for_the_one_that_was_removed(board):
    first = board.write(record())
    board.remove(first)
    board.write(record())
    with pytest.raises(OvertakenError):
        board.write(attrs.evolve(first, used_s=1))
    board.remove(first)
    assert board.read("bert-1").used_s == 0


def test_a_process_that_was_forked_while_a_record_was_written_keeps_no_other_from_writing(tmp_path):
    board = FolderBoard(tmp_path / "records")

    def fork():
        child = os.fork()
        if not child:
            signal.pause()
            os._exit(0)
        return child

    child = board._in_turn(fork)
    try:
        writer = threading.Thread(target=board.write, args=(record(),), daemon=True)
        writer.start()
        writer.join(60)
        assert not writer.is_alive()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.mark.check
@pytest.mark.parametrize("came_at", [time.time_ns(), 0, -1, 10**19], ids=["now", "1970", "before", "in 2286"])
def test_a_process_that_is_stopped_as_it_writes_holds_up_no_other_for_long(tmp_path, came_at):
    board = FolderBoard(tmp_path)
    other = os.open(tmp_path / ".lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(other, fcntl.LOCK_EX)
    os.utime(other, ns=(came_at, came_at))
    began = time.monotonic()
    with pytest.raises(TransientError, match="does not come to an end") as caught:
        board.write(record())
    assert time.monotonic() - began < 10 * folder.TURN_WITHIN_S
    assert str(tmp_path / ".lock") in caught.value.why
    began = time.monotonic()
    with pytest.raises(TransientError):  # as where a Ctrl-C is withdrawn: it is known by now
        FolderBoard(tmp_path).remove(record())
    assert time.monotonic() - began < folder.TURN_WITHIN_S
    os.close(other)
    assert board.write(record()).generation


@pytest.mark.check
def test_however_many_write_each_is_waited_for_by_itself(tmp_path):
    board = FolderBoard(tmp_path)
    other = os.open(tmp_path / ".lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(other, fcntl.LOCK_EX)

    def change_hands():
        for _ in range(8):
            os.utime(other)
            time.sleep(folder.TURN_WITHIN_S / 4)
        os.close(other)

    others = threading.Thread(target=change_hands)
    others.start()
    assert board.write(record()).generation
    others.join()


@pytest.mark.parametrize("step", ["as it is locked", "as it is written"])
def test_a_write_that_a_ctrl_c_falls_into_leaves_the_records_open(tmp_path, monkeypatch, step):
    """Also while somebody keeps what was raised, and all that it fell into, as a notebook does."""
    board, lock = FolderBoard(tmp_path), fcntl.flock

    def pressed(*words):
        lock(*words)
        if words[1] & fcntl.LOCK_EX:
            raise KeyboardInterrupt

    def act():
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        if step == "as it is locked":
            patched.setattr(fcntl, "flock", pressed)
        with pytest.raises(KeyboardInterrupt) as kept:
            board._in_turn(act)
    there = os.open(tmp_path / ".lock", os.O_RDWR)
    fcntl.flock(there, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(there)
    assert kept.value.__traceback__ is not None


def test_an_ask_is_dated_by_its_board(board):
    ask = attrs.evolve(record().last, at=0.0)
    assert board.write(record(asks=(ask,))).last.at > 0


def test_who_ends_a_job_ends_it_once(board):
    board.write(record())
    first = ended(board, "bert-1", "cancelled")
    assert first.over == "cancelled"
    assert ended(board, "bert-1", "wait_limit").over == "cancelled"
    assert ended(board, "gpt-1", "cancelled") is None


GONE = MissingError("there is no bucket gs://my-bucket")


@pytest.mark.parametrize(
    ("told", "asked"),
    [(["it"], 1), ([None, "it"], 2), ([GONE, "it"], 2), ([None, None], 2), ([GONE, GONE], 2)],
)
def test_nothing_is_there_only_where_two_answers_say_so(told, asked):
    answers = iter(told)

    def ask():
        one = next(answers)
        if isinstance(one, Exception):
            raise one
        return one

    if told[asked - 1] is GONE:
        with pytest.raises(MissingError):
            surely(ask)
    else:
        assert surely(ask) == told[asked - 1]
    assert len(list(answers)) == len(told) - asked


def test_what_somebody_wrote_by_hand_is_refused(tmp_path):
    board = FolderBoard(tmp_path)
    (tmp_path / "bert-1.json").write_text("[1, 2")
    with pytest.raises(RecordError):
        board.read("bert-1")
    assert board.entries() == ()


def test_a_name_leads_nowhere_else(tmp_path):
    assert FolderBoard(tmp_path / "records").read("../../etc/passwd") is None


def test_the_bucket_of_somebody_else_is_not_read(cloud):
    cloud.add_project("other-project")
    cloud.add_bucket("theirs", location="us-central1", project="other-project")
    with pytest.raises(PermissionDeniedError, match="does not belong to project my-project"):
        bucket_board(cloud, name="gs://theirs").read("bert-1")
    assert not [one for one in cloud.requests if one.method == "storage.objects.get"]


def test_jobs_are_listed_by_their_first_ask(cloud):
    board = bucket_board(cloud)
    for job_id in ("bert-1", "gpt-1", "bert-2"):
        ask = attrs.evolve(record().last, at=0.0)
        written = board.write(record(job_id=job_id, asks=(ask,)))
        cloud.clock.advance(10)
        board.write(attrs.evolve(written, used_s=1))
    assert [one.job_id for one in board.entries()] == ["bert-2", "gpt-1", "bert-1"]
    assert [one.job_id for one in board.entries("bert")] == ["bert-2", "bert-1"]
    assert {(one.backend, one.place) for one in board.entries()} == {("compute", "us-central1-a")}


def test_one_list_tells_the_open_asks_of_all_records_and_nothing_that_a_user_wrote(cloud):
    board, spec = bucket_board(cloud), {**record().spec, "env": {"TOKEN": "s3cr3t"}}
    for number in range(20):
        board.write(record(job_id=f"bert-{number}", spec=spec, used_s=number))
    board.write(record(job_id="gpt-1", over="cancelled"))
    start = len(cloud.requests)
    seen = [board.glimpse(f"bert-{number}") for number in range(20)]
    assert [(one.last, one.used_s, one.generation > 0) for one in seen] == [(ASK, n, True) for n in range(20)]
    assert (board.glimpse("gpt-1"), board.glimpse("nobody")) == (None, None)
    assert [one.method for one in cloud.requests[start:]] == ["storage.buckets.list", "storage.objects.list"]
    told = cloud.requests[-1].reply
    assert b"bert-19" in told
    assert b"s3cr3t" not in told
    assert b"train.py" not in told


def test_a_list_does_not_tell_of_a_gang_that_was_larger_before_or_of_what_somebody_else_wrote(cloud):
    board = bucket_board(cloud)
    larger = attrs.evolve(ASK, names=("bert-1-0-0", "bert-1-0-1"), answer="made")
    board.write(record(asks=(larger, attrs.evolve(ASK, attempt=1, names=("bert-1-1-0",)))))
    objects = Objects(board._access, "my-bucket")
    for number, text in enumerate(("", "[]", "{}", "x" * 5000, '{"schema": 1, "job_id": "gpt-9"}')):
        told = {"short": text}
        objects.write(f"team/records/gpt-{number}.json", b"{}", if_generation=0, metadata=told)
    assert {board.glimpse(one) for one in ("bert-1", *(f"gpt-{number}" for number in range(5)))} == {None}


def test_whoever_may_not_list_records_reads_them_one_by_one(cloud):
    board = bucket_board(cloud)
    board.write(record())
    cloud.fail("storage.objects.list", "refused", times=None)
    assert (board.glimpse("bert-1"), board.read("bert-1").last) == (None, ASK)


def _write(folder, start, wins):
    board = FolderBoard(folder)
    start.wait()
    try:
        board.write(record(used_s=os.getpid()))
    except OvertakenError:
        return
    wins.put(os.getpid())


def test_of_many_processes_one_is_first(tmp_path):
    spawn = multiprocessing.get_context("fork")
    start, wins = spawn.Event(), spawn.Queue()
    crew = [spawn.Process(target=_write, args=(tmp_path, start, wins)) for _ in range(8)]
    for one in crew:
        one.start()
    start.set()
    for one in crew:
        one.join()
    assert wins.get(timeout=5) == FolderBoard(tmp_path).read("bert-1").used_s
    assert wins.empty()


@each("content", [b"", b"x\n{}", b"-1\n{}", b"1" * 5000, b"\xff\n", b"{}\n"])
def test_a_note_that_somebody_else_wrote_is_told_and_kept(tmp_path, content):
    board = FolderBoard(tmp_path)
    board.keep("scan", b"{}", 0)
    path = tmp_path / "notes" / "scan.json"
    path.write_bytes(content)
    with pytest.raises(RecordError, match="no note"):
        board.note("scan")
    with pytest.raises(RecordError, match="no note"):
        board.keep("scan", b"[]", 1)
    assert path.read_bytes() == content


@pytest.mark.parametrize("board", ["folder", "bucket"], indirect=True)
def test_what_is_too_large_to_be_read_is_not_written(board):
    large = "x" * LARGEST_BYTES
    with pytest.raises(RequestError, match="bert-1 is too large to be kept"):
        board.write(attrs.evolve(record(), code=Code(location="", argv=("train.py", large))))
    assert board.read("bert-1") is None
    with pytest.raises(RequestError, match="sweep is too large to be kept"):
        board.keep("sweep", large.encode() + b" ", 0)
    assert board.note("sweep") is None


def test_many_and_long_arguments_are_read_again(board):
    argv = ("train.py", "x" * 130_000, *map(str, range(20_000)))
    written = board.write(attrs.evolve(record(), code=Code(location="", argv=argv)))
    assert board.read("bert-1") == written


def test_a_folder_is_known_by_its_place_whatever_the_machine_is_called(tmp_path, monkeypatch):
    board = FolderBoard(tmp_path)
    old = f"file://laptop.home{tmp_path}"
    board.write(attrs.evolve(record(), home=old))
    monkeypatch.setattr("socket.gethostname", lambda: "laptop.elsewhere")
    assert FolderBoard(tmp_path).name == board.name
    assert board.read("bert-1").home == board.name


def test_a_list_tells_where_a_job_was_asked_for_last(tmp_path, cloud):
    first = record().last
    later = attrs.evolve(first, at=0.0, way=attrs.evolve(first.way, backend="vertex", place="us-east4"))
    for board in (FolderBoard(tmp_path / "records"), bucket_board(cloud)):
        board.write(record(asks=(first, later), created_at=900.0))  # asks before these may be kept no more
        (entry,) = board.entries("bert")
        assert (entry.backend, entry.place, entry.written_at) == ("vertex", "us-east4", 900.0)
        assert [board.entries(name) for name in ("/x", "*", "../x")] == [(), (), ()]
