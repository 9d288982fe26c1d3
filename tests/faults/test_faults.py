"""Whatever is refused to confine, a call ends in a correct record or a refusal that says why: never unconfined,
never hanging, nothing left running."""
import errno
import json
import os
import resource

import pytest

from blackbox import mount, private_mounts
from fault import X86_64, Refuse, attempt, doctor, lowered

# Calls without which a start is impossible or different, those that a kernel's limits or another sandbox refuse.
REFUSED = {"fork": (errno.EAGAIN, ("clone", "clone3", "fork", "vfork")), "socketpair": (errno.EMFILE, ("socketpair",)),
           "signalfd": (errno.EMFILE, ("signalfd4",)), "mmap": (errno.ENOMEM, ("mmap",)),
           "pidfd_open": (errno.EMFILE, ("pidfd_open",)), "pipe": (errno.EMFILE, ("pipe2",)),
           "close_range": (errno.ENOSYS, ("close_range",)), "openat2": (errno.ENOSYS, ("openat2",)),
           "no seccomp": (errno.EINVAL, ("seccomp",)), "prctl": (errno.EINVAL, ("prctl",)), "unshare": (errno.EPERM, ("unshare",))}


@pytest.mark.parametrize("name", list(REFUSED))
def test_a_call_is_refused(box, name):
    error, calls = REFUSED[name]
    refuse = Refuse(error, *(X86_64[call] for call in calls))
    ended = attempt(box, last=refuse)
    if name in ("fork", "socketpair", "signalfd"):
        assert not ended.ran
    if name in ("socketpair", "signalfd", "fork", "mmap", "pipe"):
        attempt(box, "wrap", last=refuse)


@pytest.mark.parametrize("name", list(REFUSED))
def test_a_call_is_refused_to_doctor(any_box, name):
    error, calls = REFUSED[name]
    doctor(any_box, last=Refuse(error, *(X86_64[call] for call in calls)))


@pytest.mark.long
@pytest.mark.parametrize("error", [errno.ENOMEM, errno.EPERM, errno.ENOSYS, errno.EMFILE])
@pytest.mark.parametrize("call", [call for call in X86_64 if call not in ("execve", "ppoll", "poll")])
def test_every_call_is_refused(box, call, error):
    """One at a time, with errors that it may not even have."""
    if call in ("futex", "wait4", "recvfrom", "read", "clock_gettime") and error != errno.ENOSYS:
        return  # a kernel that works at all does not refuse these
    refuse = Refuse(error, X86_64[call])
    mute = call == "write"
    attempt(box, last=refuse, mute=mute)
    # At these bwrap itself hangs, or fails after its fork and leaves a child that waits for it; run ends that, too.
    if box.runner != "bwrap" or call not in ("capset", "sigprocmask", "wait4", "write"):
        attempt(box, "wrap", last=refuse, mute=mute)


def descriptors(box, limits):
    for limit in limits:
        last = lowered("RLIMIT_NOFILE", limit)
        ended = attempt(box, last=last)
        # With fewer bwrap itself fails after its fork and leaves a child that waits for it; run ends that, too.
        if box.runner != "bwrap" or limit > 12:
            attempt(box, "wrap", last=last)
        if ended.record is None or not ended.record["started"]:
            assert ended.status in (125, 127), ended
    assert ended.ran and ended.status == 3, ended


def test_few_descriptors(box):
    """At each of these numbers something else is the first that cannot be had."""
    descriptors(box, (3, 5, 7, 9, 12, 15, 20, 40))


@pytest.mark.long
def test_each_number_of_descriptors(box):
    descriptors(box, range(1, 41))


def test_few_descriptors_for_doctor(any_box):
    statuses = [doctor(any_box, last=lowered("RLIMIT_NOFILE", limit)) for limit in (1, 3, 4, 5, 6, 7, 8, 10, 14, 40)]
    assert statuses[-1] == 0


MEGABYTE = 1 << 20


def memory(box, sizes):
    for size in sizes:
        last = lowered("RLIMIT_AS", size)
        ended = attempt(box, last=last)
        attempt(box, "wrap", last=last)
    assert ended.ran and ended.status == 3, ended


def test_little_memory(box):
    memory(box, [kilobytes << 10 for kilobytes in (100, 800, 1200, 1600, 2400, 4000, 64000)])


@pytest.mark.long
def test_memory_in_small_steps(box):
    memory(box, [kilobytes << 10 for kilobytes in [*range(200, 6000, 100), 64000]])


def test_little_memory_for_doctor(any_box):
    for kilobytes in (100, 800, 1200, 1600, 2400, 4000):
        doctor(any_box, last=lowered("RLIMIT_AS", kilobytes << 10))
    assert doctor(any_box, last=lowered("RLIMIT_AS", 64 * MEGABYTE)) == 0


def test_few_processes(user_box, usable_runners):
    """Root is not counted. Each number of processes more reaches one step further."""
    for runner, reason in usable_runners(user_box.who).items():
        if reason:
            continue
        user_box.runner = runner
        for count in range(0, 8):
            last = lowered("RLIMIT_NPROC", count)
            ended = attempt(user_box, last=last)
            attempt(user_box, "wrap", last=last)
            if not count:
                assert not ended.ran, ended


def test_few_processes_for_doctor(user_box):
    for count in range(0, 6):
        doctor(user_box, last=lowered("RLIMIT_NPROC", count))


