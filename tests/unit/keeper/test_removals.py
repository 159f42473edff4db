"""What was removed from a folder goes from the bucket, as soon as that loses nothing and not before."""

import os
import shutil

import pytest

from gputrain.keeper.alike import keep
from gputrain.keeper.cloud import CallFailed
from gputrain.keeper.tree import Tree

from .folders import STEP, sent, write


def test_a_removal_that_is_refused_holds_up_no_send_and_no_other_removal(held, at_once):
    made = held("model-1.pt", "model-2.pt")
    write(made, **{"model-3.pt": "3", "model-4.pt": "4"})
    made.round(is_last=True)
    for name in ("model-1.pt", "model-3.pt"):
        os.unlink(os.path.join(made.folder, name))
    write(made, **{"model-5.pt": "5"})
    for _ in range(3):
        made.round()
    assert sent(made) == {"model-1.pt", "model-2.pt", "model-4.pt", "model-5.pt"}
    assert not os.path.exists(os.path.join(made.folder, "model-1.pt"))  # nor is it brought back


def test_what_a_marker_vouches_for_stays_while_the_marker_cannot_be_removed(held, at_once):
    made = held(f"{STEP}/COMPLETE")
    write(made, **{f"{STEP}__shard-0": "1"})
    made.round(is_last=True)
    shutil.rmtree(os.path.join(made.folder, STEP))
    made.round(is_last=True)
    assert sent(made) == {f"{STEP}/shard-0", f"{STEP}/COMPLETE"}


def test_a_marker_goes_before_what_it_vouched_for_is_written_anew(mirror, at_once):
    made = mirror({})
    write(made, **{"last__a.pt": "old", "last__b.pt": "old", "last__COMPLETE": ""})
    made.round(is_last=True)
    os.unlink(os.path.join(made.folder, "last", "COMPLETE"))
    write(made, **{"last__a.pt": "newer"})
    with open(os.path.join(made.folder, "last", "b.pt"), "w") as file:
        file.write("newer")
        made.round()
        assert sent(made) == {"last/a.pt", "last/b.pt"}
    write(made, last__COMPLETE="")
    made.round(is_last=True)
    assert sent(made) == {"last/a.pt", "last/b.pt", "last/COMPLETE"}
    assert made.store.get("ckpt/last/b.pt") == b"newer"


def test_nothing_is_written_anew_under_a_marker_that_cannot_be_removed(held, at_once):
    made = held("last/COMPLETE")
    write(made, **{"last__a.pt": "old", "other.pt": "old"})
    made.round(is_last=True)
    os.unlink(os.path.join(made.folder, "last", "COMPLETE"))
    write(made, **{"last__a.pt": "newer", "other.pt": "newer"})
    for is_last in (False, True):
        made.round(is_last)
    assert (made.store.get("ckpt/last/a.pt"), made.store.get("ckpt/other.pt")) == (b"old", b"newer")
    (why,) = made.unsent.told(Tree(made.folder))
    assert why == "last/a.pt (the marker of what was there before cannot be removed)"


def test_the_last_checkpoint_is_not_removed_before_the_next_is_there(mirror, at_once, monkeypatch):
    made = mirror({})
    write(made, **{"model-1.pt": "1"})
    made.round(is_last=True)
    monkeypatch.setattr("gputrain.keeper.whole.SETTLE_S", 600.0)
    write(made, **{"model-2.pt": "2"})
    os.unlink(os.path.join(made.folder, "model-1.pt"))
    made.round()
    assert sent(made) == {"model-1.pt"}
    made.round(is_last=True)
    assert sent(made) == {"model-2.pt"}


def test_a_file_that_is_written_all_the_time_holds_up_no_removal(mirror, at_once, monkeypatch):
    made = mirror({})
    write(made, **{"model-1.pt": "1", "model-2.pt": "2"})
    made.round(is_last=True)
    monkeypatch.setattr("gputrain.keeper.whole.SETTLE_S", 600.0)
    os.unlink(os.path.join(made.folder, "model-1.pt"))
    with open(os.path.join(made.folder, "log.txt"), "w"):
        write(made, **{"rows.csv": "a"})
        made.round()
        assert sent(made) == {"model-1.pt", "model-2.pt"}
        write(made, **{"rows.csv": "a, and more"})
        made.round()
    assert sent(made) == {"model-2.pt"}


@pytest.mark.parametrize("refused", ["log.txt", f"{STEP}/shard-0"])
def test_what_was_refused_before_holds_up_no_later_removal(held, at_once, refused):
    made = held(refused)
    write(made, **{refused.replace("/", "__"): "second"})
    if refused.startswith(STEP):
        write(made, **{f"{STEP}__COMPLETE": ""})  # which goes only after its files, and so never
    made.round()
    for number in range(5):
        write(made, **{f"model-{number}.pt": "x"})
        made.round()
        if number:
            os.unlink(os.path.join(made.folder, f"model-{number - 1}.pt"))
        made.round()
    assert sent(made) == {refused, "model-4.pt"}


