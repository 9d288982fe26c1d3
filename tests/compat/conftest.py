"""Fixtures of the compatibility tests: the installation under test, and who works with it."""
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "integration"))
pytest.register_assert_rewrite("workbench")

from blackbox import RUNNERS, Programs, Who, find_prefix, lacking, make_scratch, make_user, remove_user  # noqa: E402
from workbench import Bench  # noqa: E402


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
    user, made = make_user()
    yield {"user": user, **({"root": Who("root", 0, 0)} if made else {})}
    if made:
        remove_user(made)


@pytest.fixture(params=["root", "user"])
def who(request, people):
    if request.param not in people:
        pytest.skip("the tests do not run as root")
    return people[request.param]


@pytest.fixture(scope="session")
def usable(programs):
    known = {}

    def ask(who):
        if who not in known:
            done = subprocess.run([programs.confine, "doctor", "--json"], preexec_fn=who.become, check=False,
                                  cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=60)
            known[who] = {entry["name"] for entry in json.loads(done.stdout)["runners"] if entry["usable"]}
        return known[who]

    return ask


@pytest.fixture(params=RUNNERS)
def runner(request, who, usable):
    if request.param not in usable(who):
        lacking(f"the runner {request.param} is not usable by {who.name}")
    return request.param


@pytest.fixture
def bench(scratch, programs, who, runner, request):
    made = Bench(scratch, programs, who, runner, request.node.originalname)
    yield made
    made.close()
