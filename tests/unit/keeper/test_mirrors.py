"""The folders of a node, each filled and kept by a process of its own."""

from pathlib import Path

import gputrain
from gputrain.keeper import keeper as keepers
from gputrain.keeper.journal import Journal
from gputrain.keeper.mirrors import Mirrors
from gputrain.keeper.rules import Rules


class Node:
    """A board that wants nothing, and a site that has no limits."""

    asked = ""

    def word(self):
        return ""

    def waiting(self):
        return Rules(float("inf"), "", 0.0)


def test_an_object_that_cannot_be_a_file_is_left_out_and_the_folder_filled(mirror, tmp_path):
    store = mirror({"a": b"1", "a/b": b"2", "c": b"3"}).store
    home = tmp_path / "home"
    home.mkdir()
    journal = Journal(str(home), 0)
    job = {"storage": store._storage, "bucket": "my-bucket", "folder": "jobs/j/", "job_id": "j"}
    root = str(Path(gputrain.__file__).parents[1])
    mirrors = Mirrors(job, root, str(tmp_path / "data"), 0, journal)
    keeper = keepers.Keeper(Node(), Node())
    folder = mirrors.fill(keeper, "gs://my-bucket/ckpt", "checkpoints", str(tmp_path / "killed"), True)
    assert (Path(folder) / "c").read_bytes() == b"3"
    (Path(folder) / "d").write_bytes(b"4")
    assert mirrors.end(keeper) == ""
    assert store.get("ckpt/d") == b"4"
    log = Path(journal._path).read_text()
    assert log.count("cannot be a file here") == 1
    assert not [line for line in log.splitlines() if "filled" in line]