def test_a_disk_that_hid_a_folder_before_holds_up_no_later_removal(mirror, at_once, monkeypatch):
    made, scan = mirror({}), os.scandir
    write(made, broken__x="1")
    made.round()

    def scandir(path):
        if str(path).endswith("broken"):
            raise OSError(5, "Input/output error", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    made.round()
    write(made, **{"model-1.pt": "1"})
    made.round()
    write(made, **{"model-2.pt": "1"})
    os.unlink(os.path.join(made.folder, "model-1.pt"))
    made.round()
    assert sent(made) == {"broken/x", "model-2.pt"}


def test_a_checkpoint_stays_while_the_one_after_it_is_refused(held, at_once):
    made = held("model-2.pt")
    write(made, **{"model-1.pt": "1"})
    made.round()
    write(made, **{"model-2.pt": "second"})
    os.unlink(os.path.join(made.folder, "model-1.pt"))
    for is_last in (False, False, True):
        made.round(is_last)
    assert sent(made) == {"model-1.pt", "model-2.pt"}


def test_a_removal_that_met_no_answer_is_tried_once_more_at_the_end(mirror, at_once, monkeypatch):
    made, asked = mirror({}), []
    remove = made.store.remove

    def busy(*what):
        asked.append(what)
        if len(asked) == 1:
            raise CallFailed("http://storage", "503", 503)
        remove(*what)

    monkeypatch.setattr(made.store, "remove", busy)
    write(made, **{"old.pt": "1"})
    made.round()
    os.unlink(os.path.join(made.folder, "old.pt"))
    for _ in range(3):
        made.round()
    assert len(asked) == 1
    made.round(is_last=True)
    assert sent(made) == set()


def test_what_was_moved_away_and_linked_stays_in_the_bucket(mirror, at_once, tmp_path):
    made, disk = mirror({}), tmp_path / "another-disk"
    disk.mkdir()
    write(made, **{"best__m.pt": "1", "model.pt": "1", "old__m.pt": "1"})
    made.round()
    for name in ("best", "model.pt"):
        path = os.path.join(made.folder, name)
        shutil.move(path, disk / name)
        os.symlink(disk / name, path)
    shutil.rmtree(os.path.join(made.folder, "old"))
    for is_last in (False, True):
        made.round(is_last)
    assert sent(made) == {"best/m.pt", "model.pt"}


def test_a_removal_that_is_answered_with_nonsense_keeps_no_machine(mirror, at_once, monkeypatch):
    made, rounds = mirror({}), []
    write(made, **{"old.pt": "1"})
    made.round()
    os.unlink(os.path.join(made.folder, "old.pt"))
    given, end = os.pipe()
    os.close(end)
    monkeypatch.setattr("sys.stdin", os.fdopen(given))
    monkeypatch.setattr("gputrain.keeper.cloud.metadata", lambda _: "<html>")
    one_round = made.round
    monkeypatch.setattr(made, "round", lambda is_last: rounds.append(is_last) or one_round(is_last))
    keep(made)
    assert rounds == [True]


def test_what_another_node_has_written_anew_is_not_removed_with_what_was_there_before(mirror, at_once):
    first = mirror({f"{STEP}/shard-0": b"old", f"{STEP}/shard-1": b"old"})
    second = mirror({}, node=1)
    for made in (first, second):
        made.fill()
    shard = os.path.join(second.folder, STEP, "shard-1")
    shutil.rmtree(os.path.join(first.folder, STEP))  # the step is begun anew, as after a restart
    write(first, **{f"{STEP}__shard-0": "new"})
    write(second, **{f"{STEP}__shard-1": "new" * 1_000_000})
    second.send_all(Tree(second.folder), is_last=True)
    for made in (first, second, first, second):
        made.round()
    assert first.store.get(f"ckpt/{STEP}/shard-1") == b"new" * 1_000_000
    assert os.path.exists(shard)


def test_what_was_sent_just_now_goes_with_its_folder(mirror, at_once, monkeypatch):
    made = mirror({})
    for text in ("1", "22"):
        write(made, **{"old__m.pt": text})
        made.round()
        made.list()
    monkeypatch.setattr("gputrain.keeper.mirror.LIST_EVERY_S", 600.0)
    write(made, **{"old__m.pt": "333"})
    made.round()
    shutil.rmtree(os.path.join(made.folder, "old"))
    made.round()
    assert sent(made) == set()
