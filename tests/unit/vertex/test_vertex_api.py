"""The calls to the job service, made by many at once."""

import pytest

from gputrain.errors import RequestError


def test_a_field_that_the_library_does_not_know_is_refused_before_anything_is_sent(cloud, make):
    with pytest.raises(RequestError, match="takes no such request") as caught:
        make()._jobs.create("us-central1", {"displayName": "a", "gpuTurbo": True})
    assert "gpuTurbo" in caught.value.why
    assert cloud.requests == []
