"""Fixtures of the escape tests: the installation under test, who attacks, and what doctor says."""
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "integration"))
pytest.register_assert_rewrite("suite")

from blackbox import Programs, Who, find_prefix, make_scratch, make_user, remove_user  # noqa: E402
from suite import Attack  # noqa: E402


def pytest_configure(config):
    config.addinivalue_line("markers", "long: takes minutes, run by ./dev test --long")


@pytest.fixture(scope="session")
def scratch():
    folder = make_scratch()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def programs(scratch):
    return Programs(find_prefix(scratch))


@pytest.fixture(scope="session")
def people():
    """Root, if the tests run as root, and an ordinary user."""
    user, made = make_user()
    root = Who("root", 0, 0)
    yield {"user": user} if user.uid == 0 or not made else {"root": root, "user": user}
    if made:
        remove_user(made)


@pytest.fixture(params=["root", "user"])
def who(request, people):
    if request.param not in people:
        pytest.skip("the tests do not run as root")
    return people[request.param]


@pytest.fixture(scope="session")
def doctor(programs):
    """A function: what `confine doctor` says to somebody of each runner, by name."""
    known = {}

    def ask(who):
        if who not in known:
            done = subprocess.run([programs.confine, "doctor", "--json"], preexec_fn=who.become, check=False,
                                  cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=60)
            known[who] = {entry["name"]: entry for entry in json.loads(done.stdout)["runners"]}
        return known[who]

    return ask


@pytest.fixture(scope="session")
def attack(programs):
    """A function that runs the escape suite, once for each question."""
    return Attack(programs)
