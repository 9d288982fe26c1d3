"""How a call may end that something was refused to, and filters that refuse one system call."""
import ctypes
import json
import platform
import resource
import struct
import subprocess

import pytest

from blackbox import libc

LIMIT = 40
X86_64 = {"mmap": 9, "mprotect": 10, "brk": 12, "sigprocmask": 14, "sigaction": 13, "ioctl": 16, "pipe2": 293, "poll": 7,
          "dup": 32, "socketpair": 53, "sendto": 46, "recvfrom": 45, "clone": 56, "fork": 57, "vfork": 58, "clone3": 435,
          "execve": 59, "wait4": 61, "waitid": 247, "kill": 62, "fcntl": 72, "getcwd": 79, "chdir": 80, "fchdir": 81,
          "openat": 257, "open": 2, "openat2": 437, "fstat": 5, "newfstatat": 262, "statx": 332, "prctl": 157, "futex": 202,
          "signalfd4": 289, "ppoll": 271, "pidfd_open": 434, "pidfd_send_signal": 424, "close_range": 436, "unshare": 272,
          "setns": 308, "mount": 165, "umount2": 166, "pivot_root": 155, "open_tree": 428, "move_mount": 429,
          "mount_setattr": 442, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "mknodat": 259, "mkdirat": 258, "chmod": 90,
          "landlock_create_ruleset": 444, "landlock_add_rule": 445, "landlock_restrict_self": 446, "seccomp": 317,
          "capset": 126, "capget": 125, "setresuid": 117, "prlimit64": 302, "read": 0, "write": 1, "writev": 20,
          "readlinkat": 267, "readlink": 89, "faccessat2": 439, "linkat": 265, "renameat": 264, "clock_gettime": 228,
          "memfd_create": 319, "epoll_create1": 291, "timerfd_create": 283, "eventfd2": 290, "process_vm_readv": 310,
          "getdents64": 217, "uname": 63, "getppid": 110, "setsid": 112, "tgkill": 234}


class Refuse:
    """In a child: the system calls fail with error from then on, by classic BPF."""

    def __init__(self, error, *numbers):
        if platform.machine() != "x86_64":
            pytest.skip(f"the filters are not written for {platform.machine()}")
        code = [(0x20, 0, 0, 4), (0x15, 1, 0, 0xC000003E), (0x06, 0, 0, 0x7FFF0000), (0x20, 0, 0, 0)]
        for i, number in enumerate(numbers):
            code.append((0x15, len(numbers) - i, 0, number))
        code += [(0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x00050000 | error)]
        self.text = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in code))
        self.program = ctypes.create_string_buffer(struct.pack("=HxxxxxxQ", len(code), ctypes.addressof(self.text)))

    def __call__(self):
        if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, self.program) != 0:
            raise OSError(ctypes.get_errno(), "seccomp")


def attempt(box, form="run", options=(), timeout=LIMIT, environment=None, mute=False, **how):
    """A command that writes inside and tries outside, in a place where something fails.

    Whatever happens: nothing outside changes, it ends in time, nothing is left running, and either the command
    ran, which its record says, or it did not, which confine says. mute: where it has no way to say anything, the exit
    status must do."""
    inside = box.ws / "in"
    inside.unlink(missing_ok=True)
    words = ["/bin/sh", "-c", f"echo x >{inside}; (echo x >{box.outside}/new; echo x >>{box.victim}; chmod 600 {box.victim}) "
                              "2>/dev/null; exit 3"]
    report = box.report_path()
    if form == "run":
        start = box.run_words(words, options, report=report)
    else:
        start = box.wrap(*words, options=options)["argv"]
    process = box.spawn(start, environment=environment, **how)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        box.mark.kill()
        pytest.fail(f"hangs: {start!r}")
    box.mark.wait_gone(5)
    box.assert_untouched()
    return Ended(box, form, process.returncode, out, err.decode(errors="replace"), report, inside.exists(), mute)


class Ended:
    def __init__(self, box, form, status, out, text, report, ran, mute):
        self.box, self.form, self.status, self.out, self.text, self.ran = box, form, status, out, text, ran
        self.mute = mute
        self.record = json.loads(report.read_text()) if report.exists() else None
        self.judge()

    def __repr__(self):
        return f"status {self.status}, ran {self.ran}, said {self.text!r}, record {self.record!r}"

    def judge(self):
        """Signals: the loader's or the kernel's, before or at exec; nothing ran then."""
        if self.form != "run":
            assert not self.ran or self.status == 3 or self.text or self.mute, self
            assert self.ran or self.status != 0, self
            return
        if self.mute and not self.text:
            assert self.record is None and not (self.ran and self.status == 3), self
            return
        if self.record is None:
            assert not (self.ran and self.status == 3), self
            assert self.status < 0 or (self.status in (125, 127) and self.text.strip()), self
            # The words of a bwrap that could not start come first.
            assert self.status != 125 or any(line.startswith("confine: ") for line in self.text.splitlines()), self
            return
        record = self.record
        if record["started"]:
            if record["runnerFailure"] is None:
                assert record["exitCode"] is not None or record["signal"], self
                if self.status == 3:
                    assert self.ran and record["exitCode"] == 3, self
        else:
            assert not self.ran, self
            assert self.text.splitlines()[-1].startswith("confine: ") and self.status in (125, 126, 127), self
            if self.status == 125:
                assert record["runnerFailure"]["step"] and record["runnerFailure"]["detail"], self


def doctor(box, timeout=LIMIT, **how):
    """It answers, or says why it cannot; nothing is left running."""
    process = box.spawn([box.programs.confine, "doctor", "--json"], **how)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        box.mark.kill()
        pytest.fail("doctor hangs")
    box.mark.wait_gone(5)
    if process.returncode == 0:
        assert any(entry["usable"] for entry in json.loads(out)["runners"])
    elif process.returncode == 1:
        assert not any(entry["usable"] for entry in json.loads(out)["runners"])
        assert all(entry["reason"] for entry in json.loads(out)["runners"])
    else:
        assert process.returncode < 0 or (process.returncode in (125, 127) and err.strip()), (process.returncode, out, err)
    return process.returncode


def lowered(limit, value):
    return lambda: resource.setrlimit(getattr(resource, limit), (value, value))
