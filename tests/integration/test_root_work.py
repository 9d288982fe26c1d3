"""Root in a workspace of somebody else's: ordinary work goes on, what would break the box does not."""
import os
import shutil
import stat
import subprocess

import pytest

from blackbox import Box, lacking, program

OWNER = 1000


@pytest.fixture(params=["namespace", "bwrap", "landlock"])
def root_box(request, scratch, programs, root, usable_runners):
    """A workspace of uid 1000, used by root."""
    reason = usable_runners(root).get(request.param, "doctor does not know it")
    if reason:
        lacking(f"the runner {request.param} is not usable: {reason}")
    box = Box(scratch / f"root-work.{request.param}.{os.urandom(3).hex()}", programs, root, request.param)
    os.chown(box.ws, OWNER, OWNER)
    yield box
    box.close()
    shutil.rmtree(box.base, ignore_errors=True)


def sh(box, script, **how):
    outcome = box.confine("sh", "-ec", script, **how)
    assert outcome.rc == 0, outcome
    return outcome


def test_files_of_another_owner(root_box):
    (root_box.ws / "theirs").write_text("old\n")
    os.chown(root_box.ws / "theirs", OWNER, OWNER)
    (root_box.ws / "theirs").chmod(0o600)
    sh(root_box, "echo new >>theirs; echo x >mine; mkdir d; chown 1000:1000 mine; chmod 4755 mine; chown 1234 d; "
                 "chmod 0 d; touch d/in; touch -d @5 theirs; rm theirs; ln mine hard; mv mine d/")
    st = (root_box.ws / "d" / "mine").stat()
    assert (st.st_uid, stat.S_IMODE(st.st_mode)) == (1000, 0o4755)
    assert (root_box.ws / "d").stat().st_uid == 1234


def test_tar_keeps_owners_and_modes(root_box):
    sh(root_box, "mkdir a; echo x >a/f; chown 1000:1001 a/f; chmod 2750 a; chmod 4711 a/f; tar -cpf t.tar a; rm -r a; "
                 "tar -xpf t.tar; cp -a a b")
    for name in ("a", "b"):
        st = (root_box.ws / name / "f").stat()
        assert (st.st_uid, st.st_gid, stat.S_IMODE(st.st_mode)) == (1000, 1001, 0o4711)
        assert stat.S_IMODE((root_box.ws / name).stat().st_mode) == 0o2750


def test_git(root_box):
    program("git")
    sh(root_box, "git init -q .; git config user.email a@b; git config user.name n; echo x >f; git add f; "
                 "git commit -qm one; git worktree add -q ../ws/tree; git gc -q; git log --oneline | grep one",
       environment={"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"})


def test_npm(root_box):
    program("npm")
    package = root_box.ws / "package"
    package.mkdir()
    (package / "package.json").write_text('{"name":"local","version":"1.0.0","bin":"x.js"}')
    (package / "x.js").write_text("#!/usr/bin/env node\nconsole.log('ran')\n")
    sh(root_box, "npm install --offline --no-audit --no-fund ./package; ./node_modules/.bin/local | grep ran",
       environment={"npm_config_cache": str(root_box.ws / ".npm"), "npm_config_update_notifier": "false"})


def test_changing_identity(root_box):
    """Services that start as root and go down to a user."""
    program("setpriv")
    outcome = sh(root_box, "setpriv --reuid 1000 --regid 1000 --clear-groups sh -c 'id -u; echo x >by-owner'")
    assert outcome.out == b"1000\n" and (root_box.ws / "by-owner").stat().st_uid == OWNER


# What must not work. Each has an unconfined control that does, on this host, or says why not.

VICTIM = """
import ctypes, sys
value = ctypes.create_string_buffer(b"original", 16)
print(ctypes.addressof(value), flush=True)
for line in sys.stdin:
    print(value.value.decode(), flush=True)
"""


