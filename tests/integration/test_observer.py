"""The denial observer: every refused write is in the record, under what it is and where, and nothing else is."""
import base64
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

import observed
from blackbox import RUNNERS, Box, children_of, has_entry_32, lacking, program, wait_until

PYTHON = "/usr/bin/python3"
ANSWER = {"namespace": "EROFS", "bwrap": "EROFS", "landlock": "EACCES"}


@pytest.fixture(scope="module")
def builds(scratch):
    if os.uname().machine != "x86_64":
        pytest.skip("the program's numbers are those of x86_64")
    folder = scratch / "observed"
    folder.mkdir()
    return observed.build(folder, program("gcc"))


@pytest.fixture
def places(box):
    """A workspace and a folder beside it in which every call finds what it needs."""
    def make(name="place"):
        folder = box.base / name
        workspace, outside = folder / "ws", folder / "out"
        for path in (folder, workspace, outside):
            path.mkdir()
        observed.prepare(outside, workspace)
        box.who.own(*observed.everything(folder))
        return workspace, outside
    return make


def denials(outcome):
    """(operation, path) of each, once the record has been checked for what holds of all."""
    record = outcome.record
    assert record["denialEvidence"] == "observer", record
    assert record["denied"] == bool(record["denials"] or record["denialsDropped"])
    return {(entry["op"], entry["path"]): entry for entry in record["denials"]}


def results(text):
    return {name: int(error) for name, error in (line.split() for line in text.decode().splitlines())}


@pytest.fixture(params=observed.BUILDS)
def build(request):
    if request.param == "entry-32" and not has_entry_32():
        pytest.skip("this kernel has no 32-bit entry")
    return request.param


def test_every_call(box, places, builds, build):
    """The control, unconfined, shows that each call would have succeeded."""
    workspace, outside = places("control")
    free = box.spawn([builds[build], outside, "all"], cwd=workspace)
    would, _ = free.communicate(timeout=60)
    would = results(would)
    assert {name: error for name, error in would.items() if error} == {}
    assert set(would) >= set(observed.CALLS) - {"truncate64", "socketcall", "flags"}

    workspace, outside = places()
    outcome = box.confine(builds[build], outside, "all", cwd=workspace)
    assert (outcome.rc, outcome.err) == (0, b""), outcome
    got = results(outcome.out)
    assert set(got) == set(would)
    assert [name for name, error in got.items() if not error] == []
    found = denials(outcome)
    expected = {(observed.CALLS[name][1], f"{outside}/{name}{observed.CALLS[name][2]}") for name in got}
    assert set(found) == expected
    for entry in found.values():
        assert entry["count"] == 1
        assert entry["errno"] == ANSWER[box.runner], entry
        assert entry["comm"] == builds[build].name[:15]
    assert len({entry["pid"] for entry in found.values()}) == 1
    assert outcome.record["denialsDropped"] == 0


def test_harmless_failures(box, places, builds, build):
    workspace, outside = places("control")
    free = box.spawn([builds[build], outside, "harmless"], cwd=workspace)
    would, _ = free.communicate(timeout=60)
    workspace, outside = places()
    outcome = box.confine(builds[build], outside, "harmless", cwd=workspace)
    assert outcome.rc == 0
    assert len(results(outcome.out)) == len(results(would)) > 30
    for name in ("h-null", "h-zero", "h-read", "h-read-creat", "h-tmp", "h-inside", "h-inside-chmod"):
        assert results(outcome.out)[name] == results(would)[name] == 0, name
    assert denials(outcome) == {}
    assert outcome.record["denied"] is False


def python(box, script, *words, **how):
    return box.confine(PYTHON, "-S", "-E", "-c", script, *map(str, words), **how)


