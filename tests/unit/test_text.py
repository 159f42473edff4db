import pytest

from gputrain.text import HIDDEN, hide_secret_args, redact
from tests.each import each

KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG\nAAAA\n-----END PRIVATE KEY-----"


@each(
    ("text", "secret"),
    [
        ("the token ya29.c.Kp8BCgi0lxWtUt-_aaaaaaaaaaaa is old", "Kp8BCgi0lxWtUt"),
        ("1//0gdnAaaaaaaaaaCgYIARAAGBASNwF", "0gdnA"),
        ("GOCSPX-aaaaaaaaaaaaaaaaaaaaaaaaaaaa", "aaaa"),
        (f"a key:\n{KEY}\nand more", "MIIEvQ"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIEvQ cut off", "MIIEvQ"),
        ("eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJhQGIifQ.c2lnbmF0dXJl", "c2lnbmF0dXJl"),
        ("Authorization: Bearer opaque", "opaque"),
        ("POST /token?refresh_token=opaque&alt=json", "opaque"),
        ("PUT /upload?upload_id=opaque&alt=json", "opaque"),
    ],
)
def test_credentials_are_hidden(text, secret):
    assert secret not in redact(text)
    assert HIDDEN in redact(text)


@each("part", ["w+", "sk-a-", "eyJaaaaaaaaaa-", "http://", "a://b:", "-----BEGIN A "])
def test_a_long_text_is_read_in_time_that_grows_with_it_and_no_faster(part):
    text = part * (100_000 // len(part))  # minutes, where every start is looked at to the end
    assert redact(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://a:b@h/x git+ssh://u:p@h", f"https://{HIDDEN}@h/x git+ssh://u:{HIDDEN}@h"),
        ("HTTP://tok@h ssh://git@h http://git@h", f"HTTP://{HIDDEN}@h ssh://git@h http://git@h"),
        (f"{'x' * 99}://u:p@h", f"{'x' * 99}://u:{HIDDEN}@h"),
    ],
)
def test_a_login_is_hidden_whatever_the_scheme(text, shown):
    assert redact(text) == shown


def test_an_argument_behind_a_flag_that_names_a_secret_is_hidden():
    args = ["--api-key", "x", "--token=y", "--pad_token", "<pad>", "--", "z"]
    assert hide_secret_args(args) == (
        "--api-key",
        HIDDEN,
        f"--token={HIDDEN}",
        "--pad_token",
        "<pad>",
        "--",
        "z",
    )
