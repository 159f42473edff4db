"""Rows of one table as one test, which looks at every row before it fails."""

import contextlib
import functools
import inspect

import pytest

FAULTS = (Exception, pytest.fail.Exception)
PARAM = type(pytest.param())


def each(names, rows):
    """Run a test for each row, as pytest.mark.parametrize does, but as one case that names all rows at fault.

    A row has its own monkeypatch and tmp_path; the rows share all other fixtures.
    """
    alone = isinstance(names, str)
    names = (names,) if alone else names
    rows = [row if isinstance(row, PARAM) else pytest.param(*((row,) if alone else row)) for row in rows]
    assert rows, "a table without rows proves nothing"
    assert not any(row.marks for row in rows), "a row of a loop cannot have a mark"
    rows = [row.values for row in rows]

    def loop(test):
        @functools.wraps(test)
        def looped(**fixtures):
            faults = {}
            for number, row in enumerate(rows):
                with _recorded(faults, number), _own(fixtures, number) as own:
                    test(**own, **dict(zip(names, row, strict=True)))
            if faults:
                message = [f"{len(faults)} of {len(rows)} rows fail:"]
                message += [f"  {rows[number]!r:.200}: {fault!r:.500}" for number, fault in faults.items()]
                raise AssertionError("\n".join(message)) from next(iter(faults.values()))

        signature = inspect.signature(test)
        kept = [one for one in signature.parameters.values() if one.name not in names]
        looped.__signature__ = signature.replace(parameters=kept)
        return looped

    return loop


@contextlib.contextmanager
def _recorded(faults, number):
    try:
        yield
    except FAULTS as fault:
        faults[number] = fault


@contextlib.contextmanager
def _own(fixtures, number):
    with contextlib.ExitStack() as stack:
        own = dict(fixtures)
        if "monkeypatch" in own:
            own["monkeypatch"] = stack.enter_context(own["monkeypatch"].context())
        if "tmp_path" in own:
            own["tmp_path"] = own["tmp_path"] / f"row-{number}"
            own["tmp_path"].mkdir(mode=0o700)
        yield own
