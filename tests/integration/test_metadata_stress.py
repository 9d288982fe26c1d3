"""The metadata supervisor under races, signals and crowds, and when it is stopped or killed."""
import json
import os
import random
import signal
import subprocess
import time

import pytest

from blackbox import HANG, children_of, read_or_empty, state_of, wait_until
from test_metadata import compile_program

SLOW = pytest.mark.long


@pytest.fixture(scope="session")
def stress(scratch):
    return compile_program(scratch, "metadata-stress", "metadata_stress.c")


def facts(path):
    st = path.stat()
    flags = subprocess.run(["lsattr", "-d", path], stdout=subprocess.PIPE, check=False).stdout.split(b" ")[0]
    return (st.st_mode, st.st_uid, st.st_gid, st.st_mtime_ns, st.st_ctime_ns, flags,
            [(name, os.getxattr(path, name)) for name in os.listxattr(path)])


def parent_of(pid):
    return int(read_or_empty(f"/proc/{pid}/stat").rpartition(b") ")[2].split()[1])


# Races.

@pytest.mark.parametrize("count", [5000, pytest.param(100000, marks=SLOW)])
def test_races_change_nothing_outside(box, stress, count):
    target = box.outside / "file"
    target.write_text("content")
    box.who.own(target)
    before = facts(target), facts(box.outside)
    outcome = box.confine(stress, "race", str(box.ws), str(box.outside), str(count), options=("--require", "full"),
                          timeout=280)
    assert outcome.rc == 0, outcome
    assert (facts(target), facts(box.outside)) == before
    done, plain = map(int, outcome.out.split())
    assert plain == count / 4
    assert done >= count / 20
    # Without a sandbox the same calls do reach it.
    free = box.base / "free"
    free.mkdir()
    box.who.own(free)
    process = box.spawn([stress, "race", str(free), str(box.outside), "5000"])
    assert process.wait(HANG) == 0
    assert facts(target) != before[0]


# Identities.

def inside_and_outside(box, stress, form, uid):
    """What the calls of one form said, without a sandbox and inside."""
    said = []
    for folder in (box.base / "control", box.ws / "inside"):
        folder.mkdir()
        folder.chmod(0o777)
        command = [stress, form, str(folder), str(uid)]
        if folder.parent == box.base:
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
            said.append(done.stdout.decode().splitlines())
        else:
            outcome = box.confine(*command, options=("--require", "full"))
            assert outcome.rc == 0, outcome
            said.append(outcome.out.decode().splitlines())
    return said


@pytest.mark.parametrize("form, lines, least", [("identity", 7 * 4 * 14, 100), ("turns", (3 * 6 + 16) * 3, 20)])
def test_a_process_that_is_root_no_more_has_no_power_over_roots_files(box, stress, ordinary_user, form, lines, least):
    if box.who.uid != 0:
        pytest.skip("only root can give up being root")
    outside, inside = inside_and_outside(box, stress, form, ordinary_user.uid)
    assert len(outside) == len(inside) == lines
    refused = [line for line in inside if "Operation not permitted" in line]
    assert len(refused) > least
    different = [pair for pair in zip(outside, inside) if pair[0] != pair[1]]
    assert different == []


# Crowds.

@pytest.mark.parametrize("form, fast, slow", [("signals", 1000, 50000), ("threads", 50, 2000), ("processes", 10, 500),
                                              ("vfork", 200, 5000)])
@pytest.mark.parametrize("long", [False, pytest.param(True, marks=SLOW)])
def test_calls_are_answered(box, stress, form, fast, slow, long):
    outcome = box.confine(stress, form, str(box.ws), str(slow if long else fast), options=("--require", "full"),
                          timeout=280)
    assert outcome.rc == 0, outcome
    box.assert_untouched()


def test_a_process_that_may_not_be_looked_into(box, stress):
    outcome = box.confine(stress, "hidden", str(box.ws))
    assert outcome.rc == 0, outcome
    # Power over it comes from being root, or from having made the user namespace that it is in.
    looked_into = box.runner == "namespace" or box.who.uid == 0
    assert outcome.out.strip() == (b"0 0 0 0" if looked_into else b"1 1 1 1")


# Trouble with the supervisor.

def start_hammer(box, stress, options=()):
    (box.ws / "file").write_text("")
    box.who.own(box.ws / "file")
    process = box.spawn(box.run_words([stress, "hammer", str(box.ws)], options=options, report=box.report_path()))
    box.mark.wait_for("metadata-stress")
    return process


