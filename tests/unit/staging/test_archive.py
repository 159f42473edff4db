"""A folder becomes the same bytes for the same files, and nothing hostile is in them."""

import io
import os
import re
import socket
import subprocess
import tarfile

import attrs
import pytest
from hypothesis import assume, example, given, settings, strategies as st

from gputrain.errors import SpecError
from gputrain.staging.archive import is_program, pack
from gputrain.staging.fitness import MAX_BYTES, check_size
from gputrain.staging.ignore import IgnoreRules, read_rules
from gputrain.staging.survey import Behind, Survey, Travelling, missed, size_text, survey
from tests.each import each


def write(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(folder)


def contents(archive):
    with tarfile.open(fileobj=io.BytesIO(archive.data)) as tar:
        return {one.name: tar.extractfile(one).read() for one in tar}


def names(archive):
    return list(contents(archive))


FILES = {"train.py": "print()", "pkg/__init__.py": "", "pkg/model.py": "x = 1", "data/big.bin": b"\0" * 999}


def test_the_same_files_make_the_same_bytes_wherever_and_whenever(tmp_path):
    one = write(tmp_path / "one", FILES)
    other = write(tmp_path / "two", dict(reversed(FILES.items())))
    for name in FILES:
        os.utime(f"{other}/{name}", (1, 1))
    assert pack(one).data == pack(other).data


@settings(max_examples=30, deadline=None)
@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,3}(/[a-z]{1,3})?\.[ab]", fullmatch=True), st.binary(max_size=50), max_size=6
    )
)
def test_what_is_packed_is_what_was_there(tmp_path_factory, files):
    assert contents(pack(write(tmp_path_factory.mktemp("law"), files))) == files


def test_a_change_of_one_byte_changes_the_name(tmp_path):
    first = pack(write(tmp_path, FILES)).name
    assert pack(write(tmp_path, {"pkg/model.py": "x = 2"})).name != first


def test_a_program_stays_a_program(tmp_path):
    write(tmp_path, {"run.sh": "#!/bin/sh", "train.py": ""})
    (tmp_path / "run.sh").chmod(0o700)
    with tarfile.open(fileobj=io.BytesIO(pack(str(tmp_path)).data)) as tar:
        modes = {one.name: one.mode for one in tar}
    assert modes == {"run.sh": 0o755, "train.py": 0o644}


def test_files_we_make_travel_along(tmp_path):
    made = {".gputrain/agent.pyz": b"zip", "a.py": b"2"}
    assert contents(pack(write(tmp_path, {"a.py": "1"}), made=made)) == made


def test_ignore_files_are_read_in_every_folder(tmp_path):
    write(
        tmp_path,
        {
            **FILES,
            ".gitignore": "data/\n*.log\n",
            ".gputrainignore": "!keep.log\n",
            "pkg/.gitignore": "/secret.py\n",
            "pkg/secret.py": "",
            "secret.py": "",
            "keep.log": "",
            "drop.log": "",
            "__pycache__/x.pyc": b"",
            ".git/config": "",
            "env/pyvenv.cfg": "",
            "env/lib.py": "",
        },
    )
    assert set(names(pack(str(tmp_path)))) == {
        "train.py", "pkg/__init__.py", "pkg/model.py", "pkg/.gitignore", "secret.py", "keep.log",
        ".gitignore", ".gputrainignore",
    }  # fmt: skip


