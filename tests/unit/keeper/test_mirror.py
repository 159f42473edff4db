"""A folder and its place in a bucket, when either holds what the other cannot."""

import errno
import http.client
import os
import threading
import time
from functools import partial

import pytest

from gputrain.entrypoint import processes
from gputrain.keeper.alike import keep
from gputrain.keeper.cloud import CallFailed, call
from gputrain.keeper.mirror import AWAITED_S, THREADS
from gputrain.keeper.tree import Tree
from gputrain.keeper.whole import UNDER_WAY_S
from gputrain_emulator import faults

from .folders import STEP, opener, sent, until, write


def told(capsys):
    return capsys.readouterr().err


def test_an_object_beside_others_below_its_name_is_left_out_and_said_once(mirror, tmp_path, capsys):
    made = mirror({"a": b"1", "a/b": b"22", "c": b"333"})
    for _ in range(3):
        made.fill()
    assert (tmp_path / "folder" / "c").read_bytes() == b"333"
    assert told(capsys).count("cannot be a file here") == 1


def test_a_name_that_is_too_long_for_a_file_is_left_out(mirror, tmp_path, capsys):
    made = mirror({"x" * 300: b"1", "y" * 255: b"2"})
    made.fill()
    assert os.listdir(tmp_path / "folder") == ["y" * 255]
    assert "too long" in told(capsys)


def test_nothing_is_written_through_a_linked_folder(mirror, tmp_path, capsys):
    outside = tmp_path / "outside"
    outside.mkdir()
    made = mirror({"latest/evil": b"1"})
    os.symlink(outside, tmp_path / "folder" / "latest")
    made.fill()
    assert os.listdir(outside) == []
    assert "a link stands in its way" in told(capsys)


def test_a_linked_file_is_replaced_and_not_written_through(mirror, tmp_path):
    outside = tmp_path / "outside"
    outside.write_bytes(b"mine")
    made = mirror({"file": b"theirs"})
    os.symlink(outside, tmp_path / "folder" / "file")
    made.fill()
    assert outside.read_bytes() == b"mine"


def test_a_linked_draft_is_not_written_through(mirror, tmp_path):
    outside = tmp_path / "outside"
    outside.write_bytes(b"mine")
    made = mirror({"file": b"theirs"})
    os.symlink(outside, tmp_path / "folder" / ".gputrain-mirror-0.part")
    made.fill()
    assert outside.read_bytes() == b"mine"
    assert (tmp_path / "folder" / "file").read_bytes() == b"theirs"


ODD = (b"bad\xff", b"two\nlines", b"#?%2e&", "\u202e\x1b[2J".encode(), b"y" * 255, b"...")


@pytest.mark.parametrize("name", ODD)
def test_a_file_of_any_name_keeps_no_other_file_from_the_bucket(mirror, tmp_path, capsys, name):
    made = mirror({})
    for one in (name, b"model.pt"):
        (tmp_path / "folder" / os.fsdecode(one)).write_bytes(b"1")
    for _ in range(3):
        made.round(is_last=True)
    made.list()
    sent = made.there.keys()
    assert "model.pt" in sent
    if name in ODD[:2]:  # no object may be called so
        assert told(capsys).count("cannot be an object") == 1
    else:
        assert os.fsdecode(name) in sent


@pytest.mark.check
def test_the_node_that_marks_a_step_sees_the_shards_of_all_at_its_next_look(mirror, tmp_path):
    first, second = mirror({}), mirror({}, node=1)
    for made in (first, second):
        made.fill()
        os.makedirs(os.path.join(made.folder, STEP))
    shard = os.urandom(2 << 20)
    (tmp_path / "folder" / STEP / "rank-0.pt").write_bytes(b"0")
    (tmp_path / "folder-1" / STEP / "rank-1.pt").write_bytes(shard)
    second.round()
    time.sleep(AWAITED_S)
    first.round()
    assert (tmp_path / "folder" / STEP / "rank-1.pt").read_bytes() == shard
    (tmp_path / "folder" / STEP / "COMPLETE").write_bytes(b"{}")
    first.round()
    time.sleep(AWAITED_S)
    second.round()
    assert (tmp_path / "folder-1" / STEP / "COMPLETE").exists()


def test_a_bucket_is_listed_seldom_while_no_step_is_under_way(mirror, tmp_path):
    made = mirror({})
    made.fill()
    os.makedirs(os.path.join(made.folder, STEP))
    for name in ("rank-0.pt", "COMPLETE", "../plain.pt"):
        (tmp_path / "folder" / STEP / name).write_bytes(b"0")
    listed = made._listed_at
    time.sleep(AWAITED_S)
    made.round()
    assert made._listed_at == listed
    os.unlink(tmp_path / "folder" / STEP / "COMPLETE")
    old = time.time() - UNDER_WAY_S
    os.utime(tmp_path / "folder" / STEP / "rank-0.pt", (old, old))
    made.round()
    assert made._listed_at == listed


