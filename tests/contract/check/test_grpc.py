"""Vertex AI over gRPC: jobs are made, looked at, listed and cancelled by other calls than over REST."""

import pytest

from tests.contract.emulated_vertex import world
from tests.contract.test_backends import (  # noqa: F401  # run again, over the road below
    test_a_failure_is_the_first_cause_with_its_own_traceback,
    test_a_job_that_is_not_there_is_lost,
    test_jobs_are_listed_newest_first_and_by_the_beginning_of_their_name,
)
from tests.contract.test_cancels import (  # noqa: F401
    is_over,
    submit,
    test_while_it_runs_so_that_its_ranks_may_save,
)


@pytest.fixture
def road():
    with world("vertex-grpc") as found:
        yield found