def test_the_path_is_resolved(box):
    """Through links in the middle, a current directory given up, names that are no UTF-8."""
    (box.outside / "d").mkdir()
    (box.ws / "down").symlink_to(box.outside / "d")
    (box.ws / "chain").symlink_to("down")
    box.who.own(box.outside / "d")
    outcome = box.confine("sh", "-c", "echo x >chain/../new; cd chain; mkdir ./a/../b; mkdir ../d/./c;"
                          " mkdir \"$(printf 'x\\377')\"; echo x >/proc/self/cwd/e; echo x >/proc/$$/root$PWD/f; true")
    assert outcome.rc == 0
    found = [(entry["op"], entry["path"]) for entry in outcome.record["denials"]]
    assert ("create", f"{box.outside}/new") in found
    assert ("mkdir", f"{box.outside}/d/c") in found
    assert [entry for entry in found if isinstance(entry[1], dict)] == [
        ("mkdir", {"bytes": base64.b64encode(os.fsencode(box.outside) + b"/d/x\xff").decode()})]
    assert ("create", f"{box.outside}/d/e") in found
    assert ("create", f"{box.outside}/d/f") in found


def test_whatever_the_language_and_the_exit_status(box):
    for language in ("C", "de_DE.UTF-8", "ja_JP.UTF-8"):
        outcome = box.confine("sh", "-c", 'echo x 2>/dev/null >"$1"; exit 0', "sh", box.victim,
                              environment={"LC_ALL": language})
        assert outcome.rc == 0
        assert set(denials(outcome)) == {("open", str(box.victim))}
    outcome = box.confine("sh", "-c", 'echo x >"$1" || kill -TERM $$', "sh", box.victim)
    assert outcome.record["signal"] == "SIGTERM"
    assert set(denials(outcome)) == {("open", str(box.victim))}


def test_moving_between_trees(box):
    """Where the workspace is another mount the kernel says EXDEV, and mv goes on to copy and remove."""
    outcome = box.confine("mv", box.victim, "here")
    assert outcome.rc == 1
    found = set(denials(outcome))
    assert ("rename", str(box.victim)) in found
    assert found <= {("rename", str(box.victim)), ("unlink", str(box.victim))}
    box.assert_untouched()


def test_another_file_system_is_no_denial(box):
    """Nothing can be moved there by anybody."""
    script = ("import os, sys\nfor make in os.rename, os.link:\n"
              "    try: make(sys.argv[1], '/dev/shm/confine-test')\n    except OSError: pass\n")
    if os.stat("/dev/shm").st_dev == os.stat(box.victim).st_dev:
        pytest.skip("/dev/shm is no file system of its own")
    assert denials(python(box, script, box.victim)) == {}
    box.assert_untouched()


def test_counts_of_equal_denials(box):
    script = ("import os, sys\n"
              "for i in range(1000):\n"
              "    try: os.open(sys.argv[1], os.O_WRONLY)\n"
              "    except OSError: pass\n"
              "    try: os.mkdir(sys.argv[1] + '.d')\n"
              "    except OSError: pass\n")
    found = denials(python(box, script, box.victim))
    assert {key: entry["count"] for key, entry in found.items()} == {
        ("open", str(box.victim)): 1000, ("mkdir", f"{box.victim}.d"): 1000}


def test_more_than_are_kept(box):
    script = ("import os, sys\n"
              "for i in range(400):\n"
              "    for j in range(2):\n"
              "        try: os.mkdir(sys.argv[1] + '/' + str(i))\n"
              "        except OSError: pass\n")
    outcome = python(box, script, box.outside)
    found = denials(outcome)
    assert set(found) == {("mkdir", f"{box.outside}/{i}") for i in range(256)}
    assert {entry["count"] for entry in found.values()} == {2}
    assert outcome.record["denialsDropped"] == 2 * (400 - 256)


def test_children_and_threads(box):
    script = """
import os, sys, threading
def refuse(name):
    try: os.mkdir(sys.argv[1] + '/' + name)
    except OSError: pass
refuse('main')
threads = [threading.Thread(target=refuse, args=('thread%d' % i,)) for i in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
for depth in range(5):
    if os.fork():
        os.wait()
        os._exit(0)
    refuse('child%d' % depth)
os.setsid()
if os.fork() == 0:
    refuse('daemon')
else:
    os.wait()
"""
    found = denials(python(box, script, box.outside))
    names = ["main", "daemon", *(f"thread{i}" for i in range(4)), *(f"child{i}" for i in range(5))]
    assert set(found) == {("mkdir", f"{box.outside}/{name}") for name in names}
    pids = [found[("mkdir", f"{box.outside}/child{i}")]["pid"] for i in range(5)]
    assert len(set(pids)) == 5
    assert {entry["comm"] for entry in found.values()} == {"python3"}


