import pytest

from gputrain.backends.local.requirements import missing


@pytest.mark.parametrize(
    "text",
    [
        "attrs",
        "attrs>=1",
        "attrs >= 1, < 1000",
        "attrs; python_version < '3'",
        "nowhere; python_version < '3'",
    ],
)
def test_what_this_python_has_is_not_missing(text):
    assert missing([text]) == ()


@pytest.mark.parametrize(
    "text",
    [
        "attrs>=1000",
        "attrs==0.0.1",
        "nowhere-to-be-found",
        "attrs @ https://example.com/a.whl",
        "-e .",
        "?",
        "./folder",
    ],
)
def test_what_it_lacks_or_only_pip_can_read_is_missing(text):
    assert missing([text]) == (text,)


def test_a_file_of_requirements_is_read_line_by_line(tmp_path):
    (tmp_path / "requirements.txt").write_text("# tools\n\nattrs>=1  # values\nnowhere==1\n--hash=sha256:0\n")
    assert missing(("-r", "requirements.txt"), str(tmp_path)) == ("nowhere==1", "--hash=sha256:0")


def test_a_file_that_is_not_there_asks_for_nothing(tmp_path):
    assert missing(("-r", "none.txt"), str(tmp_path)) == ()
