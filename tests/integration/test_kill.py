"""SIGKILL of confine, a monitor or a launcher at random moments: nothing is left, nothing was unconfined."""
import json
import os
import random
import signal
import subprocess
import time

import pytest

from blackbox import children_of

# Makes daemons, writes inside, and tries outside without pause.
BUSY = """
import os, sys
outside, ws = sys.argv[1:]
for _ in range(2):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        break
while True:
    for place in (outside, ws):
        try:
            with open(os.path.join(place, "x"), "a") as stream:
                stream.write("x")
        except OSError:
            pass
    try:
        os.unlink(os.path.join(outside, "victim"))
    except OSError:
        pass
"""


def processes_below(pid, depth=3):
    found = []
    for child in children_of(pid):
        found.append(child)
        if depth:
            found += processes_below(child, depth - 1)
    return found


def supervisors(process):
    """The spawned process and what of confine's stands below it, the command itself not included."""
    found = [process.pid]
    for pid in processes_below(process.pid):
        try:
            with open(f"/proc/{pid}/comm", encoding="utf-8") as stream:
                name = stream.read().strip()
        except OSError:
            continue
        if name in ("confine", "landlock-run", "namespace-run", "bwrap"):
            found.append(pid)
    return found


def end_stuck_bwrap(box, process):
    """bwrap's child waits for ever when bwrap is killed before it has mapped ids: it has started nothing yet.

    Where confine started bwrap its monitor ends the child; of a bwrap that somebody else spawned nobody is left.
    """
    if os.path.basename(process.args[0]) == "confine":
        return
    time.sleep(0.05)
    for pid in box.mark.processes("bwrap"):
        if not children_of(pid):
            os.kill(pid, signal.SIGKILL)


def kill_one(box, argv, report, rng):
    process = box.spawn(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    # Half of the kills hit the set-up, half a running tree.
    time.sleep(rng.uniform(0, 0.006) if rng.random() < 0.5 else rng.uniform(0.006, 0.08))
    victims = supervisors(process)
    try:
        os.kill(rng.choice(victims), signal.SIGKILL)
    except ProcessLookupError:
        pass
    killed_confine = process.poll() == -9
    deadline = time.monotonic() + 1
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    if process.poll() is None:
        # What was killed had not yet become one of confine's, or the command was not affected.
        process.kill()
    process.wait(timeout=20)
    end_stuck_bwrap(box, process)
    box.mark.wait_gone(2)
    box.assert_untouched()
    assert not killed_confine or process.returncode == -9
    if report.exists():
        record = json.loads(report.read_text())
        assert record["schema"] == "confine.result/1"
        assert process.returncode != -9
        assert record["runnerFailure"] is not None or record["signal"] == "SIGKILL", record
        assert not record["timedOut"] and record["exitCode"] is None
    assert [entry.name for entry in box.reports.iterdir() if entry != report] == []
    if report.exists():
        report.unlink()


def kill_many(box, form, count):
    rng = random.Random(20240229)
    report = box.reports / "record"
    words = ["/usr/bin/python3", "-I", "-S", "-c", BUSY, str(box.outside), str(box.ws)]
    argv = box.run_words(words, report=report) if form == "run" else box.wrap(*words)["argv"]
    for _ in range(count):
        kill_one(box, argv, report, rng)


def test_a_few(box, form):
    kill_many(box, form, 5)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_thousand(box, form):
    """84 for each of the twelve cases."""
    kill_many(box, form, 84)
