"""Fixtures of the compatibility tests: a place to do the same work inside and outside."""
import pytest

pytest.register_assert_rewrite("workbench")

from workbench import Bench  # noqa: E402


@pytest.fixture
def bench(scratch, programs, who, runner, request):
    made = Bench(scratch, programs, who, runner, request.node.originalname)
    yield made
    made.close()
