"""What a process hands down reaches the command unchanged: arguments, environment, directory, limits, signals."""
import base64
import json
import os
import resource
import signal
import subprocess

import pytest

SHOW = """
import json, os, resource, signal, sys
state = {line.split(":")[0]: line.split(":")[1].strip() for line in open("/proc/self/status")}
json.dump({
    "blocked": state["SigBlk"], "ignored": state["SigIgn"], "caught": state["SigCgt"], "umask": state["Umask"],
    "groups": sorted(os.getgroups()), "ids": [os.getresuid(), os.getresgid()],
    "nice": os.nice(0), "cwd": os.getcwdb().hex(), "fds": sorted(map(int, os.listdir("/proc/self/fd")))[:-1],
    "limits": {name: resource.getrlimit(getattr(resource, name)) for name in
               ("RLIMIT_NOFILE", "RLIMIT_CORE", "RLIMIT_FSIZE", "RLIMIT_STACK", "RLIMIT_NPROC")},
    "session": os.getsid(0), "group": os.getpgid(0), "affinity": sorted(os.sched_getaffinity(0)),
}, sys.stdout)
"""


def show(box, form="run", **how):
    outcome = box.confine("/usr/bin/python3", "-I", "-c", SHOW, form=form, **how)
    assert outcome.rc == 0, outcome
    return json.loads(outcome.out)


def show_outside(box, **how):
    out, _ = box.spawn(["/usr/bin/python3", "-I", "-c", SHOW], **how).communicate(timeout=60)
    return json.loads(out)


def test_nothing_changes_by_default(box, form):
    inside, outside = show(box, form), show_outside(box)
    for name in ("blocked", "ignored", "umask", "ids", "nice", "cwd", "fds", "limits", "session", "affinity"):
        assert inside[name] == outside[name], name


def test_umask_nice_limits_and_affinity(box, form):
    def change():
        os.umask(0o137)
        os.nice(7)
        resource.setrlimit(resource.RLIMIT_NOFILE, (123, 456))
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 21))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

    inside, outside = show(box, form, last=change), show_outside(box, last=change)
    for name in ("umask", "nice", "limits", "affinity"):
        assert inside[name] == outside[name], name


@pytest.mark.parametrize("ignored", [(), (signal.SIGINT,), (signal.SIGPIPE,), (signal.SIGHUP, signal.SIGTERM),
                                     (signal.SIGCHLD,), (signal.SIGTSTP, signal.SIGTTOU, signal.SIGQUIT)])
def test_ignored_signals(box, form, ignored):
    def change():
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)

    outcome = box.confine("grep", "^Sig[IB]", "/proc/self/status", form=form, last=change)
    lines = dict(line.split(":\t") for line in outcome.out.decode().splitlines())
    assert int(lines["SigIgn"], 16) == sum(1 << (number - 1) for number in ignored)
    assert int(lines["SigBlk"], 16) == 0


@pytest.mark.parametrize("blocked", [{signal.SIGUSR1, signal.SIGTERM}, {signal.SIGINT, signal.SIGCHLD, 40, 64}])
def test_blocked_signals(box, form, blocked):
    outcome = box.confine("grep", "^SigBlk", "/proc/self/status", form=form,
                          last=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, blocked))
    assert int(outcome.out.split()[1], 16) == sum(1 << (number - 1) for number in blocked)


def test_an_ignored_pipe_signal_gives_the_command_an_error(box):
    """A command whose caller ignores SIGPIPE sees EPIPE instead of dying, as outside."""
    process = box.spawn(box.run_words(["sh", "-c", "sleep 0.2; echo x; echo y 2>/dev/null || exit 8"]),
                        last=lambda: signal.signal(signal.SIGPIPE, signal.SIG_IGN))
    process.stdout.close()
    assert process.wait(timeout=20) == 8


