"""What the black-box tests share: the people and places of a test, starting confine, watching processes."""
import ctypes
import dataclasses
import functools
import hashlib
import json
import mmap
import os
import platform
import pwd
import select
import shutil
import signal
import socket
import stat
import struct
import subprocess
import tempfile
import time
import uuid
from pathlib import Path

import pytest

RUNNERS = ("namespace", "bwrap", "landlock")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
UNAVAILABLE = (
    'sandbox mode "{}" is requested but no sandbox backend is usable on this host; refusing to run the '
    "command unconfined. Install bubblewrap or run a Landlock-enforcing kernel (Linux), ensure "
    "sandbox-exec is usable (macOS), or ensure the ACL restricted-token runner can start (Windows) "
    "\N{EM DASH} otherwise switch the consumer to danger-full-access.")
# Every call ends long before this unless it hangs.
HANG = 60

libc = ctypes.CDLL(None, use_errno=True)


@functools.cache
def has_entry_32():
    """Whether this kernel runs 32-bit system calls. Where it does not, such a call ends the process."""
    if platform.machine() != "x86_64":
        return False
    child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGSEGV, signal.SIG_DFL)
            code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
            code.write(bytes.fromhex("b840000000cd80c3"))  # mov $64 (getppid), %eax; int $0x80; ret
            address = ctypes.addressof(ctypes.c_char.from_buffer(code))
            os._exit(ctypes.CFUNCTYPE(ctypes.c_int)(address)() <= 0)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def lacking(reason):
    """Ends a test that this host cannot carry out; where enforcement is demanded, that is a failure."""
    if os.environ.get("CONFINE_MUST_SANDBOX") == "1":
        pytest.fail(f"CONFINE_MUST_SANDBOX is set, but {reason}")
    pytest.skip(reason)


def program(name):
    """The absolute path of a program the test needs; the test is skipped where there is none."""
    found = shutil.which(name, path=PATH)
    if not found:
        pytest.skip(f"there is no {name} here")
    return found


@dataclasses.dataclass(frozen=True)
class Who:
    """Somebody who starts confine."""
    name: str
    uid: int
    gid: int

    def become(self):
        """In a child: gives up being root."""
        if os.getuid() == self.uid:
            return
        os.setgroups([self.gid])
        os.setgid(self.gid)
        os.setuid(self.uid)

    def own(self, *paths):
        for path in paths:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


@dataclasses.dataclass(frozen=True)
class Programs:
    """An installation under test."""
    prefix: Path

    @property
    def confine(self):
        return str(self.prefix / "bin" / "confine")

    def launcher(self, name):
        return str(self.prefix / "libexec" / "confine" / name)


@dataclasses.dataclass
class Outcome:
    rc: int
    out: bytes
    err: bytes
    record: dict
    seconds: float

    @property
    def text(self):
        return self.err.decode(errors="replace")


class Mark:
    """Finds every process that descends from a start, by a variable in its environment."""

    def __init__(self):
        self.value = uuid.uuid4().hex
        self.variable = {"CONFINE_TEST_MARK": self.value}

    def processes(self, name=None):
        """Process ids, zombies and threads excluded; with name only those whose command is called so."""
        found = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                if self.value.encode() not in Path("/proc", entry, "environ").read_bytes():
                    continue
                if name and Path("/proc", entry, "comm").read_text().strip() != name:
                    continue
            except OSError:
                continue
            found.append(int(entry))
        return found

    def wait_for(self, name, seconds=10):
        """The first process called name, once it runs."""
        return wait_until(lambda: self.processes(name), seconds, f"a process {name}")[0]

    def wait_gone(self, seconds=2):
        deadline = time.monotonic() + seconds
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.02)
        if left:
            lines = [f"{pid}: {read_or_empty(f'/proc/{pid}/cmdline')!r}" for pid in left]
            self.kill()
            pytest.fail(f"still running after {seconds} s:\n" + "\n".join(lines))

    def kill(self):
        for _ in range(200):
            left = self.processes()
            if not left:
                return
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.01)


def read_or_empty(path):
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def state_of(pid):
    """The letter of proc(5), or empty when the process is gone."""
    text = read_or_empty(f"/proc/{pid}/stat")
    return text.rpartition(b") ")[2][:1].decode()


def children_of(pid):
    return [int(word) for word in read_or_empty(f"/proc/{pid}/task/{pid}/children").split()]


def wait_until(condition, seconds=10, what="the condition"):
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            pytest.fail(f"waited {seconds} s in vain for {what}")
        time.sleep(0.01)


