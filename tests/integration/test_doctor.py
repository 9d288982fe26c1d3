"""confine doctor: what this host can enforce, why not more, and probes that hang."""
import errno
import json
import os
import platform
import shutil
import sys
import time

import pytest

from blackbox import ANY_BIT, CLONE_NEWNS, CLONE_NEWUSER, failing, together

KEYS = ["name", "usable", "enforcement", "gaps", "path", "version", "reason", "repair"]
CHAIN = ["namespace", "bwrap", "landlock"]
PROBE_LIMIT = 5


def doctor(box, *options, confine=None, **how):
    process = box.spawn([confine or box.programs.confine, "doctor", *options], **how)
    out, err = process.communicate(timeout=60)
    assert err == b""
    return process.returncode, out.decode()


def runners(box, **how):
    code, out = doctor(box, "--json", **how)
    report = json.loads(out)
    assert code == (0 if report["selected"] else 1)
    return report, {entry["name"]: entry for entry in report["runners"]}


def test_json(any_box):
    code, out = doctor(any_box, "--json")
    report = json.loads(out)
    assert code == 0 and out.count("\n") == 1
    assert list(report) == ["schema", "platform", "kernel", "landlockAbi", "chain", "selected", "runners"]
    assert report["schema"] == "confine.doctor/1"
    assert (report["platform"], report["kernel"]) == ("linux", platform.release())
    assert report["chain"] == [entry["name"] for entry in report["runners"]] == CHAIN
    assert report["selected"] == next(entry["name"] for entry in report["runners"] if entry["usable"])
    for entry in report["runners"]:
        assert list(entry) == KEYS
        if entry["usable"]:
            assert entry["enforcement"] == ("partial" if entry["gaps"] else "full")
            assert entry["reason"] is None and entry["repair"] is None
            assert os.access(entry["path"], os.X_OK)
        else:
            assert entry["enforcement"] is None and entry["gaps"] == [] and entry["reason"] and entry["repair"]


def test_for_people(any_box):
    report, entries = runners(any_box)
    code, out = doctor(any_box)
    assert code == 0
    assert out.startswith(f"Commands run under: {report['selected']}\n")
    for entry in entries.values():
        assert entry["name"] in out and (entry["path"] or "") in out
        for gap in entry["gaps"]:
            assert gap in out


def no_namespaces():
    return together(failing("clone", errno.EPERM, (0, ANY_BIT, CLONE_NEWNS)),
                    failing("clone", errno.EPERM, (0, ANY_BIT, CLONE_NEWUSER)),
                    failing("unshare", errno.EPERM, (0, ANY_BIT, CLONE_NEWNS)),
                    failing("unshare", errno.EPERM, (0, ANY_BIT, CLONE_NEWUSER)))


def no_landlock():
    return failing("landlock_create_ruleset", errno.EOPNOTSUPP)


def test_without_namespaces(any_box):
    report, entries = runners(any_box, last=no_namespaces())
    assert report["selected"] == "landlock"
    for name in ("namespace", "bwrap"):
        assert not entries[name]["usable"]
        assert "Operation not permitted" in entries[name]["reason"] or "namespace" in entries[name]["reason"]
        assert "use the landlock runner there" in entries[name]["repair"]


def test_without_landlock(any_box):
    report, entries = runners(any_box, last=no_landlock())
    assert report["landlockAbi"] == 0
    assert not entries["landlock"]["usable"]
    assert "Landlock" in entries["landlock"]["reason"]
    assert "Linux 5.13" in entries["landlock"]["repair"]


def test_nothing_is_usable(any_box):
    both = together(no_namespaces(), no_landlock())
    report, entries = runners(any_box, last=both)
    assert report["selected"] is None
    code, out = doctor(any_box, last=both)
    assert code == 1
    assert out.startswith("No runner is usable on this host")
    for entry in entries.values():
        assert f"reason: {entry['reason']}" in out and f"repair: {entry['repair']}" in out


def test_without_launchers(any_box):
    confine = any_box.base / "alone" / "bin" / "confine"
    confine.parent.mkdir(parents=True)
    shutil.copy(any_box.programs.confine, confine)
    report, entries = runners(any_box, confine=str(confine))
    assert report["selected"] is None
    assert "there is no namespace-run in" in entries["namespace"]["reason"]
    assert "there is no landlock-run in" in entries["landlock"]["reason"]
    assert all(entry["repair"] for entry in entries.values())


@pytest.mark.parametrize("words", [("--prove-it",), ("x",), ("--json", "y")])
def test_usage(any_box, words):
    process = any_box.spawn([any_box.programs.confine, "doctor", *words])
    _, err = process.communicate(timeout=60)
    assert process.returncode == 125 and err.startswith(b"confine: doctor: unknown argument " + words[-1].encode())