def test_our_ignore_rules_agree_with_gits(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    rules = [
        "*.log",
        "!keep.log",
        "/top.txt",
        "deep/*.txt",
        "**/cache/",
        "a?c",
        "[xy]z",
        "logs/**",
        "x/**/y",
        "end/",
    ]
    rules += ["sp ace", "#comment", "", "  ", "\\#literal", "[!a]b.q", "foo/"]
    paths = [
        "a.log", "keep.log", "sub/keep.log", "top.txt", "sub/top.txt", "deep/a.txt", "deep/x/a.txt",
        "cache/f", "q/cache/f", "abc", "q/abc", "a/c", "xz", "q/yz", "logs/a", "logs/b/c", "x/y", "x/a/y",
        "x/a/b/y", "end/f", "q/end/f", "end2", "sp ace", "#literal", "#comment", "cb.q", "ab.q",
        "foo/a", "foo2/foo",
    ]  # fmt: skip
    (tmp_path / ".gitignore").write_text("\n".join(rules))
    write(tmp_path, dict.fromkeys(paths, ""))
    listed = subprocess.run(
        ["git", "-C", str(tmp_path), "ls-files", "-z", "--others", "--exclude-standard"],
        capture_output=True, check=True, text=True,
    ).stdout.split("\0")  # fmt: skip
    assert set(names(pack(str(tmp_path)))) == {name for name in listed if name}


WORDS = ["a", "b", "ab", "ba", "bb", "aab", "a-b", "abab", "*", "!", "a\\", "a\\ "]
PATHS = [*WORDS, *(f"{one}/{two}" for one in WORDS[:6] for two in WORDS[:6]), "a/b/a", "a/b/b/ab", "b/a/ab/a"]


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rules")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


@settings(max_examples=60, deadline=None)
@example(rule="[]")
@example(rule="[!]")
@example(rule="[b-a]")
@example(rule="a\\\\ ")
@given(rule=st.text("ab*?/", min_size=1, max_size=8) | st.text("ab*?/[]!^\\-", min_size=1, max_size=8))
def test_any_rule_says_what_git_says_of_it(repository, rule):
    assume(not re.search(r"[^/]\*\*", rule))  # git 2.39 compares addresses there: "a**/b" is told as it falls
    (repository / ".gitignore").write_text(rule)
    asked = ["git", "-C", str(repository), "check-ignore", "--no-index", "-z", "--stdin"]
    said = subprocess.run(asked, input="\0".join(PATHS), capture_output=True, text=True, check=False).stdout
    rules = IgnoreRules(git=tuple(read_rules([rule])))

    def is_ignored(path):
        ends = [at for at, letter in enumerate(path) if letter == "/"] + [None]
        return any(rules.holding(path[:end], is_folder=end is not None) for end in ends)

    assert [path for path in PATHS if is_ignored(path)] == [path for path in said.split("\0") if path]


def test_a_folder_within_a_repository_obeys_the_rules_above_it(repository):
    (repository / ".gitignore").write_text("*.log\n/code/deep/top.txt\n")
    (repository / ".git/info/exclude").write_text("excluded\n")
    files = ["a.log", "top.txt", "excluded", "train.py", "held.txt", "sub/held.txt"]
    write(repository / "code/deep", dict.fromkeys(files, ""))
    (repository / "code/.gitignore").write_text("deep/held.txt\n")
    assert names(pack(str(repository / "code/deep"))) == ["sub/held.txt", "train.py"]


def test_a_rule_of_many_stars_is_read_at_once():
    (rule,) = read_rules(["*_*_*_*_*_*_*_*_*_*_*_*x"])  # years, where each star is tried at every place
    assert not rule.matches("_" * 200, is_folder=False)
    assert rule.matches("_" * 200 + "x", is_folder=False)


def test_a_folder_rule_leaves_a_file_of_that_name():
    rules = IgnoreRules(git=tuple(read_rules(["build/"])))
    assert rules.holding("build", is_folder=True)
    assert not rules.holding("build", is_folder=False)


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "train.py", "nowhere"])
def test_links_are_refused_by_name(tmp_path, target):
    write(tmp_path, {"train.py": ""})
    (tmp_path / "data").symlink_to(target)
    with pytest.raises(SpecError, match=f"data is a link to {target}"):
        pack(str(tmp_path))


def test_a_link_that_is_ignored_is_no_obstacle(tmp_path):
    write(tmp_path, {"train.py": "", ".gputrainignore": "data\n"})
    (tmp_path / "data").symlink_to("/etc")
    assert "train.py" in names(pack(str(tmp_path)))


def test_sockets_are_refused(tmp_path):
    short = os.path.relpath(tmp_path)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{short}/s")
        with pytest.raises(SpecError, match="s is neither a file nor a folder"):
            pack(str(tmp_path))


@pytest.mark.parametrize("name", ["new\nline.py", "back\\slash.py", "\x1b[31m.py"])
def test_names_that_another_machine_may_misread_are_refused(tmp_path, name):
    write(tmp_path, {name: ""})
    with pytest.raises(SpecError, match="misread"):
        pack(str(tmp_path))


def test_a_folder_that_is_too_large_names_its_ten_biggest_files(tmp_path):
    write(tmp_path, {f"f{n:02}.bin": b"x" * (1000 + n) for n in range(12)})
    with pytest.raises(SpecError) as caught:
        pack(str(tmp_path), max_bytes=5000)
    told = str(caught.value)
    assert all(f"f{n:02}.bin" in told for n in range(2, 12))
    assert "f01.bin" not in told
    assert ".gputrainignore" in caught.value.fix


def test_a_folder_may_be_as_large_as_is_allowed_and_no_larger(tmp_path):
    write(tmp_path, {"a.bin": b"x" * 600, "b.bin": b"x" * 400})
    assert pack(str(tmp_path), max_bytes=1000).files == 2
    with pytest.raises(SpecError, match="it holds 1000 bytes, more than 999 bytes"):
        pack(str(tmp_path), max_bytes=999)


def test_credentials_are_looked_for_in_what_is_no_larger_than_a_file_of_keys(tmp_path):
    key = f"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq{'hkiG9w0BAQEF' * 4}\n-----END PRIVATE KEY-----\n"
    write(tmp_path, {"k.txt": key.ljust(64 * 1024 + 1)})
    assert pack(str(tmp_path)).files == 1
    write(tmp_path, {"k.txt": key.ljust(64 * 1024)})
    with pytest.raises(SpecError, match=r"k\.txt"):
        pack(str(tmp_path))