class Box:
    """One test's places: a workspace, a folder outside with a victim in it, a place for records.

    All of them belong to who, so that nothing but confinement protects them.
    """

    def __init__(self, base, programs, who, runner):
        self.base, self.programs, self.who, self.runner = base, programs, who, runner
        self.ws, self.outside, self.reports, self.home = (base / n for n in ("ws", "outside", "reports", "home"))
        self.victim = self.outside / "victim"
        for folder in (base, self.ws, self.outside, self.reports, self.home):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)
        self.victim.write_text("original\n")
        who.own(base, self.ws, self.outside, self.reports, self.home, self.victim)
        self.mark = Mark()
        self.started = []
        self.before = self._look()
        self._count = 0

    def _look(self):
        seen = {}
        for path in [self.outside, *self.outside.rglob("*")]:
            st = path.lstat()
            content = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(st.st_mode) else ""
            seen[str(path)] = (st.st_mode, st.st_uid, st.st_gid, st.st_ino, st.st_nlink,
                               0 if path == self.outside else st.st_mtime_ns, content)
        return seen

    def assert_untouched(self):
        assert self._look() == self.before

    def environment(self, more=None):
        return {"PATH": PATH, "HOME": str(self.home), "LANG": "C.UTF-8", **self.mark.variable, **(more or {})}

    def run_words(self, words, options=(), runner=None, report=None):
        start = [self.programs.confine, "run", "--runner", runner or self.runner or "auto"]
        if report:
            start += ["--report", str(report)]
        return [*start, *options, "--", *words]

    def wrap(self, *words, options=(), cwd=None, environment=None):
        """What `confine wrap` prints, for a caller to spawn."""
        done = self.spawn([self.programs.confine, "wrap", "--runner", self.runner, *options, "--", *words], cwd=cwd,
                          environment=environment)
        out, err = done.communicate(timeout=HANG)
        assert done.returncode == 0, err
        return json.loads(out)

    def spawn(self, words, cwd=None, environment=None, privileged=None, last=None, pass_fds=(),
              close_fds=True, **streams):
        """Starts words as who; privileged() runs in the child before it gives up root, last() after."""
        if privileged and os.getuid() != 0:
            pytest.skip("only root can prepare this")

        def prepare():
            if privileged:
                privileged()
            self.who.become()
            if last:
                last()

        streams.setdefault("stdin", subprocess.DEVNULL)
        streams.setdefault("stdout", subprocess.PIPE)
        streams.setdefault("stderr", subprocess.PIPE)
        process = subprocess.Popen(words, cwd=cwd or self.ws, env=self.environment(environment), preexec_fn=prepare,
                                   pass_fds=pass_fds, close_fds=close_fds, **streams)
        self.started.append(process)
        return process

    def report_path(self):
        self._count += 1
        return self.reports / f"record.{self._count}"

    def confine(self, *words, options=(), form="run", runner=None, stdin=b"", timeout=HANG, **how):
        """Runs words confined to their end, by `confine run` or by what `confine wrap` says to spawn."""
        report = self.report_path()
        if form == "run":
            start = self.run_words(words, options, runner, report)
        else:
            start = self.wrap(*words, options=options, cwd=how.get("cwd"), environment=how.get("environment"))["argv"]
        since = time.monotonic()
        process = self.spawn(start, stdin=subprocess.PIPE, **how)
        try:
            out, err = process.communicate(stdin, timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            pytest.fail(f"hangs: {start!r}")
        seconds = time.monotonic() - since
        record = json.loads(report.read_text()) if report.exists() else None
        return Outcome(process.returncode, out or b"", err or b"", record, seconds)

    def refuse(self, *words, **how):
        """As confine, for a call that must be refused: nothing ran, and the outcome is exit status 125."""
        flag = self.ws / "ran"
        outcome = self.confine(*(words or ("touch", str(flag))), **how)
        assert outcome.rc == 125, outcome
        assert outcome.text.startswith("confine: "), outcome
        assert not flag.exists()
        return outcome

    def close(self):
        self.mark.kill()
        for process in self.started:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    stream.close()


def find_prefix(scratch):
    """An installation that every user can reach."""
    given = os.environ.get("CONFINE_PREFIX")
    if given:
        return Path(given)
    prefix = scratch / "prefix"
    top = Path(__file__).resolve().parents[1]
    subprocess.run([top / "dev", "install", prefix], check=True, stdin=subprocess.DEVNULL)
    return prefix


def make_scratch():
    scratch = Path(tempfile.mkdtemp(prefix="confine-integration.", dir="/var/tmp"))
    scratch.chmod(0o755)
    return scratch


def make_user():
    """A throwaway user, or whoever runs the tests if that is not root."""
    if os.getuid() != 0:
        return Who(pwd.getpwuid(os.getuid()).pw_name, os.getuid(), os.getgid()), None
    name = f"confine-test-{os.urandom(4).hex()}"
    done = _account("useradd", "--no-create-home", "--home-dir", "/nonexistent", "--shell", "/bin/sh", name)
    assert done.returncode == 0, done.stderr
    entry = pwd.getpwnam(name)
    return Who(name, entry.pw_uid, entry.pw_gid), name


def remove_user(name):
    _account("userdel", "--force", name)


def _account(command, *words):
    """Another run of the tests may hold the lock of the password file."""
    for _ in range(100):
        done = subprocess.run([program(command), *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        if b"lock" not in done.stderr:
            break
        time.sleep(0.1)
    return done


# seccomp(2), classic BPF: small filters that make one system call fail.

_ARCHES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_CALLS = {  # x86_64, aarch64
    "capset": (126, 91), "clone": (56, 220), "close_range": (436, 436), "fchdir": (81, 50),
    "landlock_add_rule": (445, 445), "landlock_create_ruleset": (444, 444), "landlock_restrict_self": (446, 446),
    "mount": (165, 40), "mount_setattr": (442, 442), "move_mount": (429, 429), "open_tree": (428, 428),
    "prctl": (157, 167), "seccomp": (317, 277), "socketpair": (53, 199), "unshare": (272, 97),
}
EQUAL, GREATER, ANY_BIT = 0x15, 0x25, 0x45
CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000


def failing(call, error, *conditions):
    """A function for a child: from then on call fails with error, if each (argument, operator, value) holds.

    Only the low halves of arguments are looked at.
    """
    if platform.machine() not in _ARCHES:
        pytest.skip(f"the test's filters are not written for {platform.machine()}")
    audit, column = _ARCHES[platform.machine()]
    tests = [(4, EQUAL, audit), (0, EQUAL, _CALLS[call][column])]
    tests += [(16 + 8 * argument, operator, value & 0xFFFFFFFF) for argument, operator, value in conditions]
    code = []
    for i, (offset, operator, value) in enumerate(tests):
        code.append((0x20, 0, 0, offset))
        code.append((operator, 0, 2 * (len(tests) - i - 1) + 1, value))
    code += [(0x06, 0, 0, 0x00050000 | error), (0x06, 0, 0, 0x7FFF0000)]
    instructions = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in code))

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]

    described = Program(len(code), ctypes.addressof(instructions))

    def install(_keep=instructions):
        if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, ctypes.byref(described), 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "seccomp")

    return install