def lines(capsys):
    return told(capsys).splitlines()


def test_an_object_that_is_refused_keeps_no_other_from_the_bucket_nor_their_marker(held, at_once, capsys):
    made = held("log.txt")
    write(made, **{"log.txt": "second", f"{STEP}__shard-0": "1", f"{STEP}__COMPLETE": ""})
    for is_last in (False, False, True):
        made.round(is_last)
    assert sent(made) == {"log.txt", f"{STEP}/shard-0", f"{STEP}/COMPLETE"}
    assert made.store.get("ckpt/log.txt") == b"first"
    (why,) = made.unsent.told(Tree(made.folder))
    assert "log.txt (" in why
    assert "hold" in why
    assert sum("log.txt is not sent" in line for line in lines(capsys)) == 1


def test_a_marker_does_not_vouch_for_a_file_that_was_refused(held, at_once):
    made = held(f"{STEP}/shard-0")
    write(made, **{f"{STEP}__shard-0": "second", f"{STEP}__shard-1": "1", f"{STEP}__COMPLETE": ""})
    made.round(is_last=True)
    assert sent(made) == {f"{STEP}/shard-0", f"{STEP}/shard-1"}
    assert [why.split(" (")[0] for why in made.unsent.told(Tree(made.folder))] == [
        f"{STEP}/COMPLETE", f"{STEP}/shard-0",
    ]  # fmt: skip


class FailingDisk:
    """Hides a folder, as a disk does that answers with EIO."""

    def __init__(self, monkeypatch, name):
        self.name, self.scan = name, os.scandir
        monkeypatch.setattr(os, "scandir", self.scandir)

    def scandir(self, path="."):
        if str(path).rstrip("/").endswith(self.name):
            raise OSError(errno.EIO, "Input/output error", path)
        return self.scan(path)


@pytest.mark.parametrize("name", [STEP, "folder"])
def test_what_a_disk_hides_is_not_removed_from_the_bucket(mirror, at_once, monkeypatch, name):
    made = mirror({})
    write(made, **{f"{STEP}__shard-0": "1", f"{STEP}__COMPLETE": "", "other.pt": "1"})
    made.round(is_last=True)
    before = sent(made)
    with monkeypatch.context() as patch:
        FailingDisk(patch, name)
        made.round()
        made.round(is_last=True)
        assert "cannot be read" in made.unsent.told(Tree(made.folder))[0]
    assert sent(made) == before
    made.round()
    assert made.unsent.told(Tree(made.folder)) == []


def test_another_node_loses_no_folder_with_its_last_file(mirror, at_once):
    made = mirror({"last.pt": b"1"}, node=1)
    made.fill()
    made.store.remove("last.pt", made.there["last.pt"].generation)
    made.round()
    assert os.listdir(made.folder) == []


def test_a_file_that_cannot_be_removed_here_holds_up_no_send(mirror, at_once, monkeypatch, capsys):
    made, unlink = mirror({"old.pt": b"1"}, node=1), os.unlink
    made.fill()
    made.store.remove("old.pt", made.there["old.pt"].generation)
    write(made, **{"new.pt": "1"})

    def busy(path, *words, **how):
        if str(path).endswith("old.pt"):
            raise OSError(errno.EBUSY, "Device or resource busy", path)
        unlink(path, *words, **how)

    monkeypatch.setattr(os, "unlink", busy)
    for _ in range(3):
        made.round()
    assert sent(made) == {"new.pt"}
    assert told(capsys).count("old.pt, removed from the bucket, is still here") == 1


def test_a_list_that_is_refused_or_rubbish_holds_up_no_send(mirror, at_once, capsys):
    made = mirror({})
    items = made.store.items
    for fault in (b"<html>", b"[]", b'{"items": [7]}', None):
        reply = partial(rubbish, fault) if fault else refuse
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("gputrain.keeper.cloud.call", reply_to_lists(reply))
            write(made, **{f"after-{fault!r}".replace("/", ""): "1"})
            made.round()
            made.round(is_last=True)
    assert len(items()) == 4
    assert "cannot be listed" in told(capsys)


def rubbish(body, *_, **__):
    return body


def refuse(*_, **__):
    raise CallFailed("http://storage", "403", 403)


def reply_to_lists(reply):
    return lambda method, *words, **how: (reply if method == "GET" else call)(method, *words, **how)