def test_half_a_gigabyte_of_code_may_travel_and_no_more():
    half = Travelling(path="a.bin", full="", size=512 << 20, is_asked_for=False)
    check_size(Survey(folder="/f", files=(half,), behind=()), MAX_BYTES)
    more = Survey(folder="/f", files=(half, attrs.evolve(half, size=1)), behind=())
    with pytest.raises(SpecError, match=r"more than 512\.0 MiB"):
        check_size(more, MAX_BYTES)


@pytest.mark.parametrize(("count", "more"), [(3, ""), (10, ""), (11, " and 1 more"), (14, " and 4 more")])
def test_files_that_look_like_credentials_are_told_by_name_the_first_ten_of_them(tmp_path, count, more):
    key = f"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq{'hkiG9w0BAQEF' * 4}\n-----END PRIVATE KEY-----\n"
    write(tmp_path, {f"k{number:02}.txt": key for number in range(count)})
    with pytest.raises(SpecError) as caught:
        pack(str(tmp_path))
    told = caught.value.what.partition(" is in ")[2].partition(";")[0]
    assert told.count(".txt") == min(count, 10)
    assert told.endswith(f"(a private key){more}"), told


@each(
    ("size", "text"),
    [
        (0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (1024**2, "1.0 MiB"),
        (1024**3, "1.0 GiB"), (5 * 1024**4, "5,120.0 GiB"),
    ],
)  # fmt: skip
def test_sizes_are_told_in_the_largest_unit_that_they_fill(size, text):
    assert size_text(size) == text


@each("held", [0, 1, 3, 4, 9])
@each(("files", "counted"), [(1, "1 file, 5 bytes travels"), (2, "2 files, 10 bytes travel")])
def test_a_line_tells_how_much_travels_and_the_first_three_that_are_held_back(tmp_path, files, counted, held):
    names = [f"held{number}" for number in range(held)]
    write(tmp_path, {"__pycache__/x.pyc": "", **dict.fromkeys(names, "")})
    write(tmp_path, {f"{number}.py": "12345" for number in range(files)})
    seen = survey(str(tmp_path))
    behind = tuple(Behind(path=name, told_by="held*") for name in names)
    told = attrs.evolve(seen, files=tuple(one for one in seen.files if one.path not in names),
                        behind=(*seen.behind, *behind)).text  # fmt: skip
    listed = ", ".join(f"{name} (held*)" for name in names[:3])
    more = f" and {held - 3} more" if held > 3 else ""
    assert told == counted + (f"; held back: {listed}{more}" if held else "")


@pytest.mark.parametrize(("count", "caption"), [(49, ""), (50, ""), (51, "and 1 more"), (60, "and 10 more")])
def test_a_survey_shows_the_fifty_biggest_of_what_travels(count, caption):
    files = tuple(
        Travelling(path=f"{number:02}", full="", size=number, is_asked_for=False) for number in range(count)
    )
    table = Survey(folder="/f", files=files, behind=()).table
    assert [row[0] for row in table.rows] == [f"{number:02}" for number in reversed(range(count))][:50]
    assert table.caption == caption


def test_where_files_have_no_modes_a_program_is_what_begins_like_one():
    """On Windows, where `stat` makes them up by the name's end."""
    told = [is_program(content, 0o666, has_modes=False) for content in (b"#!/bin/sh\n", b"print()\n", b"")]
    assert told == [True, False, False]
    assert is_program(b"", 0o755, has_modes=True)


@each(
    ("behind", "path", "holds"),
    [
        ("data/", "data", True),
        ("data/", "data/big.bin", True),
        ("data/", "database", False),
        ("data/", "my/data", False),
        ("notes.txt", "notes.txt", True),
        ("notes.txt", "notes.txt/more", False),
        ("notes.txt", "notes", False),
    ],
)
def test_what_stayed_behind_is_a_file_or_a_folder_with_all_that_is_in_it(behind, path, holds):
    assert Behind(path=behind, told_by=".gitignore: x").holds(path) is holds


def test_a_rank_that_missed_what_stayed_behind_is_told_which_line_held_it_back(tmp_path):
    folder = write(tmp_path, {**FILES, ".gitignore": "data/\n"})

    def told(path, folder=folder):
        return missed(folder, f"FileNotFoundError: [Errno 2] No such file or directory: '{path}'\n")

    assert told("./data/big.bin") == (
        "data/ stayed behind (.gitignore: data/): put !/data/ into .gputrainignore, or data into a bucket"
    )
    for path in ("train.py", "other.bin", f"{folder}/data/big.bin"):
        assert told(path) == ""
    assert told("data/big.bin", f"{folder}/gone") == ""
    assert missed(folder, "ValueError: data/big.bin") == ""
