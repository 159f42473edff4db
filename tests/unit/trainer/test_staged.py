"""Code is staged once for each backend, and all of them run the same: what was submitted."""

import attrs
import pytest

from gputrain import TrainingSpec
from gputrain.backends.base import Bundle
from gputrain.errors import AuthError, RequestError, TransientError
from gputrain.trainer.context import Staged
from tests.unit.records.values import record

SPEC = TrainingSpec(script="train.py")


class Place:
    """A backend so far as code goes, with a place for it; the folder has the hash it is told."""

    def __init__(self, name, sha256, kept=()):
        self.name, self.sha256, self.kept = name, sha256, set(kept)
        self.staged = self.sent = 0
        self.refuses = None

    def stage(self, spec, job_id):
        assert (spec, job_id) == (SPEC, "bert-1")
        self.staged += 1
        return self.bundle(self.sha256, b"code")

    def bundle(self, sha256, content=b""):
        return Bundle(location=f"{self.name}/{sha256}", argv=("train.py",), sha256=sha256, content=content)

    def send(self, bundle):
        if self.refuses is not None:
            raise self.refuses
        self.sent += 1
        self.kept.add(bundle.sha256)

    def code(self, code):
        return self.bundle(code.sha256) if code.sha256 in self.kept else None


def of(sha256):
    whole = record()
    return attrs.evolve(whole, code=attrs.evolve(whole.code, sha256=sha256))


def same(text):
    """An equal text that is another object, as one from a record is."""
    return "".join(list(text))


def test_the_code_of_each_backend_is_staged_and_sent_once():
    staged, place = Staged("bert-1", SPEC), Place("a", "aa")
    first = staged.on(place, None, None)
    assert first.content == b"code"
    staged.send(place)
    staged.send(place)
    assert staged.on(place, place, of("aa")) == first
    assert (place.staged, place.sent) == (1, 1)
    assert staged.on(place, None, None).content == b""


def test_all_backends_run_the_code_that_was_staged_first():
    staged = Staged("bert-1", SPEC)
    staged.on(Place("a", "aa" * 8), None, None)
    assert staged.on(Place("b", same("aa" * 8)), None, None).sha256 == "aa" * 8
    changed = Place("c", "bb", kept=["aa" * 8])
    assert staged.on(changed, changed, of("aa" * 8)).location == f"c/{'aa' * 8}"


def test_code_that_has_changed_since_is_run_nowhere():
    staged = Staged("bert-1", SPEC)
    staged.on(Place("a", "aa"), None, None)
    changed = Place("b", "bb", kept=["bb"])
    for recorder, there in ((None, None), (changed, None), (None, of("aa")), (changed, of("aa"))):
        with pytest.raises(RequestError, match="of bert-1 is not where b could find it") as caught:
            staged.on(changed, recorder, there)
        assert caught.value.why == "its folder has changed since it was submitted"
        assert caught.value.try_elsewhere


def test_a_backend_that_tells_no_hash_runs_the_folder_and_binds_nobody():
    staged = Staged("bert-1", SPEC)
    assert staged.on(Place("a", ""), None, None).sha256 == ""
    assert staged.on(Place("b", "bb"), None, None).sha256 == "bb"
    assert staged.on(Place("c", ""), None, None).sha256 == ""
    with pytest.raises(RequestError):
        staged.on(Place("d", "dd"), None, None)


def test_who_only_knows_the_job_runs_what_lies_there():
    place = Place("a", "never staged", kept=["aa"])
    assert Staged("bert-1").on(place, place, of("aa")).sha256 == "aa"
    with pytest.raises(RequestError) as caught:
        Staged("bert-1").on(place, place, of("bb"))
    assert caught.value.why == ""
    assert place.staged == 0


@pytest.mark.parametrize(
    ("refuses", "is_at_hand"),
    [
        (None, True),
        (TransientError("later"), True),
        (AuthError("never"), False),
        (RequestError("gone"), False),
    ],
)
def test_code_is_at_hand_unless_somebody_says_that_it_is_not(refuses, is_at_hand):
    place = Place("a", "", kept=["aa"])
    place.refuses = refuses
    assert Staged("bert-1").is_at_hand(place, place, of("aa")) is is_at_hand
    unsent = Place("a", "aa")
    unsent.refuses = refuses
    assert Staged("bert-1", SPEC).is_at_hand(unsent, unsent, of("aa"))  # it would be sent, which is no look
    assert unsent.sent == 0
    assert not Staged("bert-1").is_at_hand(place, place, of("bb"))


@pytest.mark.parametrize(
    ("entry", "told", "runs"),
    [
        ({"script": "train.py", "args": ("--lr", "1")}, ("train.py", "--lr", "7"), ("train.py", "--lr", "1")),
        ({"script": "a/train.py"}, ("src/a/train.py",), ("src/a/train.py",)),
        ({"script": "C:\\code\\train.py"}, ("train.py",), ("train.py",)),
        ({"module": "pkg.train", "args": ("x",)}, ("-c", "import os"), ("-m", "pkg.train", "x")),
        ({"command": ("sh", "run.sh")}, ("-c", "import os"), ("sh", "run.sh")),
        ({"script": "train.py"}, ("-c", "import os"), None),
        ({"script": "train.py"}, ("other.py",), None),
        ({"script": "train.py"}, (), None),
    ],
)
def test_what_is_run_again_is_what_the_spec_says_and_not_what_is_told_beside_it(entry, told, runs):
    place, spec = Place("a", "aa", kept=["aa"]), TrainingSpec(**entry)
    there = record(spec=spec.to_dict())
    there = attrs.evolve(there, code=attrs.evolve(there.code, sha256="aa", argv=told))
    staged = Staged("bert-1")
    if runs is None:
        with pytest.raises(RequestError, match="another program than its spec"):
            staged.on(place, place, there)
    else:
        assert staged.on(place, place, there).argv == runs