@pytest.fixture
def victim_process():
    """A process outside that tells its memory when asked."""
    process = subprocess.Popen(["/usr/bin/python3", "-I", "-c", VICTIM], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    process.address = int(process.stdout.readline())

    def value():
        process.stdin.write("\n")
        process.stdin.flush()
        return process.stdout.readline().strip()

    process.value = value
    yield process
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


PTRACE = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long] * 2 + [ctypes.c_void_p] * 2
pid, address = int(sys.argv[1]), int(sys.argv[2])
if libc.ptrace(16, pid, None, None) == 0:  # PTRACE_ATTACH
    os.waitpid(pid, 0)
    libc.ptrace(4, pid, address, int.from_bytes(b"changed\\0", "little"))  # PTRACE_POKETEXT
    libc.ptrace(17, pid, None, None)  # PTRACE_DETACH
"""
MEMORY = """
import sys
pid, address = int(sys.argv[1]), int(sys.argv[2])
with open(f"/proc/{pid}/mem", "r+b", buffering=0) as stream:
    stream.seek(address)
    stream.write(b"changed\\0")
"""
WRITEV = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
data = ctypes.create_string_buffer(b"changed")
local, remote = Vector(ctypes.addressof(data), 8), Vector(int(sys.argv[2]), 8)
libc.process_vm_writev(int(sys.argv[1]), ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
"""


@pytest.mark.parametrize("attack", [PTRACE, MEMORY, WRITEV], ids=["ptrace", "mem", "process_vm_writev"])
def test_the_memory_of_an_outside_process(root_box, victim_process, attack):
    words = ["/usr/bin/python3", "-I", "-c", attack, str(victim_process.pid), str(victim_process.address)]
    root_box.confine(*words)
    assert victim_process.value() == "original"
    root_box.spawn(words).communicate(timeout=20)
    assert victim_process.value() == "changed"


def attack_file(root_box, script):
    """Runs script confined, where it must leave the victim alone, and then unconfined, where it must not."""
    root_box.confine("sh", "-c", script)
    root_box.assert_untouched()
    root_box.spawn(["sh", "-c", script]).communicate(timeout=20)
    assert root_box.victim.read_text() != "original\n"


def test_the_root_of_an_outside_process(root_box, victim_process):
    attack_file(root_box, f"echo changed >/proc/{victim_process.pid}/root{root_box.victim}; "
                          f"cd /proc/{victim_process.pid}/cwd && echo changed >{root_box.victim}")


def test_remounting(root_box):
    """mount(8) is silent outside as well: there the tree is writable anyway."""
    program("mount")
    attack_file(root_box, f"mount -o remount,rw / ; mount -o remount,bind,rw / ; mount --bind / /mnt; umount -l /tmp; "
                          f"unshare -m sh -c 'mount -o remount,rw /'; echo changed >{root_box.victim}; umount /mnt")


def test_device_nodes(root_box):
    """A node of the kernel's log: root inside cannot make or use one."""
    word = f"confine-test-{root_box.mark.value}"
    script = (f"mknod {root_box.ws}/log c 1 11; echo {word} >{root_box.ws}/log; "
              f"mknod /tmp/log.$$ c 1 11; echo {word} >/tmp/log.$$; rm -f /tmp/log.$$")
    root_box.confine("sh", "-c", script)
    assert not in_kernel_log(word)
    log = root_box.ws / "log"
    assert not log.exists() or stat.S_ISREG(log.stat().st_mode)
    if log.exists():
        log.unlink()
    root_box.spawn(["sh", "-c", script]).communicate(timeout=20)
    if not in_kernel_log(word):
        pytest.skip("device nodes of the kernel's log do not work here unconfined either")


def in_kernel_log(word):
    with open("/dev/kmsg", "rb", buffering=0) as stream:
        os.set_blocking(stream.fileno(), False)
        while True:
            try:
                line = stream.read(8192)
            except BrokenPipeError:
                continue
            if not line:
                return False
            if word.encode() in line:
                return True


def test_the_kernels_log(root_box):
    word = f"confine-test-{root_box.mark.value}"
    root_box.confine("sh", "-c", f"echo {word} >/dev/kmsg")
    assert not in_kernel_log(word)
    root_box.spawn(["sh", "-c", f"echo {word} >/dev/kmsg"]).communicate(timeout=20)
    assert in_kernel_log(word)


