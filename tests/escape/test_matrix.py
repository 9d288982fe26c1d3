"""Every technique of the table, in each mode, under each runner, as root and as an ordinary user."""
import json
import subprocess

import pytest

from blackbox import RUNNERS, lacking
from suite import escaped, not_made, opened, without_control

MODES = ("read-only", "workspace-write")
ISOLATED = "network,process,ipc"


@pytest.fixture(params=MODES)
def mode(request):
    return request.param


def check(checks):
    assert escaped(checks) == []
    assert not_made(checks) == []
    assert without_control(checks) == []


@pytest.fixture
def wrapped(programs, who, scratch):
    """A function: what `confine wrap` says in a workspace."""
    def wrap(*options):
        done = subprocess.run([programs.confine, "wrap", *options, "--", "true"], preexec_fn=who.become, cwd=scratch,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60,
                              check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)
    return wrap


def test_the_table(attack):
    assert len(attack.techniques) >= 100
    gaps = {"metadata", "truncate", "inherited-fd", "terminal-injection", "workspace-race", "devices", "proc",
            "hard-links"}
    assert gaps <= {technique.family for technique in attack.techniques.values()}


def test_run(attack, who, runner, mode):
    check(attack(who, runner, mode))


@pytest.mark.long
def test_wrap(attack, who, runner, mode):
    checks = attack(who, runner, mode, "wrap")
    check(checks)
    if mode == "workspace-write":
        races = [check for check in checks.values() if check["family"] == "workspace-race"]
        assert {race["verdict"] for race in races} == {"held"}


def test_full_enforcement_is_reported(wrapped, who, doctor, runner, mode):
    for said in (doctor(who)[runner], wrapped("--runner", runner, "--mode", mode)):
        assert (said["enforcement"], said["gaps"]) == ("full", [])


def test_what_is_open_is_in_open_channels(attack, wrapped, who, runner, mode):
    said = wrapped("--runner", runner, "--mode", mode)
    channels = {attack.techniques[name].channel for name in opened(attack(who, runner, mode))} - {""}
    assert channels <= set(said["openChannels"])
    assert {"ipc", "network", "process", "terminal"} <= channels


def test_root_escapes_from_no_more(attack, people, doctor, mode):
    """What only root can try may be open too, but by no other word."""
    if "root" not in people:
        pytest.skip("the tests do not run as root")
    for runner in RUNNERS:
        if not all(doctor(who)[runner]["usable"] for who in people.values()):
            continue
        root, user = (opened(attack(people[name], runner, mode)) for name in ("root", "user"))
        only_root = {name for name in root if "root" in attack.techniques[name].flags}
        assert root - only_root <= user
        words = {attack.techniques[name].by_design for name in user}
        assert {attack.techniques[name].by_design for name in only_root} <= words


@pytest.mark.parametrize("isolating", ["namespace", "bwrap"])
def test_isolated(attack, wrapped, who, doctor, isolating, mode):
    """With --isolate nothing is done through an outside process or a channel."""
    if not doctor(who)[isolating]["usable"]:
        lacking(f"{isolating} is not usable by {who.name}")
    options = ("--isolate", ISOLATED)
    said = wrapped("--runner", isolating, "--mode", mode, *options)
    checks = attack(who, isolating, mode, options=options)
    check(checks)
    through = {name for name, technique in attack.techniques.items()
               if "outside" in technique.flags or technique.channel in ISOLATED.split(",")}
    assert len(through) > 50
    assert opened(checks) & through == set()
    assert set(said["openChannels"]) <= {"terminal"}
