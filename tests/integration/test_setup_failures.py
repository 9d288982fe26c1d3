"""Every set-up step made to fail in turn: the record names step and error, and the command does not run."""
import errno
import os
import re
import resource

import pytest

from blackbox import (ANY_BIT, CLONE_NEWNS, EQUAL, GREATER, MS_BIND, MS_RDONLY, MS_REMOUNT, SETUP_FAILED, UNAVAILABLE,
                      Channel, failing, mount, private_mounts, together)

AT_FDCWD = -100
AT_RECURSIVE = 0x8000
PR_SET_NO_NEW_PRIVS = 38
MOVE_BY_DESCRIPTORS = 0x44  # MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH
SECCOMP_SET_MODE_FILTER = 1

# step, runners, error, call and condition: every error is one that the call could really give.
STEPS = [
    ("clone", ("namespace",), errno.EPERM, ("clone", (0, ANY_BIT, CLONE_NEWNS))),
    ("clone-root", ("namespace",), errno.EPERM, ("open_tree", (2, ANY_BIT, AT_RECURSIVE))),
    ("read-only", ("namespace",), errno.EPERM, ("mount_setattr", (0, EQUAL, AT_FDCWD), (2, EQUAL, AT_RECURSIVE))),
    ("private-dev", ("namespace",), errno.ENOSPC, ("mount",)),
    ("attach-root", ("namespace",), errno.EACCES, ("move_mount", (4, EQUAL, MOVE_BY_DESCRIPTORS))),
    ("landlock", ("namespace", "landlock"), errno.EPERM, ("landlock_add_rule",)),
    ("landlock", ("namespace", "landlock"), errno.E2BIG, ("landlock_create_ruleset", (2, EQUAL, 0))),
    ("restrict", ("namespace", "landlock"), errno.E2BIG, ("landlock_restrict_self",)),
    ("no-new-privs", ("namespace", "landlock"), errno.EPERM, ("prctl", (0, EQUAL, PR_SET_NO_NEW_PRIVS))),
    ("capabilities", ("namespace", "landlock"), errno.EPERM, ("capset",)),
    ("guard", ("namespace", "landlock"), errno.EACCES, ("seccomp", (0, EQUAL, SECCOMP_SET_MODE_FILTER))),
    ("close-descriptors", ("namespace", "landlock"), errno.EPERM, ("close_range",)),
]


def has_step(box, step, runners):
    """Without a user namespace an ordinary user has no capabilities to give up."""
    return box.runner in runners and not (step == "capabilities" and box.runner == "landlock" and box.who.uid != 0)


def words_and_options(box, step):
    """attach-root by descriptors happens with a root that is not the first."""
    options = ("--write", str(box.home)) if step == "attach-root" else ()
    return ("touch", str(box.ws / "ran")), options


def failing_step(table):
    return pytest.mark.parametrize("step, runners, error, where", table, ids=[f"{row[0]}-{row[3][0]}" for row in table])


@failing_step(STEPS)
def test_a_step_fails(box, step, runners, error, where):
    if not has_step(box, step, runners):
        return
    words, options = words_and_options(box, step)
    outcome = box.confine(*words, options=options, last=failing(where[0], error, *where[1:]))
    assert not (box.ws / "ran").exists()
    assert outcome.rc == 125, outcome
    record = outcome.record
    assert record["started"] is False and record["exitCode"] is None and record["signal"] is None
    failure = record["runnerFailure"]
    assert failure["step"] == step and failure["evidence"] == "status-channel", failure
    assert os.strerror(error) in failure["detail"]
    expected = f"confine: {UNAVAILABLE.format('workspace-write')} Runner failure: {failure['detail']}\n"
    assert outcome.text == expected


@failing_step([row for row in STEPS if row[0] != "clone"])
def test_a_step_of_the_wrapped_form_fails(box, step, runners, error, where):
    if not has_step(box, step, runners):
        return
    words, options = words_and_options(box, step)
    argv = box.wrap(*words, options=options)["argv"]
    last = failing(where[0], error, *where[1:])
    process = box.spawn(argv, last=last)
    _, err = process.communicate(timeout=20)
    launcher = f"{box.runner}-run"
    assert process.returncode == 125 and err.startswith(launcher.encode() + b": ") and err.count(b"\n") == 1
    assert os.strerror(error).encode() in err
    channel = Channel()
    process = box.spawn(channel.words(argv), last=last, pass_fds=[channel.theirs.fileno()])
    messages = channel.messages(20)
    process.communicate(timeout=20)
    assert process.returncode == 125
    assert len(messages) == 1 and messages[0][0] == SETUP_FAILED and messages[0][2] == error, messages
    assert not (box.ws / "ran").exists()


