"""Calls that change metadata: inside a writable root what the kernel would say, outside nothing changes.

metadata-calls makes some 8,700 of them, 5,800 where the kernel has no 32-bit entry, and prints what
each returned and changed. Its lines without a sandbox are compared with those inside one.
"""
import subprocess
from pathlib import Path

import pytest

from blackbox import HANG, has_entry_32, program

HERE = Path(__file__).parent
REFUSAL = {"landlock": "EACCES", "namespace": "EROFS", "bwrap": "EROFS"}


def compile_program(scratch, name, *sources):
    target = scratch / name
    if not target.exists():
        subprocess.run([program("cc"), "-std=c11", "-O1", "-pthread", "-o", target, *(HERE / s for s in sources)],
                       check=True)
        target.chmod(0o755)
    return str(target)


@pytest.fixture(scope="session")
def calls(scratch):
    return compile_program(scratch, "metadata-calls", "metadata_calls.c", "metadata_tree.c")


def lines(output, tree):
    """{(call, object): (result, changes)}; where the tree is does not matter."""
    found = {}
    for line in output.decode().replace(str(tree), "TREE").splitlines():
        call, what, result, *changes = line.split("\t")
        found[call, what] = result, changes
    return found


_controls = {}


def unconfined(calls, box):
    """The control, made once for each user."""
    if box.who not in _controls:
        tree = box.base / "control"
        tree.mkdir()
        box.who.own(tree)
        process = box.spawn([calls, "own", str(tree)])
        out, err = process.communicate(timeout=HANG)
        assert process.returncode == 0, err
        assert len(out.splitlines()) > (8000 if has_entry_32() else 5500)
        _controls[box.who] = lines(out, tree)
    return _controls[box.who]


def confined(calls, box, mode, tree, options=()):
    outcome = box.confine(calls, mode, str(tree), options=("--require", "full", *options))
    assert outcome.rc == 0, outcome
    assert (outcome.record["enforcement"], outcome.record["gaps"]) == ("full", [])
    return lines(outcome.out, tree)


def is_of_proc(call, what):
    """The call is for a link below /proc itself, which lies outside, and not for what it leads to."""
    keeps_link = call.startswith("l") or any(word in call for word in ("nofollow", "both", "utimensat64"))
    return keeps_link and (what.startswith(("/proc/", "//proc/", "/dev/")) or what == "own pid")


def explained(box, call, what, outside, inside):
    """Why a result may differ, or None."""
    if is_of_proc(call, what):
        return "a link of /proc itself is outside"
    if "EBADF" in (outside, inside) and (call.startswith(("fsetxattr", "removexattrat_empty"))):
        return "Linux 6.13 and later take AT_FDCWD for a descriptor in some of these calls and not in others"
    if box.who.uid == 0 and inside == "EPERM" and what in (
            "trusted.new", "security.new", "security.capability", "10", "20"):
        return "root keeps no CAP_SYS_ADMIN, CAP_SETFCAP and CAP_LINUX_IMMUTABLE"
    if box.who.uid == 0 and inside == "EACCES" and what == "through init":
        return "root keeps too few capabilities to look into a process outside"
    if box.who.uid != 0 and what == "acl of a stranger" and box.runner != "landlock":
        return "in a user namespace somebody else's id has no name"
    if box.who.uid != 0 and box.runner == "bwrap" and inside == "EINVAL" and outside in ("EPERM", "EOPNOTSUPP"):
        return "in bwrap's user namespace nobody can be given a file"
    return None


@pytest.mark.parametrize("place", ["workspace", pytest.param("tmp", marks=pytest.mark.long)])
def test_inside_is_as_without_a_sandbox(box, calls, place):
    if place == "tmp" and box.runner == "landlock":
        pytest.skip("the host's /tmp is as any other root there")
    expected = unconfined(calls, box)
    tree = box.ws / "tree"
    tree.mkdir()
    box.who.own(tree)
    if place == "workspace":
        got = confined(calls, box, "own", tree)
    else:
        outcome = box.confine("sh", "-c", 'mkdir /tmp/tree && exec "$0" own /tmp/tree', calls)
        assert outcome.rc == 0, outcome
        got = lines(outcome.out, "/tmp/tree")
    assert got.keys() == expected.keys()
    # A file system in memory keeps other attributes and flags than the one of the control.
    wrong = [(key, expected[key], got[key]) for key in expected if got[key] != expected[key]
             and not explained(box, *key, expected[key][0], got[key][0])
             and not (place == "tmp" and is_peculiar(*key))]
    assert not wrong, f"{len(wrong)} differ: {wrong[:20]}"


def is_peculiar(call, what):
    return (any(word in call for word in ("xattr", "setflags", "file_setattr")) or "fd 53" in what or
            what in ("times 8", "times 9"))


@pytest.mark.parametrize("mode", ["workspace-write", pytest.param("read-only", marks=pytest.mark.long)])
def test_outside_nothing_changes(box, calls, mode):
    expected = unconfined(calls, box)
    tree = box.outside / "tree"
    tree.mkdir()
    box.who.own(tree)
    process = box.spawn([calls, "build", str(tree)])
    assert process.wait(HANG) == 0, process.stderr.read()
    box.before = box._look()
    got = confined(calls, box, "victim", tree, ("--mode", mode))
    box.assert_untouched()
    refusal, refused = REFUSAL[box.runner], 0
    for key, (result, changes) in got.items():
        assert changes == [], (key, changes)
        control, effects = expected.get(key, ("", []))
        if effects and not any(f"fd {fd}" in key[1] for fd in range(47, 61)):
            refused += 1
            assert result in (refusal, "EBADF") or is_odd(box, *key, result), (key, control, result)
    assert refused > (1500 if has_entry_32() else 900)


def is_odd(box, call, what, result):
    """Results that other things than the policy decide, though the control's call changed something."""
    if "/fd/" in what and result == "ENOENT":
        return True  # opening it for writing has been refused
    if box.who.uid == 0:
        return result in ("EPERM", "EACCES")  # capabilities that root does not keep
    return False
