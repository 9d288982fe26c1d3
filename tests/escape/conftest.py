"""Fixtures of the escape tests: who attacks, and how."""
import os

import pytest

pytest.register_assert_rewrite("suite")

from blackbox import Who  # noqa: E402
from suite import Attack  # noqa: E402


@pytest.fixture(scope="session")
def people(ordinary_user):
    """Root, if the tests run as root, and an ordinary user."""
    return {"user": ordinary_user, **({"root": Who("root", 0, 0)} if os.getuid() == 0 else {})}


@pytest.fixture(scope="session")
def attack(programs):
    """A function that runs the escape suite, once for each question."""
    return Attack(programs)