def test_an_outage_at_the_end_is_waited_for(mirror, at_once, monkeypatch):
    made = mirror({})
    monkeypatch.setattr("gputrain.keeper.alike.AFTER_FAULT_S", 0.01)
    given, end = os.pipe()
    os.close(end)
    monkeypatch.setattr("sys.stdin", os.fdopen(given))
    write(made, **{"last__a.pt": "old", "last__COMPLETE": ""})
    made.round(is_last=True)
    os.unlink(os.path.join(made.folder, "last", "COMPLETE"))
    write(made, **{"last__a.pt": "newer"}, **{f"{number}.pt": "1" for number in range(20)})
    asked = []

    def answer(method, *words, **how):
        asked.append(method)
        if len(asked) < 50:
            raise CallFailed("http://storage", "503", 503)
        return call(method, *words, **how)

    with monkeypatch.context() as patch:
        patch.setattr("gputrain.keeper.store.call", answer)
        keep(made)
    assert len(sent(made)) == 21
    assert made.store.get("ckpt/last/a.pt") == b"newer"
    assert made.unsent.told(Tree(made.folder)) == []


def test_a_file_that_cannot_be_read_keeps_no_other_from_the_bucket(mirror, at_once, monkeypatch):
    made = mirror({})
    write(made, **{"bad.pt": "1", "good.pt": "1"})
    real = os.open

    def broken(path, *words, **how):
        if str(path).endswith("bad.pt"):
            raise OSError(errno.EIO, "Input/output error", path)
        return real(path, *words, **how)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", broken)
        made.round(is_last=True)
    assert sent(made) == {"good.pt"}
    assert "Input/output error" in made.unsent.told(Tree(made.folder))[0]


def test_a_link_to_a_file_goes_as_the_file_and_other_links_are_named(mirror, at_once, tmp_path, capsys):
    made = mirror({})
    (tmp_path / "secret").write_text("theirs")
    write(made, **{"step-1.ckpt": "weights", "steps__x": "1", "model.tmp": "half"})
    for name, target in (("last.ckpt", "step-1.ckpt"), ("latest", "steps"), ("out", tmp_path / "secret")):
        os.symlink(target, os.path.join(made.folder, name))
    made.round(is_last=True)
    assert sent(made) == {"step-1.ckpt", "steps/x", "last.ckpt"}
    assert made.store.get("ckpt/last.ckpt") == b"weights"
    assert "left out" in (line := lines(capsys)[-1])
    assert "latest, model.tmp, out" in line


def test_half_of_an_object_is_brought_again_and_never_taken_for_all_of_it(mirror, tmp_path, monkeypatch):
    made = mirror({"model.pt": bytes(1_000_000)})
    read, cut = http.client.HTTPResponse.read, []

    def half(self, amount=None):
        data = read(self, amount)
        if amount and not cut and len(data) > 1000:
            cut.append(data)
            self.close()
            return data[:1000]
        return data

    monkeypatch.setattr(http.client.HTTPResponse, "read", half)
    monkeypatch.setattr("gputrain.keeper.cloud.PAUSES_S", (0.01, 0))
    made.fill()
    assert cut
    assert (tmp_path / "folder" / "model.pt").stat().st_size == 1_000_000


def test_a_bucket_that_does_not_answer_is_not_asked_for_each_object(mirror, at_once, monkeypatch):
    made = mirror({f"{number}.pt": b"1" for number in range(100)})
    asked = []

    def bring(path, *_):
        asked.append(path)
        raise CallFailed("http://storage", "503", 503)

    with monkeypatch.context() as patch:
        patch.setattr(made.store, "bring", bring)
        with pytest.raises(CallFailed):
            made.fill()
    assert len(asked) <= 2 * THREADS
    made.fill()
    assert len(os.listdir(made.folder)) == 100


def test_what_is_still_written_at_the_end_is_told_as_not_saved(mirror, at_once):
    made = mirror({})
    with open(os.path.join(made.folder, "ckpt.pt"), "w") as file:
        file.write("half")
        file.flush()
        made.round(is_last=True)
    (why,) = made.unsent.told(Tree(made.folder))
    assert "ckpt.pt (was being written" in why
    made.round(is_last=True)
    assert made.unsent.told(Tree(made.folder)) == []


def test_no_name_of_a_file_speaks_for_the_mirror(mirror, at_once, capsys):
    made = mirror({})
    os.symlink("/", os.path.join(made.folder, "x\ngputrain-unsaved:[]"))
    made.round(is_last=True)
    assert len(lines(capsys)) == 1


