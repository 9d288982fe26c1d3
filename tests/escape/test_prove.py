"""confine doctor --prove: the same attacks, by the user's own hand."""
import json
import os
import pty
import resource
import select
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from blackbox import MS_BIND, MS_RDONLY, MS_REMOUNT, PATH, Mark, mount, private_mounts

# What a proof may take: 20 s on two processors that start a program in 0.6 ms. Counted in such starts, since
# neither a slow machine nor other work on it is the proof's fault.
SPAWNS = 60000
PLACE = Path("/var/tmp")


def left_behind():
    return {path.name for path in PLACE.glob("confine-prove-*")}


def used_since(usage):
    """Seconds of processor time of the children that ended meanwhile."""
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - usage.ru_utime - usage.ru_stime


def spawn_cost(count=200):
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(count):
        os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
    return used_since(usage) / count


class Proof:
    """A proof under way, and whether anything of it is left."""

    def __init__(self, programs, who, *words, privileged=None, environment=None, **streams):
        self.mark, self.before = Mark(), left_behind()
        streams.setdefault("stdout", subprocess.PIPE)
        streams.setdefault("stderr", subprocess.PIPE)

        def prepare():
            # Python ignores SIGPIPE, which is handed on.
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            if privileged:
                privileged()
            who.become()

        environment = {"PATH": PATH, "LANG": "C.UTF-8", **self.mark.variable, **(environment or {})}
        self.process = subprocess.Popen([programs.confine, "doctor", "--prove", *words], cwd="/",
                                        stdin=subprocess.DEVNULL, preexec_fn=prepare, env=environment, **streams)

    def end(self, limit=240):
        out, err = self.process.communicate(timeout=limit)
        return self.process.returncode, (out or b"").decode(), (err or b"").decode()

    def assert_nothing_left(self):
        self.mark.wait_gone(seconds=5)
        assert left_behind() <= self.before


def test_it_holds(programs, who, doctor, attack):
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    proof = Proof(programs, who, "--json")
    status, out, err = proof.end()
    assert (status, err) == (0, "")
    proof.assert_nothing_left()
    said = json.loads(out)
    assert set(said) == {"schema", "runners"} and said["schema"] == "confine.prove/1"
    usable = [name for name, entry in doctor(who).items() if entry["usable"]]
    assert [runner["name"] for runner in said["runners"]] == usable
    for runner in said["runners"]:
        assert set(runner) == {"name", "checks"}
        checks = runner["checks"]
        assert all(set(check) == {"id", "family", "mode", "verdict", "why"} for check in checks)
        verdicts = Counter(check["verdict"] for check in checks)
        assert set(verdicts) <= {"held", "open", "n/a"} and verdicts["held"] > 400
        tried = {check["id"] for check in checks}
        other = {"root": "user"}.get(who.name, "root")
        assert tried == {name for name, technique in attack.techniques.items() if other not in technique.flags}
        # Once in each mode, but for what needs a writable workspace.
        assert all(number == 2 or "workspace" in attack.techniques[name].flags
                   for name, number in Counter(check["id"] for check in checks).items())
        assert all(attack.techniques[check["id"]].by_design for check in checks if check["verdict"] == "open")
    assert used_since(usage) < SPAWNS * spawn_cost()


@pytest.mark.long
def test_for_people(programs, who):
    proof = Proof(programs, who)
    status, out, err = proof.end()
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert len(lines) > 1000
    assert lines[-2] == "" and " held, " in lines[-1] and " 0 escaped" in lines[-1]
    assert {line.split()[0] for line in lines[:-2]} <= {"held", "open", "n/a"}


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGKILL"])
def test_ended_early(programs, who, number):
    proof = Proof(programs, who)
    # Some checks are done, others under way.
    for _ in range(200):
        proof.process.stdout.readline()
    proof.process.send_signal(getattr(signal, number))
    status, _, err = proof.end(limit=30)
    assert (status, err) == (-getattr(signal, number), "")
    proof.assert_nothing_left()


def test_nobody_reads(programs, who):
    proof = Proof(programs, who)
    proof.process.stdout.readline()
    proof.process.stdout.close()
    proof.process.wait(timeout=30)
    assert proof.process.returncode == -signal.SIGPIPE
    proof.process.stderr.close()
    proof.assert_nothing_left()


def test_progress_on_a_terminal(programs, who):
    ours, theirs = pty.openpty()
    proof = Proof(programs, who, "--json", stderr=theirs)
    os.close(theirs)
    seen, deadline = b"", time.monotonic() + 30
    while b"K9 of " not in seen and time.monotonic() < deadline:
        if select.select([ours], [], [], 1)[0]:
            seen += os.read(ours, 4096)
    proof.process.terminate()
    while select.select([ours], [], [], 1)[0]:
        try:
            os.read(ours, 4096)
        except OSError:
            break
    _, out, _ = proof.end(limit=30)
    os.close(ours)
    assert b"K9 of " in seen and b"namespace" in seen
    assert out == ""
    proof.assert_nothing_left()


def hiding_var_tmp():
    private_mounts()
    mount("/var/tmp", "/var/tmp", None, MS_BIND)
    mount("none", "/var/tmp", None, MS_BIND | MS_REMOUNT | MS_RDONLY)


@pytest.fixture
def read_only_place(people):
    if "root" not in people:
        pytest.skip("only root can prepare this")
    return hiding_var_tmp


def test_no_place(programs, who, read_only_place):
    for environment in ({}, {"TMPDIR": "/tmp"}, {"TMPDIR": "/no/such"}):
        proof = Proof(programs, who, privileged=read_only_place, environment=environment)
        status, out, err = proof.end()
        assert (status, out) == (125, "")
        assert err.startswith("confine: doctor: cannot make a folder in /var/tmp: ") and "TMPDIR" in err


@pytest.mark.long
def test_another_place(programs, who, read_only_place):
    place = Path(f"/run/confine-test-{os.getpid()}")
    place.mkdir()
    try:
        os.chown(place, who.uid, who.gid)
        proof = Proof(programs, who, "--json", privileged=read_only_place, environment={"TMPDIR": str(place)})
        status, out, err = proof.end()
        assert (status, err) == (0, "") and json.loads(out)["runners"]
        assert os.listdir(place) == []
    finally:
        place.rmdir()


def test_no_runner_no_proof(programs, who, people, scratch):
    """Where nothing can be proved it does not say so."""
    if "root" not in people:
        pytest.skip("only root can prepare this")
    alone = scratch / f"alone-{who.name}"
    alone.mkdir(exist_ok=True)
    (alone / "confine").write_bytes(Path(programs.confine).read_bytes())
    (alone / "confine").chmod(0o755)
    done = subprocess.run([alone / "confine", "doctor", "--prove"], preexec_fn=who.become, cwd="/", check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 125 and done.stdout == b""
    assert done.stderr.startswith(b"confine: doctor: no runner is usable here")


def test_unknown_word(programs):
    done = subprocess.run([programs.confine, "doctor", "--prove", "x"], check=False, stderr=subprocess.PIPE)
    assert done.returncode == 125 and b"unknown argument x" in done.stderr
