"""Fixtures of all tests of the installed programs. Each test runs as root and as an ordinary user made for the run,
under each runner where the runner matters, in folders of its own below /var/tmp."""
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from blackbox import (RUNNERS, Box, Programs, Who, find_prefix, lacking, make_scratch, make_user,
                      remove_user)


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
def ordinary_user():
    who, made = make_user()
    yield who
    if made:
        remove_user(made)


@pytest.fixture(params=["root", "user"])
def who(request):
    """Who starts confine."""
    return request.getfixturevalue("ordinary_user" if request.param == "user" else "root")


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
def usable_runners(doctor):
    """A function: which runners the host can use for somebody, with the reason why not."""
    return lambda who: {name: None if entry["usable"] else entry["reason"] or "?"
                        for name, entry in doctor(who).items()}


@pytest.fixture(params=RUNNERS)
def runner(request, who, usable_runners):
    reason = usable_runners(who).get(request.param, "doctor does not know it")
    if reason:
        lacking(f"the runner {request.param} is not usable by {who.name}: {reason}")
    return request.param


@pytest.fixture(params=["run", "wrap"])
def form(request):
    """confine run itself, or spawning what confine wrap prints."""
    return request.param


def _box(scratch, request, programs, who, runner):
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)[:80]
    box = Box(scratch / f"{name}.{os.urandom(3).hex()}", programs, who, runner)
    yield box
    box.close()
    shutil.rmtree(box.base, ignore_errors=True)


@pytest.fixture
def box(scratch, request, programs, who, runner):
    """Places for one test under one runner."""
    yield from _box(scratch, request, programs, who, runner)


@pytest.fixture
def any_box(scratch, request, programs, who):
    """The same where the runner does not matter: confine chooses."""
    yield from _box(scratch, request, programs, who, None)


@pytest.fixture
def user_box(scratch, request, programs, ordinary_user):
    """For what only an ordinary user meets."""
    yield from _box(scratch, request, programs, ordinary_user, None)


@pytest.fixture
def root():
    if os.getuid() != 0:
        pytest.skip("the tests do not run as root")
    return Who("root", 0, 0)


@pytest.fixture
def tmp_places(who):
    """A folder of who's in the host's /tmp."""
    folder = Path(tempfile.mkdtemp(prefix="confine-test.", dir="/tmp"))
    who.own(folder)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