def supervisor_of(box):
    """The parent of the command's first process."""
    found = box.mark.processes("metadata-stress")
    return next(parent for parent in map(parent_of, found) if parent not in found)


def test_a_stopped_supervisor_lets_nothing_through(box):
    file = box.ws / "file"
    file.write_text("")
    file.chmod(0o644)
    box.who.own(file)
    script = "echo $$ > pid; while [ ! -e go ]; do sleep 0.05; done; chmod 600 file && exec touch done"
    process = box.spawn(box.run_words(["sh", "-c", script]))
    pid = int(wait_until(lambda: read_or_empty(box.ws / "pid").strip()))
    supervisor = parent_of(pid)
    os.kill(supervisor, signal.SIGSTOP)
    wait_until(lambda: state_of(supervisor) == "T")
    (box.ws / "go").touch()
    time.sleep(0.5)
    assert file.stat().st_mode & 0o777 == 0o644
    assert not (box.ws / "done").exists()
    os.kill(supervisor, signal.SIGCONT)
    assert process.wait(HANG) == 0
    assert file.stat().st_mode & 0o777 == 0o600
    assert (box.ws / "done").exists()


@pytest.mark.parametrize("count", [5, pytest.param(90, marks=SLOW)])
def test_a_killed_supervisor_frees_nothing(box, stress, count):
    for _ in range(count):
        process = start_hammer(box, stress)
        time.sleep(random.random() / 50)
        os.kill(supervisor_of(box), signal.SIGKILL)
        assert process.wait(HANG) != 0
        box.mark.wait_gone()
    box.assert_untouched()


def kill_children(process):
    for child in children_of(process.pid):
        try:
            os.kill(child, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return process.poll()


@pytest.mark.parametrize("count", [3, pytest.param(60, marks=SLOW)])
def test_a_supervisor_killed_at_any_moment(box, stress, count):
    (box.ws / "file").write_text("")
    box.who.own(box.ws / "file")
    for _ in range(count):
        process = box.spawn(box.run_words([stress, "hammer", str(box.ws)]))
        wait_until(lambda: children_of(process.pid))
        time.sleep(random.random() / 100)
        # What is met first may be a probe only.
        wait_until(lambda: kill_children(process) is not None)
        assert process.returncode != 0
        box.mark.wait_gone()
    box.assert_untouched()


def test_a_timeout_ends_a_tree_that_does_nothing_but_call(box, stress):
    process = start_hammer(box, stress, ("--timeout", "0.5"))
    since = time.monotonic()
    assert process.wait(HANG) != 0
    assert time.monotonic() - since < 8
    box.mark.wait_gone()


def memory_of(pid):
    for line in read_or_empty(f"/proc/{pid}/status").splitlines():
        if line.startswith(b"VmRSS:"):
            return int(line.split()[1])
    return 0


def test_its_memory_does_not_grow(box, stress):
    process = start_hammer(box, stress)
    time.sleep(0.2)
    supervisor = supervisor_of(box)
    before = memory_of(supervisor)
    descriptors = len(os.listdir(f"/proc/{supervisor}/fd"))
    time.sleep(0.4)
    assert 0 < memory_of(supervisor) <= before + 128
    assert len(os.listdir(f"/proc/{supervisor}/fd")) <= descriptors + 4
    process.kill()
    process.wait(HANG)
    box.mark.wait_gone()


# One listener only.

def test_nested(box):
    inner = box.ws / "inner.json"
    confine = box.programs.confine
    script = f'"{confine}" run --runner landlock --report inner.json -- sh -c "chmod 600 file; echo ran" 2>inner.err'
    (box.ws / "file").write_text("")
    box.who.own(box.ws / "file")
    outcome = box.confine("sh", "-c", script)
    assert b"ran" in outcome.out, (outcome, read_or_empty(box.ws / "inner.err"))
    record = json.loads(inner.read_text())
    assert record["enforcement"] == "partial"
    assert "metadata" in record["gaps"]
    assert (box.ws / "file").stat().st_mode & 0o777 == 0o600
    assert box.before == box._look()
    outcome = box.confine(confine, "run", "--runner", "landlock", "--require", "full", "--", "touch", "ran")
    assert outcome.rc == 125
    assert not (box.ws / "ran").exists()