def together(*functions):
    def each():
        for function in functions:
            function()
    return each


# mount(2), for a child that is still root.

MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18


def mount(source, target, kind, flags, data=None):
    encoded = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    if libc.mount(*encoded, ctypes.c_ulong(flags), data) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(target))


def private_mounts():
    if libc.unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    mount("none", "/", None, MS_REC | MS_PRIVATE)


def hiding(*paths):
    """A function for a child that is root: in it the files are not what they were."""
    def hide():
        private_mounts()
        for path in paths:
            if os.path.exists(path):
                mount("/dev/null", path, None, MS_BIND)
    return hide


# The launchers' status channel (--status-fd), as namespace-run(1) describes it.

STARTED, SETUP_FAILED, STOPPED, ENDED, SIGNAL = 1, 2, 3, 4, 5
MESSAGE = struct.Struct("=Iiii")  # type, value, detail, index


class Channel:
    """A status channel handed to a launcher that the test spawns."""

    def __init__(self):
        self.ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def words(self, argv):
        """A wrapped argv that reports here: only the launcher that becomes the command has --monitor."""
        at = argv.index("--monitor")
        return [*argv[:at + 1], "--status-fd", str(self.theirs.fileno()), *argv[at + 1:]]

    def send(self, kind, value, detail):
        self.ours.send(MESSAGE.pack(kind, value, detail, -1))

    def message(self, seconds=HANG):
        """The next one, or None if there is none in time."""
        ready = select.select([self.ours], [], [], seconds)[0]
        return MESSAGE.unpack(self.ours.recv(64)) if ready else None

    def messages(self, seconds=HANG):
        """Every message until the other side closes, as (type, value, detail, index)."""
        self.theirs.close()
        got, deadline = [], time.monotonic() + seconds
        while select.select([self.ours], [], [], max(0, deadline - time.monotonic()))[0]:
            try:
                data = self.ours.recv(64)
            except ConnectionResetError:
                break
            if not data:
                break
            got.append(MESSAGE.unpack(data))
        self.ours.close()
        return got