def test_programs_in_a_pipeline(box):
    outcome = box.confine("sh", "-c", 'echo x | tee "$1/a" | { cat >/dev/null; touch "$1/b"; }', "sh", box.outside)
    found = denials(outcome)
    assert found[("create", f"{box.outside}/a")]["comm"] == "tee"
    assert found[("create", f"{box.outside}/b")]["comm"] == "touch"


def test_read_only_mode(box):
    outcome = box.confine("sh", "-c", 'touch new; echo x >/dev/null; echo x >/tmp/confine-ro; true', options=("--mode", "read-only"))
    assert set(denials(outcome)) == {("create", f"{box.ws}/new"), ("create", "/tmp/confine-ro")}


def test_shared_memory(box):
    """There is a private one where the mode is workspace-write; else a name in /dev/shm is refused as any other."""
    mode = "workspace-write" if box.runner == "landlock" else "read-only"
    outcome = box.confine("touch", "/dev/shm/confine-test", options=("--mode", mode))
    assert outcome.rc == 1
    assert set(denials(outcome)) == {("create", "/dev/shm/confine-test")}


def test_without_the_observer(box):
    outcome = box.confine("touch", box.outside / "new", options=("--no-observe",))
    assert outcome.rc == 1
    record = outcome.record
    assert (record["denied"], record["denialEvidence"], record["denials"], record["denialsDropped"]) == (False, "none", [], 0)


def test_full_access_and_custom_runner_have_none(any_box):
    outcome = any_box.confine("true", options=("--mode", "danger-full-access"))
    assert (outcome.record["denialEvidence"], outcome.record["denied"]) == ("none", False)
    config = any_box.base / "confine.yaml"
    config.write_text(f"runnerCommand: [{program('bwrap')}]\nrunnerFailureSignatures: ['bwrap: ']\n")
    outcome = any_box.confine("touch", any_box.outside / "new", runner="custom", options=("--config", str(config)))
    assert outcome.rc == 1
    assert (outcome.record["runner"], outcome.record["denialEvidence"]) == ("custom", "none")


# Plain permission problems.


@pytest.fixture(params=RUNNERS)
def user(request, scratch, programs, ordinary_user, usable_runners):
    """Places of an ordinary user, for whom permissions mean something."""
    reason = usable_runners(ordinary_user).get(request.param, "doctor does not know it")
    if reason:
        lacking(f"the runner {request.param} is not usable by {ordinary_user.name}: {reason}")
    if os.getuid() != 0:
        pytest.skip("only root can make what belongs to others")
    box = Box(scratch / f"user.{os.urandom(6).hex()}", programs, ordinary_user, request.param)
    yield box
    box.close()
    shutil.rmtree(box.base, ignore_errors=True)


@pytest.mark.parametrize("script", [
    "echo x >/etc/hostname", "echo x >/etc/new", "rm -f /etc/hostname", "mkdir /usr/x", "chmod 777 /etc/hostname",
    "touch /etc/hostname", "mv /etc/hostname here", "ln /etc/hostname here", "mv /etc/hostname /etc/x",
    "ln -s x /etc/x", "chown $(id -u) /etc/hostname", "truncate -s 0 /etc/hostname",
    f"{PYTHON} -c 'open(\"/etc/hostname\", \"r+\")'",
])
def test_what_permissions_forbid_is_no_denial(user, script):
    outcome = user.confine("sh", "-c", script)
    assert outcome.rc != 0
    assert denials(outcome) == {}


def test_python_that_cannot_write_its_cache(user):
    """The modules lie where the user may not write, as they do in an installed system."""
    folder = user.base / "modules"
    folder.mkdir()
    (folder / "some_module.py").write_text("x = 1\n")
    folder.chmod(0o555)
    os.chown(folder, 0, 0)
    outcome = user.confine(PYTHON, "-c", "import json, http.server, some_module",
                           environment={"PYTHONPATH": str(folder)})
    assert (outcome.rc, denials(outcome)) == (0, {})