HANG = """#!/bin/sh
trap '' TERM HUP INT
note() { echo $1 >>'%s'; }
note $$
for i in 1 2 3 4 5; do
  (setsid sh -c 'trap "" TERM HUP; (sleep 1000 & echo $! >>"%s"); while :; do sleep 1000; done' & note $!) &
done
while :; do sleep 1000; done
"""


@pytest.fixture
def hanging(any_box):
    """An installation whose launchers hang and fork, and the list of what they started."""
    prefix, pids = any_box.base / "prefix", any_box.outside / "pids"
    shutil.copytree(any_box.programs.prefix, prefix, symlinks=True)
    for name in ("landlock-run", "namespace-run"):
        launcher = prefix / "libexec" / "confine" / name
        launcher.write_text(HANG % (pids, pids))
    pids.touch()
    pids.chmod(0o666)
    return prefix, pids


def alive(pids):
    def is_running(pid):
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                return file.read().rpartition(") ")[2][0] not in "ZX"
        except OSError:
            return False
    return [pid for pid in map(int, pids.read_text().split()) if is_running(pid)]


def check_ended(pids, seconds):
    assert PROBE_LIMIT <= seconds < PROBE_LIMIT + 1
    assert len(pids.read_text().split()) >= 11
    assert alive(pids) == []


def test_probes_that_hang_and_fork(any_box, hanging):
    prefix, pids = hanging
    since = time.monotonic()
    report, entries = runners(any_box, confine=str(prefix / "bin" / "confine"))
    seconds = time.monotonic() - since
    assert report["selected"] is None
    for entry in entries.values():
        assert not entry["usable"]
        assert entry["reason"] == f"its probe did not answer within {PROBE_LIMIT * 1000} ms and was ended"
    check_ended(pids, seconds)


def test_doctor_is_killed_while_probes_hang(any_box, hanging):
    prefix, pids = hanging
    process = any_box.spawn([str(prefix / "bin" / "confine"), "doctor"])
    deadline = time.monotonic() + 10
    while len(pids.read_text().split()) < 11 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert alive(pids)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 2
    while alive(pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert alive(pids) == []


# A host of its own kind: threads, a child and a handler of its own, and the library loaded by a relative name.
LIBRARY_HOST = """
import ctypes, json, os, signal, subprocess, sys, threading, time
os.chdir(os.path.dirname(sys.argv[1]))
library = ctypes.CDLL("./" + os.path.basename(sys.argv[1]))
os.chdir("/")
handled = []
signal.signal(signal.SIGCHLD, lambda *_: handled.append(1))
child = subprocess.Popen(["sleep", "30"])
provider, report, text = (ctypes.c_void_p() for _ in range(3))
assert library.confine_provider_new(None, ctypes.byref(provider), None) == 0
def examine():
    assert library.confine_provider_examine(provider, ctypes.byref(report), None) == 0
thread = threading.Thread(target=examine)
since = time.monotonic()
thread.start()
thread.join()
seconds = time.monotonic() - since
assert library.confine_host_report_json(report, ctypes.byref(text), None) == 0
found = json.loads(ctypes.string_at(text))
assert child.poll() is None and not handled
child.kill()
child.wait()
try:
    os.waitpid(-1, 0)
    raise SystemExit("a child was left")
except ChildProcessError:
    pass
subreaper = ctypes.c_int()
assert ctypes.CDLL(None).prctl(37, ctypes.byref(subreaper), 0, 0, 0) == 0 and subreaper.value == 0
json.dump({"seconds": seconds, "report": found}, sys.stdout)
"""


def in_library(box, library):
    process = box.spawn([sys.executable, "-c", LIBRARY_HOST, str(library)])
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return json.loads(out)


def test_a_library_host_whose_probes_hang(any_box, hanging):
    prefix, pids = hanging
    found = in_library(any_box, prefix / "lib" / "libconfine.so")
    assert found["report"]["selected"] is None
    check_ended(pids, found["seconds"])


def test_a_library_finds_the_launchers_beside_it(any_box):
    found = in_library(any_box, any_box.programs.prefix / "lib" / "libconfine.so")["report"]
    _, entries = runners(any_box)
    assert {entry["name"]: entry["path"] for entry in found["runners"]} == {
        name: entry["path"] for name, entry in entries.items()}


def test_inside_another_confinement(any_box):
    """There mounting is refused, and Landlock can be stacked."""
    done = any_box.confine(any_box.programs.confine, "doctor", "--json")
    assert json.loads(done.out)["selected"] == "landlock", done
