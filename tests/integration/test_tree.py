"""The whole tree ends with the command, a timeout, or the death of whatever supervises it."""
import json
import os
import signal
import subprocess
import time

import pytest

from blackbox import children_of, read_or_empty, wait_until

# Each leaves processes behind in its own way; all of them write a file when they are there.
DAEMONS = {
    "child": "sleep 300 & echo x >ready.1",
    "double-fork": "(setsid sh -c 'sleep 300 & echo x >ready.1' &)",
    "ignoring-signals": "(trap '' HUP INT TERM QUIT TSTP; setsid sh -c 'trap \"\" HUP INT TERM; echo x >ready.1; "
                        "while :; do sleep 1; done' &)",
    "stopped": "(setsid sh -c 'echo x >ready.1; kill -STOP $$' &)",
    "own-environment": "(setsid env -i KEEP=$CONFINE_TEST_MARK /bin/sh -c 'cd /; sleep 300' & echo x >ready.1)",
    "many": "for i in 1 2 3 4 5 6 7 8; do (setsid sh -c 'sleep 300 & sleep 300 & wait' &); done; echo x >ready.1",
    "holding-output": "(setsid sleep 300 &) ; echo x >ready.1",
}
# A process that replaces itself all the time, so that no list of processes is ever true.
FORKER = """
import os, sys, time
if os.fork(): sys.exit()
os.setsid()
open('ready.1', 'w').close()
while True:
    if os.fork():
        os._exit(0)
"""


def words(kind, last="sleep 0.1"):
    if kind == "forking-in-a-loop":
        return ["sh", "-c", f'/usr/bin/python3 -c "$0"; {last}', FORKER]
    return ["sh", "-c", f"{DAEMONS[kind]}; while [ ! -e ready.1 ]; do sleep 0.01; done; {last}"]


KINDS = [*DAEMONS, "forking-in-a-loop"]


def start(box, form, kind, last, options=()):
    command = words(kind, last)
    argv = box.run_words(command, options) if form == "run" else box.wrap(*command)["argv"]
    return box.spawn(argv)


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_ends(box, form, kind):
    process = start(box, form, kind, "exit 3")
    process.communicate(timeout=20)
    assert process.returncode == 3
    box.mark.wait_gone(2)


@pytest.mark.parametrize("kind", ["double-fork", "ignoring-signals", "stopped", "forking-in-a-loop"])
def test_a_timeout(box, kind):
    process = start(box, "run", kind, "sleep 300", ("--timeout", "0.4"))
    process.communicate(timeout=20)
    assert process.returncode == 124
    box.mark.wait_gone(2)


@pytest.mark.parametrize("kind", KINDS)
def test_confine_or_the_launcher_is_killed(box, form, kind):
    process = start(box, form, kind, "echo x >ready.2; sleep 300")
    wait_until((box.ws / "ready.2").exists)
    process.kill()
    process.wait(timeout=20)
    box.mark.wait_gone(2)


def monitor_of(box, process, form):
    """The process between confine, or the innermost launcher, and the command."""
    if form == "wrap" and box.runner == "bwrap":
        launcher = [pid for pid in box.mark.processes("landlock-run") if read_or_empty(f"/proc/{pid}/cmdline")
                    and any(read_or_empty(f"/proc/{child}/comm").strip() == b"landlock-run"
                            for child in children_of(pid))]
        return children_of(launcher[0])[0]
    return children_of(process.pid)[0]


@pytest.mark.parametrize("kind", ["double-fork", "ignoring-signals", "forking-in-a-loop"])
def test_the_monitor_is_killed(box, form, kind):
    report = box.reports / "r"
    command = words(kind, "echo x >ready.2; sleep 300")
    process = box.spawn(box.run_words(command, report=report) if form == "run" else box.wrap(*command)["argv"])
    wait_until((box.ws / "ready.2").exists)
    os.kill(monitor_of(box, process, form), signal.SIGKILL)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 125 or box.runner == "bwrap", err
    box.mark.wait_gone(2)
    if form == "run":
        record = json.loads(report.read_text())
        assert record["started"] is True and record["exitCode"] is None
        assert record["runnerFailure"]["evidence"] == "status-channel" and record["runnerFailure"]["step"]


def test_confine_and_the_monitor_are_killed_at_once(box, form):
    process = start(box, form, "double-fork", "echo x >ready.2; sleep 300")
    wait_until((box.ws / "ready.2").exists)
    monitor = monitor_of(box, process, form)
    os.kill(process.pid, signal.SIGSTOP)
    os.kill(monitor, signal.SIGSTOP)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=20)
    # The monitor is stopped, so it alone cannot have ended anything; once it goes on, everything ends.
    os.kill(monitor, signal.SIGCONT)
    box.mark.wait_gone(2)