@pytest.mark.parametrize("fault", [TypeError("no such thing"), ValueError("no answer of a bucket's")])
def test_a_fault_that_would_be_the_same_later_is_told_at_once(mirror, at_once, monkeypatch, fault):
    made, rounds = mirror({}), []
    given, end = os.pipe()
    os.close(end)
    monkeypatch.setattr("sys.stdin", os.fdopen(given))

    def broken(*_):
        rounds.append(1)
        assert len(rounds) == 1
        raise fault

    monkeypatch.setattr(made, "send_all", broken)
    keep(made)
    (why,) = made.unsent.told(Tree(made.folder))
    assert repr(fault) in why


def test_a_disk_that_fails_under_a_file_keeps_no_other_from_the_bucket(mirror, at_once, monkeypatch):
    made = mirror({})
    write(made, **{"bad.pt": "1"})
    with monkeypatch.context() as patch:
        patch.setattr("gputrain.keeper.mirror.open", opener("bad.pt"), raising=False)
        for _ in range(2):
            write(made, **{"last__shard-0": "1", "last__COMPLETE": ""})
            is_out = made.round(is_last=True)
    assert not is_out
    assert sent(made) == {"last/shard-0", "last/COMPLETE"}
    assert "Input/output error" in made.unsent.told(Tree(made.folder))[0]


def test_a_request_that_is_refused_as_wrong_is_told_and_no_marker_vouches_for_it(mirror, cloud, at_once):
    made = mirror({})
    write(made, **{f"{STEP}__shard-0": "1", f"{STEP}__COMPLETE": ""})
    cloud.fail("storage.objects.insert", faults.server_error(400), times=1)  # its key is disabled, for one
    made.round(is_last=True)
    assert f"{STEP}/COMPLETE" not in sent(made)
    assert len(made.unsent.told(Tree(made.folder))) == 2
    made.round(is_last=True)
    assert sent(made) == {f"{STEP}/shard-0", f"{STEP}/COMPLETE"}


def test_a_marker_waits_for_what_a_look_at_its_folder_has_missed(mirror, at_once, monkeypatch):
    made = mirror({})
    made.fill()
    write(made, **{"last__shard-0": "1", "last__COMPLETE": ""})
    scan, looks = os.scandir, []

    def scandir(path):
        looks.append(path)
        entries = list(scan(path))  # a folder is read in parts, while files come into it
        return [one for one in entries if one.name != "shard-0" or len(looks) > 2]

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", scandir)
        patch.setattr("gputrain.keeper.mirror.LIST_EVERY_S", 600.0)
        made.round()
    assert sent(made) == set()
    made.round()
    assert sent(made) == {"last/shard-0", "last/COMPLETE"}


def test_a_file_that_is_open_to_write_is_not_replaced_by_another_nodes(mirror, at_once):
    first, second = mirror({}), mirror({}, node=1)
    write(first, **{"train.log": "mine\n"})
    first.round(is_last=True)
    with open(os.path.join(first.folder, "train.log"), "a") as log:
        write(second, **{"train.log": "theirs\n"})
        second.round(is_last=True)
        first.round()
        log.write("more\n")
    first.round(is_last=True)
    assert first.store.get("ckpt/train.log") == b"mine\nmore\n"


def test_what_was_closed_before_a_kill_goes_though_a_long_send_was_under_way(mirror, at_once, monkeypatch):
    made, begun, go_on = mirror({}), threading.Event(), threading.Event()
    write(made, **{"big.pt": "1"})
    send = made.store.send

    def slow(path, *words):
        begun.set()
        assert go_on.wait(60)
        return send(path, *words)

    with monkeypatch.context() as patch:
        patch.setattr(made.store, "send", slow)
        patch.setattr("gputrain.keeper.mirror.WATCH_S", 0.01)
        one = threading.Thread(target=made.round)
        one.start()
        assert begun.wait(60)
        write(made, **{"next.pt": "1"})
        until(lambda: "next.pt" in made.whole._closed)
        processes.note_killed(made.whole._killed, time.time())
        go_on.set()
        one.join()
    made.round(is_last=True)
    assert sent(made) == {"big.pt", "next.pt"}


def test_a_file_that_has_become_a_pipe_holds_up_nobody(mirror, at_once, monkeypatch):
    made = mirror({})
    write(made, a="1")
    tree = Tree(made.folder)
    os.unlink(os.path.join(made.folder, "a"))
    os.mkfifo(os.path.join(made.folder, "a"))
    made.send("a", tree.files["a"])
    assert sent(made) == set()


def test_a_kill_of_which_a_full_disk_took_no_note_is_known_by_when_it_was_made(mirror, at_once):
    made = mirror({})
    write(made, **{"model.pt": "half"})
    open(made.whole._killed, "w").close()
    made.round(is_last=True)
    assert sent(made) == set()
    assert "when its process was killed" in made.unsent.told(Tree(made.folder))[0]
