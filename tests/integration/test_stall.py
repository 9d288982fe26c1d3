"""A call that the supervisor makes for the command and that does not come back: everything else goes on.

The file system that does not answer is a FUSE one, served here and seen only by what a test starts.
"""
import ctypes
import errno
import os
import select
import signal
import struct
import threading

import pytest

from blackbox import ANY_BIT, CLONE_NEWNS, HANG, MS_PRIVATE, MS_REC, failing, libc, wait_until

CLONE_THREAD = 0x00010000
# linux/fuse.h
LOOKUP, FORGET, GETATTR, INIT, INTERRUPT, BATCH_FORGET = 1, 2, 3, 26, 36, 42
NO_ANSWER = (FORGET, INTERRUPT, BATCH_FORGET)
HEADER = struct.Struct("=IIQQIIII")  # length, opcode, unique, node, uid, gid, pid, padding
DIRECTORY = 0o40755
# The direct way to the call: a tool would look the name up first and be held up by the kernel itself.
CHANGE = "import os; os.chmod({!r}, 0o600)"


class Unanswering:
    """A directory in which no name is ever found or missed. asked is set once somebody waits for one."""

    def __init__(self, place):
        self.place = place
        self.asked, self.closing = threading.Event(), threading.Event()
        try:
            self.device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            pytest.skip(f"/dev/fuse: {error.strerror}")
        self.server = threading.Thread(target=self.serve, daemon=True)
        self.server.start()

    def mount(self):
        """In a child that is still root."""
        if libc.unshare(CLONE_NEWNS) != 0 or libc.mount(None, b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None) != 0:
            raise OSError(ctypes.get_errno(), "a mount namespace")
        options = f"fd={self.device},rootmode={DIRECTORY:o},user_id=0,group_id=0,allow_other".encode()
        if libc.mount(b"unanswering", os.fsencode(self.place), b"fuse", ctypes.c_ulong(0), options) != 0:
            raise OSError(ctypes.get_errno(), "mount of a FUSE file system")

    def answer(self, unique, content=b"", error=0):
        os.write(self.device, struct.pack("=IiQ", 16 + len(content), -error, unique) + content)

    def close(self):
        """Nothing else holds the device then, so that every call ends that still waits."""
        self.closing.set()
        self.server.join()
        os.close(self.device)

    def serve(self):
        while not self.closing.is_set():
            try:
                select.select([self.device], [], [], 0.05)
                request = os.read(self.device, 1 << 17)
            except BlockingIOError:
                continue
            except PermissionError:
                self.closing.wait(0.01)  # not mounted yet
                continue
            except OSError:
                return  # no longer mounted
            _, opcode, unique, node, *_ = HEADER.unpack_from(request)
            if opcode == INIT:
                major, minor = struct.unpack_from("=II", request, HEADER.size)
                self.answer(unique, struct.pack("=IIIIHHII", major, minor, 0, 0, 1, 1, 4096, 1) + bytes(32))
            elif opcode == GETATTR:
                attributes = struct.pack("=QQQQQQIIIIIIIIII", node, 0, 0, 0, 0, 0, 0, 0, 0, DIRECTORY, 2, 0, 0, 0, 4096, 0)
                self.answer(unique, struct.pack("=QII", 1, 0, 0) + attributes)
            elif opcode == LOOKUP:
                self.asked.set()
            elif opcode not in NO_ANSWER:
                self.answer(unique, error=errno.ENOSYS)


@pytest.fixture
def unanswering(box):
    place = box.base / "unanswering"
    place.mkdir()
    served = Unanswering(place)
    yield served
    box.mark.kill()
    served.close()


def change(unanswering):
    return ["/usr/bin/python3", "-c", CHANGE.format(str(unanswering.place / "name"))]


def start(box, form, unanswering, words, options=()):
    if form == "run":
        argv = box.run_words(words, options)
    else:
        argv = box.wrap(*words, options=options)["argv"]
    return box.spawn(argv, privileged=unanswering.mount)


def test_the_time_limit_holds(box, unanswering):
    script = '(trap "" TERM; setsid "$@" &); trap "" TERM; sleep 300 & while :; do sleep 1; done'
    process = start(box, "run", unanswering, ["sh", "-c", script, "sh", *change(unanswering)], ("--timeout", "1"))
    wait_until(unanswering.asked.is_set)
    _, err = process.communicate(timeout=HANG)
    assert process.returncode == 124, err
    box.mark.wait_gone(2)


def test_the_command_ends_all_the_same(box, form, unanswering):
    script = '"$@" & while [ ! -e go ]; do sleep 0.01; done; exit 3'
    process = start(box, form, unanswering, ["sh", "-c", script, "sh", *change(unanswering)])
    wait_until(unanswering.asked.is_set)
    (box.ws / "go").touch()
    _, err = process.communicate(timeout=HANG)
    assert process.returncode == 3, err
    box.mark.wait_gone(2)


def test_signals_still_reach_the_command(box, form, unanswering):
    if form == "wrap" and box.runner == "bwrap":
        pytest.skip("bwrap itself does not pass signals on")
    script = 'trap "echo heard; exit 4" USR1; "$@" & while :; do sleep 0.01; done'
    process = start(box, form, unanswering, ["sh", "-c", script, "sh", *change(unanswering)])
    wait_until(unanswering.asked.is_set)
    process.send_signal(signal.SIGUSR1)
    out, err = process.communicate(timeout=HANG)
    assert (process.returncode, out) == (4, b"heard\n"), err
    box.mark.wait_gone(2)


@pytest.mark.parametrize("background", [False, True], ids=["itself", "a-daemon-of-it"])
def test_confine_or_the_launcher_is_killed(box, form, unanswering, background):
    script = '"$@" & wait' if not background else '(setsid "$@" &); sleep 300'
    process = start(box, form, unanswering, ["sh", "-c", script, "sh", *change(unanswering)])
    wait_until(unanswering.asked.is_set)
    process.kill()
    process.wait(timeout=HANG)
    wait_until(lambda: not box.mark.processes("python3") and not box.mark.processes("sh"), 2, "the command's end")
    box.mark.wait_gone(5)


def test_where_no_thread_can_be_had_calls_are_made_all_the_same(box, form):
    (box.ws / "file").touch()
    (box.ws / "file").chmod(0o644)
    box.who.own(box.ws / "file")
    script = f"chmod 600 file; chmod 601 file; chmod 777 '{box.victim}'"
    outcome = box.confine("sh", "-c", script, form=form, last=failing("clone", errno.EAGAIN, (0, ANY_BIT, CLONE_THREAD)))
    assert outcome.rc == 1 and b"victim" in outcome.err, outcome
    assert (box.ws / "file").stat().st_mode & 0o7777 == 0o601
    box.assert_untouched()