def test_python_that_could_write_its_cache(user):
    folder = user.base / "modules"
    folder.mkdir()
    (folder / "some_module.py").write_text("x = 1\n")
    user.who.own(folder, folder / "some_module.py")
    outcome = user.confine(PYTHON, "-c", "import some_module", environment={"PYTHONPATH": str(folder)})
    assert outcome.rc == 0
    assert set(denials(outcome)) == {("mkdir", f"{folder}/__pycache__")}


def test_npm_that_cannot_write_its_logs(user):
    npm = program("npm")
    outcome = user.confine(npm, "--version", environment={"HOME": "/nonexistent", "npm_config_cache": "/usr/lib/x"})
    assert denials(outcome) == {}


def test_sticky_directories(user):
    folder = user.outside / "sticky"
    folder.mkdir()
    (folder / "theirs").write_text("x")
    (folder / "mine").write_text("x")
    user.who.own(folder / "mine")
    os.chown(folder, 0, 0)
    folder.chmod(0o1777)
    outcome = user.confine("sh", "-c", 'cd "$1"; rm -f theirs; mv theirs x; rm -f mine; mv mine theirs; true', "sh", folder)
    assert set(denials(outcome)) == {("unlink", f"{folder}/mine")}


def test_opening_read_write_and_then_reading(user):
    """Only the owner's attempt would have succeeded."""
    theirs = user.outside / "theirs"
    theirs.write_text("x")
    theirs.chmod(0o644)
    os.chown(theirs, 0, 0)
    script = ("import os, sys\nfor name in sys.argv[1:]:\n"
              "    try: os.open(name, os.O_RDWR)\n    except OSError: os.open(name, os.O_RDONLY)\n")
    outcome = python(user, script, theirs, user.victim)
    assert (outcome.rc, set(denials(outcome))) == (0, {("open", str(user.victim))})


def test_temporary_files_are_no_denials(box):
    script = ("import tempfile, os\n"
              "with tempfile.NamedTemporaryFile() as f: f.write(b'x')\n"
              "with tempfile.TemporaryDirectory() as d: os.rename(d, d + 'x'); os.rename(d + 'x', d)\n"
              "with tempfile.TemporaryFile() as f: os.fchmod(f.fileno(), 0o600)\n"
              "open('/dev/null', 'w').write('x'); os.memfd_create('x')\n")
    outcome = python(box, script)
    assert (outcome.rc, denials(outcome)) == (0, {})


# Strength.


def storm(box, processes, each, distinct):
    """So many processes with so many refused calls each; the record and the most memory a process of confine's had."""
    script = f"""
import os, sys
ready = os.pipe()
children = []
for i in range({processes}):
    pid = os.fork()
    if pid == 0:
        os.read(ready[0], 1)
        done = 0
        for j in range({each}):
            name = '%s/%d-%d' % (sys.argv[1], i, j if {distinct} else 0)
            try: os.mkdir(name)
            except OSError: done += 1
        os._exit(0 if done == {each} else 1)
    children.append(pid)
os.write(ready[1], b'x' * {processes})
bad = sum(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0 for pid in children)
print('bad', bad, flush=True)
sys.stdin.read()
"""
    report = box.report_path()
    process = box.spawn(box.run_words([PYTHON, "-S", "-E", "-c", script, box.outside], report=report), stdin=subprocess.PIPE)
    line = process.stdout.readline()
    peak = 0
    for pid in [process.pid, *below(process.pid)]:
        status = Path(f"/proc/{pid}/status").read_text()
        if "python" not in status.split("\n", 1)[0]:
            peak = max(peak, int(status.split("VmHWM:")[1].split()[0]))
    _, err = process.communicate(timeout=120)
    assert (line, process.returncode) == (b"bad 0\n", 0), err
    return json.loads(report.read_text()), peak


def below(pid):
    found = children_of(pid)
    for child in list(found):
        found += below(child)
    return found