def test_the_current_directory_cannot_be_entered(box):
    """fchdir(2) fails from some descriptor on; with one threshold it is that of the step chdir."""
    if box.runner != "namespace":
        return
    seen = set()
    for threshold in range(2, 24):
        outcome = box.confine("touch", str(box.ws / "ran"), cwd="/", options=("--workspace", str(box.ws)),
                              last=failing("fchdir", errno.EACCES, (0, GREATER, threshold)))
        if outcome.rc == 0:
            os.unlink(box.ws / "ran")
            continue
        assert outcome.rc == 125 and not (box.ws / "ran").exists()
        seen.add(outcome.record["runnerFailure"]["step"])
        assert "Permission denied" in outcome.record["runnerFailure"]["detail"]
    assert seen and seen <= {"chdir", "open-root"}


def test_the_id_maps_cannot_be_written(user_box):
    def sealed_proc():
        private_mounts()
        mount("/proc", "/proc", None, MS_BIND)
        mount("none", "/proc", None, MS_REMOUNT | MS_BIND | MS_RDONLY)

    outcome = user_box.confine("touch", str(user_box.ws / "ran"), runner="namespace", privileged=sealed_proc)
    assert outcome.rc == 125 and not (user_box.ws / "ran").exists()
    assert outcome.record["runnerFailure"]["step"] == "id-map"
    assert "Read-only file system" in outcome.record["runnerFailure"]["detail"]


@pytest.mark.parametrize("call, conditions", [("socketpair", ()), ("clone", ((0, ANY_BIT, 0x100),))])
def test_no_monitor_can_be_started(any_box, call, conditions):
    """CLONE_VM or its channel is refused: nothing runs, whichever runner would come next."""
    outcome = any_box.refuse(last=failing(call, errno.EAGAIN, *conditions))
    assert "Resource temporarily unavailable" in outcome.text or UNAVAILABLE[:20] in outcome.text


def test_a_step_inside_bwrap_fails(box):
    """By its wrapped form, since the probe would find it first."""
    if box.runner != "bwrap":
        return
    argv = box.wrap("touch", str(box.ws / "ran"))["argv"]
    for call, error, conditions in (("landlock_restrict_self", errno.E2BIG, ()), ("close_range", errno.EMFILE, ()),
                                    ("mount", errno.EPERM, ()), ("clone", errno.EPERM, ((0, ANY_BIT, CLONE_NEWNS),))):
        process = box.spawn(argv, last=failing(call, error, *conditions))
        _, err = process.communicate(timeout=20)
        assert process.returncode != 0 and re.match(rb"(landlock-run|bwrap): ", err), (call, err)
        assert not (box.ws / "ran").exists()


def test_the_chain_goes_on_after_a_runner_that_fails(any_box):
    """namespace cannot, so bwrap or landlock confines; never nobody."""
    last = failing("mount_setattr", errno.ENOSYS)
    outcome = any_box.confine("sh", "-c", f"echo x >in; echo x >{any_box.outside}/new", last=last)
    assert outcome.record["runner"] in ("bwrap", "landlock") and outcome.record["runnerFailure"] is None
    assert (any_box.ws / "in").exists()
    any_box.assert_untouched()
    last = together(failing("mount_setattr", errno.ENOSYS), failing("clone", errno.EPERM, (0, ANY_BIT, CLONE_NEWNS)))
    outcome = any_box.confine("sh", "-c", f"echo x >in2; echo x >{any_box.outside}/new", last=last)
    assert outcome.record["runner"] == "landlock" and (any_box.ws / "in2").exists()
    any_box.assert_untouched()


def test_full_is_still_full_after_the_chain_went_on(any_box):
    """--require full does not fall back to something partial."""
    last = together(failing("mount_setattr", errno.ENOSYS), failing("clone", errno.EPERM, (0, ANY_BIT, CLONE_NEWNS)))
    told = any_box.confine("true", last=last)
    outcome = any_box.confine("touch", "ran", options=("--require", "full"), last=last)
    if told.record["enforcement"] == "full":
        assert outcome.rc == 0
    else:
        assert outcome.rc == 125 and not (any_box.ws / "ran").exists()


def test_resources_run_out(box):
    """No descriptor left for the set-up: refused or run confined, never unconfined, and no hang."""
    ran = 0
    for limit in range(3, 26):
        outcome = box.confine("sh", "-c", f"echo x >in.{limit}; echo x >{box.outside}/new", timeout=30,
                              last=lambda n=limit: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n)))
        if (box.ws / f"in.{limit}").exists():
            ran += 1
        else:
            assert outcome.rc in (125, 126, 127, 2, 1), outcome
    assert ran
    box.assert_untouched()