def test_the_parent_of_the_launcher_dies(box):
    """A wrapped argv's spawner is gone: so is everything it had spawned."""
    argv = box.wrap("sh", "-c", "(setsid sleep 300 &); echo x >ready.2; sleep 300")["argv"]
    spawner = box.spawn(["/usr/bin/python3", "-c", "import subprocess, sys, time\n"
                         "subprocess.Popen(sys.argv[1:])\ntime.sleep(300)", *argv])
    wait_until((box.ws / "ready.2").exists)
    spawner.kill()
    spawner.wait(timeout=20)
    box.mark.wait_gone(2)


@pytest.mark.parametrize("kind", ["child", "double-fork", "many"])
def test_keep_background_leaves_it_running_and_confined(box, kind):
    """Afterwards the background still cannot write outside, and can inside."""
    script = (f"({DAEMONS[kind]}); (setsid sh -c 'while [ ! -e go ]; do sleep 0.05; done; "
              f"echo x >{box.outside}/new; echo x >after' &); while [ ! -e ready.1 ]; do sleep 0.01; done; exit 5")
    report = box.reports / "r"
    process = box.spawn(box.run_words(["sh", "-c", script], ("--keep-background",), report=report))
    since = time.monotonic()
    process.wait(timeout=20)
    assert process.returncode == 5 and time.monotonic() - since < 15
    assert report.exists()
    time.sleep(0.3)
    assert len(box.mark.processes("sleep")) >= 1
    (box.ws / "go").touch()
    wait_until((box.ws / "after").exists, 10, "the background process to write")
    box.assert_untouched()
    for pid in box.mark.processes():
        if read_or_empty(f"/proc/{pid}/comm").strip() in (b"sleep", b"sh"):
            os.kill(pid, signal.SIGKILL)
    box.mark.wait_gone(5)


def test_keep_background_releases_the_output(box):
    """Once the background processes let go of it, nothing of confine's holds a pipe."""
    process = box.spawn(box.run_words(["sh", "-c", "sleep 300 >/dev/null 2>&1 </dev/null & echo done"],
                                      ("--keep-background",)))
    since = time.monotonic()
    assert process.stdout.read() == b"done\n" and process.stderr.read() == b""
    assert time.monotonic() - since < 10
    assert process.wait(timeout=20) == 0
    assert box.mark.processes("sleep")


def test_keep_background_still_ends_with_a_timeout(box):
    process = start(box, "run", "double-fork", "sleep 300", ("--keep-background", "--timeout", "0.4"))
    process.communicate(timeout=20)
    assert process.returncode == 124
    box.mark.wait_gone(2)


def test_nothing_of_confine_is_left_after_an_ordinary_run(box, form):
    for _ in range(5):
        assert box.confine("true", form=form).rc == 0
        assert box.mark.processes() == []


@pytest.mark.parametrize("rounds", [5, pytest.param(300, marks=pytest.mark.long)])
def test_nothing_holds_the_hosts_mounts_afterwards(box, form, rounds):
    """The command's own mount namespace is gone: what was mounted on the host can be let go, and its device."""
    if box.who.uid != 0:
        pytest.skip("only root can mount a file system")
    image, place = box.base / "image", box.base / "mounted"
    image.write_bytes(bytes(4 << 20))
    place.mkdir()
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    for _ in range(rounds):
        if subprocess.run(["mount", "-o", "loop", image, place], stderr=subprocess.DEVNULL, check=False).returncode != 0:
            pytest.skip("loop devices cannot be mounted here")
        try:
            outcome = box.confine("sh", "-c", f"ls {place}", form=form)
        finally:
            subprocess.run(["umount", place], check=True)
        assert outcome.rc == 0 and outcome.out == b"lost+found\n"
        wait_until(lambda: not subprocess.run(["losetup", "-j", image], stdout=subprocess.PIPE, check=True).stdout,
                   seconds=2)


def test_zombies_are_not_left_to_the_command(box):
    """Orphans of the command's tree are reaped while it runs."""
    script = ("import os, time\n"
              "for _ in range(20):\n"
              "    if os.fork() == 0:\n"
              "        if os.fork() == 0: os._exit(0)\n"
              "        os._exit(0)\n"
              "    os.wait()\n"
              "time.sleep(0.3)\n"
              "states = []\n"
              "for entry in os.listdir('/proc'):\n"
              "    if entry.isdigit():\n"
              "        try: text = open(f'/proc/{entry}/stat').read()\n"
              "        except OSError: continue\n"
              "        fields = text.rpartition(') ')[2].split()\n"
              "        if fields[0] == 'Z' and fields[3] == str(os.getsid(0)): states.append(text)\n"
              "print(len(states))\n")
    process = box.spawn(box.run_words(["/usr/bin/python3", "-c", script]), start_new_session=True)
    out, _ = process.communicate(timeout=20)
    assert out == b"0\n"