def test_loop_devices(root_box):
    program("losetup")
    image = root_box.outside / "image"
    image.write_bytes(bytes(1 << 20))
    root_box.before = root_box._look()
    script = (f"dev=$(losetup -f --show {image}) && printf changed | dd of=$dev conv=notrunc status=none; sync; "
              f"losetup -d $dev")
    root_box.confine("sh", "-c", script)
    root_box.assert_untouched()
    assert subprocess.run(["losetup", "-j", image], stdout=subprocess.PIPE, check=True).stdout == b""
    root_box.spawn(["sh", "-c", script]).communicate(timeout=20)
    if not image.read_bytes().startswith(b"changed"):
        pytest.skip("loop devices do not work here unconfined either")


def test_kernel_settings(root_box):
    setting = "/proc/sys/fs/lease-break-time"
    with open(setting, encoding="ascii") as stream:
        before = stream.read().strip()
    script = f"echo 44 >{setting}; sysctl -qw fs.lease-break-time=44"
    try:
        root_box.confine("sh", "-c", script)
        with open(setting, encoding="ascii") as stream:
            assert stream.read().strip() == before
        root_box.spawn(["sh", "-c", script]).communicate(timeout=20)
        with open(setting, encoding="ascii") as stream:
            assert stream.read().strip() == "44"
    finally:
        with open(setting, "w", encoding="ascii") as stream:
            stream.write(before)


BY_HANDLE = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("data", ctypes.c_ubyte * 128)]
handle, mount = Handle(128), ctypes.c_int()
libc.name_to_handle_at(-100, sys.argv[1].encode(), ctypes.byref(handle), ctypes.byref(mount), 0)
where = os.open(sys.argv[2], os.O_RDONLY)
fd = libc.open_by_handle_at(where, ctypes.byref(handle), os.O_WRONLY)
if fd >= 0:
    os.write(fd, b"changed!\\n")
"""


def test_opening_by_handle(root_box):
    words = ["/usr/bin/python3", "-I", "-c", BY_HANDLE, str(root_box.victim), str(root_box.ws)]
    root_box.confine(*words)
    root_box.assert_untouched()
    root_box.spawn(words).communicate(timeout=20)
    assert root_box.victim.read_text() == "changed!\n"


def test_capabilities_are_the_working_set(root_box):
    """CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, NET_BIND_SERVICE, and no way back to more."""
    outcome = root_box.confine("sh", "-c", "grep ^Cap[EP] /proc/self/status")
    working_set = sum(1 << number for number in (0, 1, 3, 4, 5, 6, 7, 10))
    for line in outcome.out.decode().splitlines():
        assert int(line.split()[1], 16) & ~working_set == 0, line


def test_an_ordinary_user_has_none(user_box, usable_runners):
    for runner in ("namespace", "bwrap", "landlock"):
        if usable_runners(user_box.who).get(runner, "unknown"):
            continue
        outcome = user_box.confine("sh", "-c", "grep ^Cap[EPIA] /proc/self/status", runner=runner)
        assert all(int(line.split()[1], 16) == 0 for line in outcome.out.decode().splitlines()), runner


def test_nothing_of_the_host_has_changed(root_box):
    """The mount table and the modes of what the private places cover are as before."""
    def look():
        with open("/proc/self/mountinfo", encoding="utf-8") as stream:
            mounts = stream.read()
        places = ["/", "/tmp", "/dev", "/dev/shm", "/dev/null", "/dev/tty", "/proc", str(root_box.ws)]
        return mounts, [(os.stat(place).st_mode, os.stat(place).st_uid) for place in places]

    before = look()
    for mode in ("read-only", "workspace-write"):
        # Setting what is there already, lest it is the host's: a change of one's own /dev is seen by its own error.
        root_box.confine("sh", "-c", "chmod a+r /dev /dev/null; chown 0 /dev/tty; mount -t tmpfs none /mnt; true",
                         options=("--mode", mode))
    assert look() == before
