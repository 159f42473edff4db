"""What `.dockerignore` holds back, by examples of dockerignore(5) and of Docker's own page."""

import pytest

from gputrain.staging import dockerignore
from tests.each import each


@pytest.fixture
def rules(tmp_path):
    def read(*lines):
        (tmp_path / ".dockerignore").write_bytes("\n".join(lines).encode())
        return dockerignore.read(str(tmp_path / "Dockerfile"), str(tmp_path))

    return read


@each(
    ("lines", "stays", "travels"),
    [
        (["*/temp*"], ["a/temporary.txt", "a/temp/x"], ["temp", "a/b/temp"]),
        (["*/*/temp*"], ["a/b/temporary.txt"], ["a/temp"]),
        (["temp?"], ["tempa", "tempb/x"], ["temp", "a/tempa"]),
        (["/foo/bar"], ["foo/bar", "foo/bar/x"], ["bar", "x/foo/bar"]),
        (["./foo/../bar/"], ["bar", "bar/x"], ["foo"]),
        (["**/*.go"], ["a.go", "x/y/a.go"], ["a.got"]),
        (["**/node_modules"], ["node_modules/x", "a/node_modules/b/c"], ["node_modules2"]),
        (["data/**"], ["data/a", "data/a/b"], ["data"]),
        (["*.md", "!README.md"], ["a.md"], ["README.md", "a/b.md"]),
        (["*.md", "!README*.md", "README-secret.md"], ["README-secret.md"], ["README.md"]),
        (["*.md", "README-secret.md", "!README*.md"], ["a.md"], ["README-secret.md"]),
        (["*", "!src", "src/*.log"], ["a", "src/x.log"], ["src/a.py", "src/b/x.log"]),
        (["# no", " # is", "  a  ", "! a/b", "", " \r"], ["# is", "a", "a/c"], ["# no", "a/b"]),
        (["[a-c].txt", "\\*x"], ["b.txt", "*x"], ["d.txt", "yx"]),
        (["caf\u00e9?"], ["caf\u00e9s"], ["caf\u00e9"]),
    ],
)
def test_a_line_holds_back_what_docker_holds_back(rules, lines, stays, travels):
    read = rules(*lines)
    assert [one for one in stays if not read.holding(one)] == []
    assert [one for one in travels if read.holding(one)] == []


def test_a_folder_is_passed_over_as_a_whole_where_nothing_in_it_comes_back(rules):
    assert rules("data").holding("data", is_folder=True) == ".dockerignore: data"
    assert rules("data", "!data/a").holding("data", is_folder=True) == ""


@pytest.mark.timeout(20)
def test_no_line_takes_long(rules):
    read = rules("*a" * 40 + "b", "**/" * 40 + "b", "**/a/" * 40 + "b", "!" * 50)
    assert not read.holding("a" * 200)
    assert not read.holding("/".join("a" * 100))


def test_where_there_is_none_all_travels(tmp_path):
    assert dockerignore.read(str(tmp_path / "Dockerfile"), str(tmp_path)) is dockerignore.NOTHING


@each("line", ["[", "a[", "!", "! ", "[]", "a\\\\\\"])
def test_a_line_that_docker_refuses_is_refused(rules, line):
    with pytest.raises(ValueError, match="is no pattern"):
        rules("a", line)