def check_storm(box, processes, total):
    each = total // processes
    record, peak = storm(box, processes, each, False)
    assert {entry["path"]: entry["count"] for entry in record["denials"]} == {
        f"{box.outside}/{i}-0": each for i in range(processes)}
    assert record["denialsDropped"] == 0
    assert peak < 16 * 1024, f"{peak} KiB"
    record, peak = storm(box, processes, each, True)
    assert len(record["denials"]) == 256
    assert sum(entry["count"] for entry in record["denials"]) + record["denialsDropped"] == each * processes
    assert peak < 16 * 1024, f"{peak} KiB"


def test_5000_denials_from_64_processes(box):
    check_storm(box, 64, 64 * 80)


@pytest.mark.long
def test_100000_denials_from_64_processes(box):
    check_storm(box, 64, 64 * 1563)


def test_a_dead_observer_frees_nothing(box):
    """The monitor is killed while the command writes: the command ends with it, and nothing was written."""
    script = 'echo ready; while :; do echo x 2>/dev/null >>"$1"; done'
    report = box.report_path()
    process = box.spawn(box.run_words(["sh", "-c", script, "sh", box.victim], report=report))
    assert process.stdout.readline() == b"ready\n"
    shell = box.mark.wait_for("sh")
    monitor = int(Path(f"/proc/{shell}/stat").read_text().rpartition(") ")[2].split()[1])
    os.kill(monitor, signal.SIGKILL)
    process.communicate(timeout=30)
    assert process.returncode in (125, 137), process.returncode
    box.mark.wait_gone()
    box.assert_untouched()


def test_a_stopped_observer_holds_and_does_not_free(box):
    script = 'echo ready; read line; echo x 2>/dev/null >>"$1"; echo done'
    process = box.spawn(box.run_words(["sh", "-c", script, "sh", box.victim]), stdin=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    shell = box.mark.wait_for("sh")
    monitor = int(Path(f"/proc/{shell}/stat").read_text().rpartition(") ")[2].split()[1])
    os.kill(monitor, signal.SIGSTOP)
    process.stdin.write(b"go\n")
    process.stdin.flush()
    time.sleep(0.3)
    box.assert_untouched()
    os.kill(monitor, signal.SIGCONT)
    assert process.stdout.readline() == b"done\n"
    process.communicate(timeout=30)
    box.assert_untouched()


def test_signals_do_not_lose_calls(box):
    """A caller interrupted all the time still gets every answer, and each call is counted once."""
    script = """
import os, signal, sys
signal.signal(signal.SIGALRM, lambda *_: None)
signal.siginterrupt(signal.SIGALRM, False)
signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)
bad = 0
for i in range(3000):
    try: os.mkdir(sys.argv[1] + '/x')
    except OSError as error: bad += error.errno not in (13, 30)
    else: bad += 1
signal.setitimer(signal.ITIMER_REAL, 0)
sys.exit(bad != 0)
"""
    outcome = python(box, script, box.outside)
    assert outcome.rc == 0
    assert denials(outcome)[("mkdir", f"{box.outside}/x")]["count"] == 3000


def test_io_uring_is_not_to_be_had(box):
    script = ("import ctypes, sys\nlibc = ctypes.CDLL(None, use_errno=True)\n"
              "r = libc.syscall(425, 8, ctypes.create_string_buffer(256))\nsys.exit(0 if (r, ctypes.get_errno()) == (-1, 38) else 1)\n")
    assert python(box, script).rc == 0


def test_confine_inside_confine(box):
    """The kernel gives one listener to a chain: the outer one's record has what was refused, and the inner one
    says that nobody watched."""
    inner = box.ws / "inner.json"
    outcome = box.confine(box.programs.confine, "run", "--report", inner, "--", "touch", box.outside / "new")
    assert outcome.rc == 1, outcome
    assert ("create", f"{box.outside}/new") in denials(outcome)
    record = json.loads(inner.read_text())
    assert (record["denialEvidence"], record["denied"]) == ("none", False)
    assert record["enforcement"] == "partial" and "metadata" in record["gaps"]
