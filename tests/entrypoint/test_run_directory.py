"""A run directory behaves the same in a folder and below a bucket's prefix."""

import threading

import pytest

from gputrain.runtime.peers import open_directory
from tests.support.vm import cloud_of_a_vm


@pytest.fixture(scope="module")
def bucket():
    """The address of an emulated bucket, as whom this machine may write into it."""
    with pytest.MonkeyPatch.context() as patch, cloud_of_a_vm(patch) as cloud:
        yield f"{cloud.endpoints.storage}/my-bucket"


@pytest.fixture(params=["folder", "bucket"])
def place(request, tmp_path):
    if request.param == "folder":
        return str(tmp_path / "run")
    return f"{request.getfixturevalue('bucket')}/jobs/j/{tmp_path.name}/"


def test_a_document_is_put_read_and_put_again(place):
    directory = open_directory(place)
    assert directory.get("go") is None
    directory.put("go", {"run": 1})
    directory.put("go", {"run": 2})
    assert open_directory(place).get("go") == {"run": 2}


def test_the_first_to_create_a_document_wins(place):
    won = []

    def create(node):
        if open_directory(place).create("1/stop", {"node_rank": node}):
            won.append(node)

    threads = [threading.Thread(target=create, args=(node,)) for node in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert open_directory(place).get("1/stop") == {"node_rank": won[0]}


def test_a_list_tells_names_and_when_they_were_written(place):
    directory = open_directory(place)
    assert directory.list("1/status-") == {}
    for name in ("hello-0", "1/status-0", "1/status-1", "1/stop", "10/status-2"):
        directory.put(name, {})
    found = directory.list("1/status-")
    assert sorted(found) == ["1/status-0", "1/status-1"]
    assert found["1/status-0"] <= found["1/status-1"] < found["1/status-0"] + 60
    assert list(directory.list("hello-")) == ["hello-0"]


def test_what_is_no_document_is_none(place, tmp_path):
    directory = open_directory(str(tmp_path))
    for text in ("", "[1]", "{", "[" * 100_000):
        (tmp_path / "go").write_text(text)
        assert directory.get("go") is None