def small_disk(box, options, fill):
    """The folder of reports on a file system of its own, prepared by root in the child."""
    def prepare():
        private_mounts()
        mount("none", box.reports, "tmpfs", 0, options.encode())
        os.chmod(box.reports, 0o777)
        fill()
    return prepare


def copies(box, name):
    """A private mount is gone with the process: what is in it is looked at by the command's shell."""
    return ["sh", "-c", '"$@"; s=$?; ls -A "$0"; exit $s', str(box.reports), *name]


def test_the_disk_is_full_when_the_record_comes(box):
    def fill():
        with open(box.reports / "fill", "wb", buffering=0) as stream:
            try:
                while stream.write(bytes(4096)):
                    pass
            except OSError:
                pass

    start = box.run_words(["sh", "-c", "echo ran >in; exit 3"], report=box.reports / "record")
    process = box.spawn(copies(box, start), privileged=small_disk(box, "size=16k", fill))
    out, err = process.communicate(timeout=40)
    assert process.returncode == 125, (out, err)
    assert b"confine: the result record could not be written: No space left on device" in err
    assert out.split() == [b"fill"] and (box.ws / "in").exists()


def test_no_file_can_be_made_for_the_record(box):
    """That is known before the command starts."""
    start = box.run_words(["touch", str(box.ws / "in")], report=box.reports / "record")
    process = box.spawn(copies(box, start), privileged=small_disk(box, "nr_inodes=1", lambda: None))
    out, err = process.communicate(timeout=40)
    assert process.returncode == 125 and err.startswith(b"confine: --report ") and not (box.ws / "in").exists(), (out, err)
    assert out == b""


def test_the_record_stands_whole_or_not_at_all(box):
    """An old record stays when there is no room for a new one."""
    def fill():
        (box.reports / "record").write_text("old\n")
        os.chmod(box.reports / "record", 0o666)
        with open(box.reports / "fill", "wb", buffering=0) as stream:
            try:
                while stream.write(bytes(4096)):
                    pass
            except OSError:
                pass

    start = ["sh", "-c", '"$@"; s=$?; cat "$0"; exit $s', str(box.reports / "record"),
             *box.run_words(["true"], report=box.reports / "record")]
    process = box.spawn(start, privileged=small_disk(box, "size=16k", fill))
    out, err = process.communicate(timeout=40)
    assert process.returncode == 125 and out == b"old\n", (out, err)


@pytest.mark.parametrize("command, status", [("true", 0), ("exit 3", 3), ("none", 127)])
def test_files_may_not_grow(box, command, status):
    """RLIMIT_FSIZE: the record cannot be written, which is an error and no death of confine by SIGXFSZ."""
    report = box.reports / "record"
    words = [command] if command == "none" else ["sh", "-c", command]
    process = box.spawn(box.run_words(words, report=report), last=lowered("RLIMIT_FSIZE", 0))
    _, err = process.communicate(timeout=40)
    assert process.returncode == 125 and b"the result record could not be written: File too large" in err, (process.returncode, err)
    assert not report.exists() and os.listdir(box.reports) == []
    process = box.spawn(box.run_words(words), last=lowered("RLIMIT_FSIZE", 0))
    process.communicate(timeout=40)
    assert process.returncode == status


@pytest.mark.parametrize("words", [["true"], ["none"]])
def test_nobody_reads_the_record(box, words):
    reading, writing = os.pipe()
    os.close(reading)
    process = box.spawn(box.run_words(words, report=f"fd:{writing}"), pass_fds=[writing])
    os.close(writing)
    _, err = process.communicate(timeout=40)
    assert process.returncode == 125 and b"could not be written: Broken pipe" in err, (process.returncode, err)
    with open("/dev/full", "wb", buffering=0) as full:
        process = box.spawn(box.run_words(words, report=f"fd:{full.fileno()}"), pass_fds=[full.fileno()])
        _, err = process.communicate(timeout=40)
    assert process.returncode == 125 and b"could not be written: No space left on device" in err


def test_nobody_reads_what_is_printed(any_box):
    """doctor, wrap and help into a full or closed place: an error, no success and no record that is cut short."""
    confine = any_box.programs.confine
    for words in (["doctor"], ["doctor", "--json"], ["wrap", "--", "true"], ["--version"], ["--help"], ["run", "--help"]):
        with open("/dev/full", "wb", buffering=0) as full:
            process = any_box.spawn([confine, *words], stdout=full)
            _, err = process.communicate(timeout=40)
        assert process.returncode == 125 and err.startswith(b"confine: "), (words, process.returncode, err)


def test_limits_reach_the_command_unchanged(box):
    """confine itself raises nothing for it."""
    process = box.spawn(box.run_words(["sh", "-c", "ulimit -Sn; ulimit -Hn; ulimit -Sv"]),
                        last=lambda: (resource.setrlimit(resource.RLIMIT_NOFILE, (60, 70)),
                                      resource.setrlimit(resource.RLIMIT_AS, (64 * MEGABYTE, 64 * MEGABYTE))))
    out, err = process.communicate(timeout=40)
    assert out.split() == [b"60", b"70", b"65536"], err


def test_a_stack_that_is_small(box):
    for kilobytes in (16, 64, 200):
        attempt(box, last=lowered("RLIMIT_STACK", kilobytes << 10))
    assert json.dumps(box.before) == json.dumps(box._look())
