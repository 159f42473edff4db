"""Nothing travels with a job that its owner keeps back: what git ignores, and what holds credentials."""

import io
import subprocess
import tarfile

import pytest
from hypothesis import example, given, settings, strategies as st

import gputrain_emulator
from gputrain import ComputeEngine, Trainer
from gputrain.code.bundle import missed, pack, survey
from gputrain.errors import SpecError
from tests.each import each

KEY = f"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq{'hkiG9w0BAQEF' * 4}\n-----END PRIVATE KEY-----\n"
PLANTED = (
    ".env", ".env.local", "app/.env", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".aws/credentials",
    ".config/gcloud/application_default_credentials.json", ".kube/config", ".ssh/id_rsa", "id_ed25519",
    "server.pem", "tls.key", "cert.p12", "infra/terraform.tfstate", ".docker/config.json", ".bash_history",
    ".pgpass", "kaggle.json", ".vault-token",
)  # fmt: skip


def write(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


def travelling(folder):
    with tarfile.open(fileobj=io.BytesIO(pack(str(folder)).data)) as tar:
        return set(tar.getnames())


def git(folder, *words, given=None):
    done = subprocess.run(["git", "-C", str(folder), *words], input=given, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


@each("name", PLANTED)
def test_what_holds_credentials_by_its_name_stays_behind_and_is_told(tmp_path, name):
    write(tmp_path, {"train.py": "print()", name: "canary"})
    assert travelling(tmp_path) == {"train.py"}
    behind = survey(str(tmp_path)).behind_of(name)
    assert "may hold credentials" in behind.reason


def test_only_a_line_of_ours_takes_such_a_file_along(tmp_path):
    write(tmp_path, {"train.py": "", ".env": "LR=1", ".gitignore": "!.env\n"})
    assert ".env" not in travelling(tmp_path)
    write(tmp_path, {".gputrainignore": "!.env\n"})
    assert ".env" in travelling(tmp_path)


@each(
    "text",
    [KEY, '{"type": "service_account", "private_key": "' + KEY.replace("\n", "\\n") + '"}',
     "token: ghp_" + "a1B2" * 9, "HF = 'hf_" + "x" * 34 + "'", "github_pat_" + "A1" * 20, "nvapi-" + "a" * 40,
     '{"refresh_token": "1//0' + "g" * 40 + '"}', "aws = AKIAIOSFODNN7EXAMPLE", "glpat-" + "a" * 20],
)  # fmt: skip
def test_a_small_file_with_a_key_is_refused_by_name(tmp_path, text):
    write(tmp_path, {"train.py": "", "conf/settings.txt": text})
    with pytest.raises(SpecError) as caught:
        pack(str(tmp_path))
    assert "conf/settings.txt" in str(caught.value)
    assert text not in str(caught.value)
    write(tmp_path, {".gputrainignore": "!conf/settings.txt\n"})
    assert "conf/settings.txt" in travelling(tmp_path)


def test_rules_from_the_top_of_the_repository_hold_in_every_folder(tmp_path):
    git(tmp_path, "init", "-q")
    write(
        tmp_path,
        {
            ".gitignore": "*.json\n/exp/data/\nsecrets/\nnotes.md\n",
            "exp/.gitignore": "!kept.json\n", "exp/train.py": "", "exp/drop.json": "", "exp/kept.json": "",
            "exp/data/a": "", "exp/secrets/db.txt": "", "exp/notes.md": "",
        },
    )  # fmt: skip
    assert travelling(tmp_path / "exp") == {"train.py", "kept.json", ".gitignore"}


def test_a_worktree_and_a_submodule_have_the_exclude_file_of_their_repository(tmp_path):
    main = tmp_path / "main"
    main.mkdir()
    git(main, "init", "-q")
    write(main, {"train.py": ""})
    git(main, "add", ".")
    git(main, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a")
    git(main, "worktree", "add", "-q", str(tmp_path / "beside"))
    write(main, {".git/info/exclude": "private\n"})
    write(tmp_path / "beside", {"private": "", "train.py": ""})
    assert travelling(tmp_path / "beside") == {"train.py"}


def test_a_folder_that_is_ignored_itself_travels_where_it_is_named(tmp_path):
    git(tmp_path, "init", "-q")
    write(tmp_path, {".gitignore": "build/\n", "build/out/train.py": ""})
    assert travelling(tmp_path / "build" / "out") == {"train.py"}


_PART = st.sampled_from(
    ["a", "b", "ab", "a.b", "*", "?", "**", "a*", "*b", "[ab]", "[!a]", "[a-c]", "[^b]*", "a**b",
     "[[:alpha:]]", "\\*", "\\a", "[]a]", "[a", "[z-a]", "a b", "[\\]]", "é", "[!-a]", "A",
     "[[:no:]]", "[a-]", "[--0]", "[\\a-c]", "[[:digit:]-z]", "[a-c-e]", "[!]a]", "[[]"]
)  # fmt: skip
_GLOBS = st.builds(
    lambda start, parts, end: start + "/".join(parts) + end,
    st.sampled_from(["", "/", "!", "!/"]),
    st.lists(_PART, min_size=1, max_size=3),
    st.sampled_from(["", "/", " ", "\\ ", "\\", "/**", "\t"]),
)
_PATHS = (
    "a", "b", "ab", "aab", "a.b", "a/a", "a/b", "b/a", "a/b/a", "b/ab/a", "ab/ab", "a/a/a/b", "[a", "[ab]",
    "*", "a b", "]", "-", "a*b", "é", "é/a", "A", "a ", "b/*", "z", "a/z", "**", "c", "d", "1",
)  # fmt: skip


@pytest.mark.check  # two processes an example
@settings(max_examples=150)
@given(st.lists(_GLOBS, min_size=1, max_size=4), st.sampled_from(["", "x/", "x/y/"]))
@example(["*", "!a/", "!a"], "")
@example(["a/*", "!a/b"], "")
def test_we_ignore_what_git_ignores(tmp_path_factory, globs, inside):
    """Lines that nobody chose, judged by ``git check-ignore`` for every path, also from a folder below."""
    top = tmp_path_factory.mktemp("law")
    git(top, "init", "-q")
    write(top, {".gitignore": "\n".join(globs)})
    listed = []
    for path in _PATHS:
        folder = top / inside / path.rpartition("/")[0]
        try:  # a path that is a file cannot be a folder too: the deeper one wins
            folder.mkdir(parents=True, exist_ok=True)
            (top / inside / path).write_text("")
            listed.append(path)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            continue
    names = "".join(f"{inside}{path}\0" for path in listed)
    ignored = git(top, "check-ignore", "-z", "--stdin", "--no-index", given=names).split("\0")
    kept = {path for path in listed if f"{inside}{path}" not in ignored}
    ours = {one.path for one in survey(str(top / inside)).files} & set(listed)
    above = any(git(top, "check-ignore", "--no-index", inside[:end]) for end in _ends(inside))
    assert above or ours == kept, (globs, ours ^ kept)


def _ends(inside):
    return [number for number, letter in enumerate(inside) if letter == "/"]


def test_a_plan_says_what_travels_and_what_stays(tmp_path, cloud_trainer):
    write(tmp_path, {"train.py": "pass\n", ".gitignore": "data/\n", "data/train.bin": "x"})
    planned = cloud_trainer.plan(str(tmp_path / "train.py"), gpu="L4:1")
    told = "2 files, 11 bytes to upload; excluded: data/ (.gitignore: data/)"
    assert planned.uploads == told
    assert told in planned.explain()
    assert told in " ".join(str(planned).split())
    assert planned.bundle().behind_of("data/train.bin").reason == ".gitignore: data/"


def test_a_key_is_refused_wherever_it_is_told_what_travels(tmp_path, cloud_trainer):
    key = f"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq{'hkiG9w0BAQEF' * 4}\n-----END PRIVATE KEY-----\n"
    write(tmp_path, {"train.py": "pass\n", "deploy.txt": key})
    planned = cloud_trainer.plan(str(tmp_path / "train.py"), gpu="L4:1")
    assert "deploy.txt (a private key)" in str(planned.faults[0])
    for look in (planned.bundle, planned.submit):
        with pytest.raises(SpecError, match=r"deploy\.txt \(a private key\)"):
            look()
    write(tmp_path, {".gputrainignore": "!deploy.txt\n"})
    assert "deploy.txt" in {one.path for one in planned.bundle().files}


def test_a_file_that_a_rank_missed_is_known_to_have_stayed_behind(tmp_path):
    write(tmp_path, {"train.py": "", ".gitignore": "data/\n", "data/train.bin": "x"})
    missed_it = "Traceback\nFileNotFoundError: [Errno 2] No such file or directory: 'data/train.bin'"
    assert ".gitignore: data/" in missed(str(tmp_path), missed_it)
    assert missed(str(tmp_path), missed_it.replace("data/", "other/")) == ""
    assert missed(str(tmp_path), "ValueError: data/train.bin") == ""
    assert missed(str(tmp_path / "gone"), missed_it) == ""


@pytest.fixture
def cloud_trainer():
    with gputrain_emulator.start() as cloud:
        cloud.add_bucket("my-bucket", location="us-central1")
        backend = ComputeEngine(
            "my-project", regions=["us-central1"], bucket="gs://my-bucket", endpoints=cloud.endpoints,
            credentials=cloud.credentials,
        )  # fmt: skip
        yield Trainer(backend)
