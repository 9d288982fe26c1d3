"""The differences that the README names are there, and are as it says: nobody relies on what is not so."""
import json
import time

import pytest

from blackbox import program


def inside(bench, script, options=(), environment=None):
    """Exit status, what it said, and the record."""
    bench.more = environment or {}
    bench.options = [*options, "--report", str(bench.base / "inside" / "record")]
    bench.who.own(bench.base / "inside")
    status, text = bench.run("inside", ["sh", "-c", script])
    return status, text, json.loads((bench.base / "inside" / "record").read_text())


@pytest.mark.parametrize("script", ["bwrap --ro-bind / / true", "unshare -Ur true", "unshare -m true"])
def test_nested_sandboxes_do_not_start(bench, script):
    program(script.split()[0])
    assert bench.run("outside", ["sh", "-c", script])[0] == 0 or bench.who.uid != 0
    status, text, record = inside(bench, script)
    assert status not in (0, 125) and text.strip() and record["runnerFailure"] is None


def test_shared_memory(bench):
    """Under landlock only with --write /dev/shm; the others have a private one."""
    script = ("python3 -c 'import multiprocessing as m; m.Lock(); print(sorted(m.Pool(2).map(abs, [-1, -2])))'")
    status, text, _ = inside(bench, script)
    if bench.runner == "landlock":
        assert status == 1 and "PermissionError" in text
        status, text, _ = inside(bench, script, ["--write", "/dev/shm"])
    assert status == 0 and "[1, 2]" in text


def test_user_ids(bench):
    status, text, _ = inside(bench, "id -u; stat -c %U /etc; touch f; stat -c %u f")
    assert status == 0
    if bench.who.uid == 0 or bench.runner == "landlock":
        assert "root" in text
    else:
        assert "nobody" in text


@pytest.mark.parametrize("name", ["sudo", "su"])
def test_set_id_programs_are_inert(bench, name):
    """The record says so; sudo itself does too."""
    path = program(name)
    bench.options = ["--report", str(bench.base / "inside" / "record")]
    bench.who.own(bench.base / "inside")
    status, text = bench.run("inside", [path, "-n", "true"] if name == "sudo" else [path, "root", "-c", "true"])
    record = json.loads((bench.base / "inside" / "record").read_text())
    assert "setid-inert" in [notice["code"] for notice in record["notices"]]
    if bench.who.uid != 0:
        assert status == 1 and text.strip()
        assert name != "sudo" or "no new privileges" in text


def test_proc_is_read_only(bench):
    status, text, _ = inside(bench, "echo 500 >/proc/self/oom_score_adj")
    assert status != 0 and ("Read-only" in text or "Permission denied" in text or "cannot create" in text)


def test_devices(bench):
    _, text, _ = inside(bench, "ls /dev")
    if bench.runner != "landlock":
        assert set(text.split()) <= {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "fd", "stdin",
                                     "stdout", "stderr", "core", "console"}


def test_refused_calls(bench):
    """io_uring and keyrings: an error as from a kernel without them, which programs know how to go on from."""
    status, text, _ = inside(bench, "python3 -c 'import ctypes, os; l = ctypes.CDLL(None, use_errno=True); b = (ctypes.c_char * 256)()\n"
                                    "for n, a in ((425, (1, b)), (250, (0, -3, 1))):\n print(l.syscall(n, *a), os.strerror(ctypes.get_errno()))'")
    assert status == 0 and text.count("-1 ") == 2


def test_a_daemon_ends_with_the_command(bench):
    program("setsid")
    status, _, _ = inside(bench, "setsid sh -c 'sleep 0.5; echo x >late' >/dev/null 2>&1 &")
    time.sleep(0.8)
    assert status == 0 and not (bench.places["inside"] / "late").exists()
