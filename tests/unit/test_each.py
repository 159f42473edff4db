import os

import pytest

from tests.each import each


def test_all_rows_are_looked_at_and_each_that_fails_is_named():
    seen = []

    @each(("number", "word"), [(1, "one"), pytest.param(2, "two", id="second"), (3, "three")])
    def test(number, word):
        seen.append(number)
        assert number == 2, "odd"
        pytest.fail("even")

    message = "(?s)3 of 3 rows.*'one'.: .*odd.*'two'.: even.*'three'.: .*odd"
    with pytest.raises(AssertionError, match=message):
        test()
    assert seen == [1, 2, 3]


@each("name", ["A", "B"])
@each("number", [1, 2])
def test_a_row_has_a_folder_and_an_environment_of_its_own(name, number, tmp_path, monkeypatch):
    assert not {"EACH_A", "EACH_B"} & set(os.environ)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv(f"EACH_{name}", str(number))
    (tmp_path / name).touch()


def test_a_table_without_rows_is_refused():
    with pytest.raises(AssertionError):
        each("name", [])
