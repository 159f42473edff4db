"""What of a folder travels: packed as the same bytes for the same files, with nothing hostile in it."""

import io
import os
import socket
import subprocess
import tarfile

import pytest

from gputrain import VertexAI
from gputrain.code.bundle import check, pack, read_dockerignore, survey
from gputrain.errors import SpecError
from gputrain.spec import TrainingSpec
from gputrain_emulator.storage import Storage
from tests.each import each
from tests.support import clouds

KEY = f"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq{'hkiG9w0BAQEF' * 4}\n-----END PRIVATE KEY-----\n"
FILES = {"train.py": "print()", "pkg/__init__.py": "", "pkg/model.py": "x = 1", "data/big.bin": b"\0" * 999}


def write(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(folder)


def contents(archive):
    with tarfile.open(fileobj=io.BytesIO(archive.data)) as tar:
        return {one.name: tar.extractfile(one).read() for one in tar}


def names(folder):
    return list(contents(pack(str(folder))))


def git(folder, *words):
    subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True)


def test_the_same_files_make_the_same_bytes_wherever_and_whenever(tmp_path):
    one = write(tmp_path / "one", FILES)
    other = write(tmp_path / "two", dict(reversed(FILES.items())))
    for name in FILES:
        os.utime(f"{other}/{name}", (1, 1))
    assert pack(one) == pack(other)
    write(tmp_path / "two", {"pkg/model.py": "x = 2"})
    assert pack(one).name != pack(other).name


def test_a_program_stays_a_program_and_files_we_make_win(tmp_path):
    write(tmp_path, {"run.sh": "#!/bin/sh", "train.py": "1"})
    (tmp_path / "run.sh").chmod(0o700)
    packed = pack(str(tmp_path), made={"train.py": b"2", ".gputrain/agent.pyz": b"zip"})
    with tarfile.open(fileobj=io.BytesIO(packed.data)) as tar:
        modes = {one.name: one.mode for one in tar}
    assert modes == {"run.sh": 0o755, "train.py": 0o644, ".gputrain/agent.pyz": 0o644}
    assert contents(packed)["train.py"] == b"2"


def test_no_program_that_a_repository_names_is_run(tmp_path):
    git(write(tmp_path, {"train.py": ""}), "init", "-q")
    git(tmp_path, "config", "core.fsmonitor", f"touch {tmp_path}/ran; false")
    assert names(tmp_path) == ["train.py"]


def test_a_link_that_stays_inside_travels_as_what_it_names(tmp_path):
    write(tmp_path, {"AGENTS.md": "words", "vocab/a.txt": "a", "vocab/b/c.txt": "c"})
    (tmp_path / "CLAUDE.md").symlink_to("AGENTS.md")
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/vocab").symlink_to(tmp_path / "vocab")
    found = contents(pack(str(tmp_path)))
    assert (found["CLAUDE.md"], found["pkg/vocab/b/c.txt"], len(found)) == (b"words", b"c", 6)


def test_all_that_cannot_travel_is_told_at_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a socket's path must be short
    write(tmp_path, {"train.py": "", ".env": "KEY=1", "new\nline.py": "", "back\\slash.py": "", "sub/a": ""})
    for name, target in {
        "out": "/etc/passwd",
        "up": "../x",
        "gone": "nowhere",
        "env": ".env",
        "sub/me": "..",
    }.items():
        (tmp_path / name).symlink_to(target)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")
        with pytest.raises(SpecError) as caught:
            pack(str(tmp_path))
    for told in ("out is a link to /etc/passwd", "up is a link to ../x", "gone is a link",
                 "env is a link to .env", "sub/me is a link", "s is neither a file nor a folder",
                 "'new\\nline.py' is a name"):  # fmt: skip
        assert told in caught.value.what
    write(tmp_path, {".gputrainignore": "out\nup\ngone\nenv\nme\ns\nback*\nnew*\n"})
    assert set(names(tmp_path)) == {"train.py", "sub/a", ".gputrainignore"}


def test_what_is_there_by_its_name_alone_is_warned_of(tmp_path):
    write(tmp_path, {"model.pt": "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"})
    (warning,) = check(survey(str(tmp_path))).warnings
    assert warning == "model.pt is a pointer of Git LFS, not the file: git lfs pull"


def test_a_folder_that_is_too_large_names_its_ten_biggest_files(tmp_path):
    seen = survey(write(tmp_path, {f"f{n:02}.bin": b"x" * (1000 + n) for n in range(12)}))
    assert check(seen, seen.size) == seen
    with pytest.raises(SpecError, match=r"more than 11\.8 KiB") as caught:
        check(seen, seen.size - 1)
    assert all(f"f{n:02}.bin" in str(caught.value) for n in range(2, 12))
    assert "f01.bin" not in str(caught.value)
    assert ".gputrainignore" in caught.value.fix


@each(
    ("lines", "stays", "travels"),
    [
        (["*/temp*"], ["a/temporary.txt", "a/temp/x"], ["temp", "a/b/temp"]),
        (["temp?"], ["tempa", "tempb/x"], ["temp", "a/tempa"]),
        (["/foo/bar"], ["foo/bar", "foo/bar/x"], ["bar", "x/foo/bar"]),
        (["./foo/../bar/"], ["bar", "bar/x"], ["foo"]),
        (["**/*.go"], ["a.go", "x/y/a.go"], ["a.got"]),
        (["**/node_modules"], ["node_modules/x", "a/node_modules/b/c"], ["node_modules2"]),
        (["data/**"], ["data/a", "data/a/b"], ["data"]),
        (["*.md", "!README.md"], ["a.md"], ["README.md", "a/b.md"]),
        (["*.md", "!README*.md", "README-secret.md"], ["README-secret.md"], ["README.md"]),
        (["*", "!src", "src/*.log"], ["a", "src/x.log"], ["src/a.py", "src/b/x.log"]),
        (["# no", " # is", "  a  ", "! a/b", "", " \r"], ["a", "a/c"], ["# no", "a/b"]),
        (["[a-c].txt", "\\*x"], ["b.txt", "*x"], ["d.txt", "yx"]),
    ],
)  # fmt: skip
def test_a_line_of_dockerignore_holds_back_what_docker_holds_back(tmp_path, lines, stays, travels):
    (tmp_path / ".dockerignore").write_text("\n".join(lines))
    read = read_dockerignore(str(tmp_path / "Dockerfile"), str(tmp_path))
    assert [one for one in stays if not read.holds(one)] == []
    assert [one for one in travels if read.holds(one)] == []


def test_code_is_sent_once_and_again_where_it_was_removed(cloud, tmp_path):
    backend = VertexAI(**clouds.settings(cloud, regions=["us-central1"]))
    write(tmp_path, {"train.py": "pass\n"})
    code = backend.package(TrainingSpec(script=str(tmp_path / "train.py")), "bert")

    def uploads():
        return sum(one.method == "storage.objects.insert" for one in cloud.requests)

    assert uploads() == 0
    backend.upload(code)
    backend.upload(code)
    assert (uploads(), backend.find_code(code.sha256, code.argv)) == (1, code)
    cloud.world.part(Storage).objects.delete("my-bucket", code.location.removeprefix("gs://my-bucket/"))
    assert backend.find_code(code.sha256, code.argv) is None
    backend.upload(code)
    assert uploads() == 2
