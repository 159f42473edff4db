"""500 malformed specs: each a typed error that names its field, before any file or socket is touched."""

import subprocess
import sys
from pathlib import Path

import pytest

from gputrain import SpecError, TrainingSpec
from tests.each import each
from tests.malformed import malformed

WATCHED = """
import sys
from gputrain import TrainingSpec, SpecError
from tests.malformed import malformed

def refuse_all():
    for field, kwargs in malformed():
        try:
            TrainingSpec(**kwargs)
        except SpecError:
            pass

touched = []
def watch(name, args):
    if name.startswith(("socket.", "open", "os.")):
        touched.append((name, args))

refuse_all()  # the first time reads the package's own modules and tables
sys.addaudithook(watch)
refuse_all()
print(touched)
"""


@each(("field", "kwargs"), list(malformed()))
def test_each_is_a_typed_error_that_names_its_field(field, kwargs):
    with pytest.raises(SpecError) as caught:
        TrainingSpec(**kwargs)
    assert field in {fault.field for fault in caught.value.faults}
    assert all(fault.expected and fault.fix for fault in caught.value.faults)


def test_no_file_and_no_socket_is_touched():
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", WATCHED], cwd=root, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