def test_descriptors_above_2_do_not_reach_the_command(box, form):
    def inherit():
        for number in (3, 4, 7, 63, 200):
            os.dup2(os.open(box.victim, os.O_RDWR | os.O_APPEND), number, inheritable=True)
        os.dup2(os.open("/", os.O_RDONLY), 9, inheritable=True)

    script = f"ls /proc/self/fd | tr '\\n' ' '; for n in 3 4 7 9; do echo x >&$n; done 2>/dev/null; cat {box.victim}"
    words = ["bash", "-c", script]
    start = box.run_words(words) if form == "run" else box.wrap(*words)["argv"]
    process = box.spawn(start, last=inherit, close_fds=False)
    out, _ = process.communicate(timeout=20)
    assert out.split(b"original")[0].split() == [b"0", b"1", b"2", b"3"], out  # 3: ls's own
    box.assert_untouched()


ARGUMENTS = [b"", b"a b", b"new\nline", b"\xff\xfe\x80", b"--", b"-x", b"$HOME", b"'\"\\", b"*", b"\xc3\xa9",
             b"x" * 100000]


def test_arguments_byte_for_byte(box, form):
    printing = b"import os, sys\nsys.stdout.buffer.write(b'\\0'.join(os.fsencode(a) for a in sys.argv[1:]))"
    words = ["/usr/bin/python3", "-c", printing, *ARGUMENTS]
    if form == "wrap":
        words = [os.fsdecode(word) for word in words if b"\xff" not in os.fsencode(word)]
        expected = [word for word in ARGUMENTS if b"\xff" not in word]
    else:
        expected = ARGUMENTS
    outcome = box.confine(*words, form=form)
    assert outcome.out.split(b"\0") == expected


def test_arguments_that_are_not_utf8_in_the_wrapped_argv(box):
    wrapped = box.wrap("printf", "%s", b"\xff\xfe")
    argv = [base64.b64decode(word["bytes"]) if isinstance(word, dict) else word for word in wrapped["argv"]]
    assert argv[-1] == b"\xff\xfe"
    out, _ = box.spawn(argv).communicate(timeout=20)
    assert out == b"\xff\xfe"


def test_arguments_near_the_limit(box, form):
    """1.2 MB of arguments, besides what the environment takes."""
    count, size = 12, 100_000
    words = ["sh", "-c", 'echo $# ${#1}', "sh", *["y" * size] * count]
    outcome = box.confine(*words, form=form)
    assert outcome.out.split() == [str(count).encode(), str(size).encode()]


def test_many_arguments(box):
    outcome = box.confine("sh", "-c", "echo $#", "sh", *["w"] * 50000)
    assert outcome.out == b"50000\n"


def test_the_environment_byte_for_byte(box, form):
    added = {"EMPTY": "", "LINES": "a\nb", "EQUALS": "a=b=c", "BYTES": os.fsdecode(b"\xff\xfe"), "lower": "x",
             "LD_PRELOAD": "", "LD_LIBRARY_PATH": "/nonexistent", "LD_AUDIT": "", "BASH_ENV": "/nonexistent",
             "ENV": "/nonexistent", "PYTHONPATH": "/nonexistent", "NODE_OPTIONS": "--x", "IFS": "z", "A B": "space",
             "confine:X": "own", "confine-directory": "1:2", "confine-streams": "3:4:5", "confine-signals": "fff",
             "LONG": "v" * 100000, "TMPDIR": "/nonexistent", "MALLOC_TRACE": "/nonexistent"}
    outcome = box.confine("/usr/bin/env", "-0", form=form, environment=added)
    inside = sorted(outcome.out.rstrip(b"\0").split(b"\0"))
    outside = sorted(os.fsencode(f"{k}={v}") for k, v in box.environment(added).items())
    assert inside == outside


def test_an_empty_environment(box):
    start = box.run_words(["/usr/bin/env"])
    out, err = box.spawn(["/usr/bin/env", "-i", *start]).communicate(timeout=20)
    assert (out, err) == (b"", b"")


def test_the_directory_is_kept(box, form):
    deep = box.ws / "a" / "b"
    deep.mkdir(parents=True)
    for place, options in ((deep, ("--workspace", str(box.ws))), (box.outside, ("--workspace", str(box.ws))),
                           ("/", ("--workspace", str(box.ws))), ("/usr/share", ("--workspace", str(box.ws)))):
        outcome = box.confine("pwd", "-P", cwd=place, options=options, form=form)
        assert outcome.out.decode().strip() == str(place), outcome
        if form == "run":
            assert outcome.record["notices"] == []


def test_a_directory_reached_by_a_symbolic_link(box, form):
    (box.ws / "real").mkdir()
    box.who.own(box.ws / "real")
    (box.ws / "link").symlink_to("real")
    outcome = box.confine("sh", "-c", "pwd -P; echo x >here", cwd=box.ws / "link", form=form)
    assert outcome.out.decode().strip() == str(box.ws / "real") and (box.ws / "real" / "here").exists()


def test_a_hidden_directory_means_the_workspace(box, form, tmp_places):
    """Under a private /tmp the caller's directory there is hidden: the command starts in the workspace."""
    outcome = box.confine("pwd", "-P", cwd=tmp_places, options=("--workspace", str(box.ws)), form=form)
    if box.runner == "landlock":
        assert outcome.out.decode().strip() == str(tmp_places)
    else:
        assert outcome.out.decode().strip() == str(box.ws)
    if form == "run":
        codes = [notice["code"] for notice in outcome.record["notices"]]
        assert codes == ([] if box.runner == "landlock" else ["cwd-hidden"])
        assert all(notice["text"] for notice in outcome.record["notices"])


def test_a_deleted_directory(box, form):
    gone = box.base / "gone"
    gone.mkdir()
    box.who.own(gone)
    words = ["sh", "-c", "echo started; echo x >in-workspace"]
    options = ("--workspace", str(box.ws))
    report = box.reports / "r"
    start = (box.run_words(words, options, report=report) if form == "run"
             else box.wrap(*words, options=options)["argv"])
    process = box.spawn(start, cwd=gone, last=lambda: os.rmdir(gone))
    out, err = process.communicate(timeout=20)
    assert out == b"started\n", err
    if box.runner != "landlock":
        assert (box.ws / "in-workspace").exists()


def test_the_process_is_not_traced_or_marked(box):
    """No subreaper flag, no parent-death signal that a caller could notice, no_new_privs as it must be."""
    script = ("import ctypes, sys\n"
              "libc = ctypes.CDLL(None)\n"
              "value = ctypes.c_int()\n"
              "libc.prctl(37, ctypes.byref(value), 0, 0, 0)\n"
              "print(value.value, libc.prctl(39, 0, 0, 0, 0))\n")
    outcome = box.confine("/usr/bin/python3", "-c", script)
    assert outcome.out == b"0 1\n"


def test_files_are_made_with_the_callers_identity(box, form):
    outcome = box.confine("sh", "-c", "umask 027; echo x >file; mkdir folder", form=form)
    assert outcome.rc == 0
    for name, mode in (("file", 0o640), ("folder", 0o750)):
        st = (box.ws / name).stat()
        assert (st.st_uid, st.st_gid, st.st_mode & 0o777) == (box.who.uid, box.who.gid, mode)


def test_supplementary_groups_still_count(root, box):
    """A folder that only a group may write stays writable for a member of it."""
    shared = box.ws / "shared"
    shared.mkdir()
    os.chown(shared, 0, 54321)
    shared.chmod(0o770)
    process = subprocess.run(box.run_words(["sh", "-c", f"echo x >{shared}/file"]), cwd=box.ws, env=box.environment(),
                             stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False, timeout=20,
                             user=box.who.uid, group=box.who.gid, extra_groups=[box.who.gid, 54321])
    assert process.returncode == 0, process.stderr
    assert (shared / "file").exists()
