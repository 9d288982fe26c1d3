"""What processes do with each other, with their streams and their limits is inside as it is outside."""
import hashlib
import os
import subprocess

import pytest

PYTHON = "/usr/bin/python3"


def test_limits(bench):
    """All of them as outside; each can be lowered, and is felt."""
    bench.same("bash", "-c", """
        ulimit -a; ulimit -Ha; (ulimit -f 1; head -c 100000 /dev/zero >big; echo $?); stat -c %s big
        (ulimit -n 8; exec 3<. 4<. 5<. 6<. 7<. 8<.; echo $?);
        (ulimit -v 20000; python3 -c 'b = bytearray(10**9)' 2>&1 | tail -1); ulimit -S -c 0; ulimit -c
        nice -n 5 sh -c 'ps -o ni= -p $$'; chrt -p $$ | head -1 | sed 's/.*:/:/'; ionice; taskset -p $$ | sed 's/.*: //'; umask""",
               needs=("bash", "python3", "chrt", "taskset"))


def test_detached(bench):
    """nohup, setsid and a daemon work as long as the command does."""
    text = bench.same("sh", "-c", """
        nohup sh -c 'trap "" TERM; echo started; sleep 0.2; echo ended' >hup 2>/dev/null & wait; cat hup
        setsid -w sh -c 'test $(ps -o sid= -p $$) = $$ && echo leader; exit 4'; echo $?
        python3 -c '
import os, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.chdir("/"); time.sleep(0.1)
open(os.path.expanduser("~/pid"), "w").write("x")'
        while ! test -s pid; do sleep 0.01; done; echo daemon worked
        start-stop-daemon -S -b -m -p "$PWD/p" -x /bin/sleep -- 50; while ! test -s p; do sleep 0.01; done
        start-stop-daemon -K -p "$PWD/p" >/dev/null; echo "stopped $?"; rm p
        timeout 0.1 sleep 9; echo $?; timeout -s KILL 0.1 sleep 9; echo $?; env -i /bin/echo bare; pwd -P | wc -l""",
                      needs=("setsid", "start-stop-daemon", "timeout"))
    assert "leader" in text and "daemon worked" in text


def test_locks_and_watches(bench):
    bench.give("watch.py", """
import ctypes, os, select, struct, sys
libc = ctypes.CDLL(None)
fd = libc.inotify_init1(0)
libc.inotify_add_watch(fd, b"seen", 0xfff)
with open("seen/f", "w") as f: f.write("x")
os.chmod("seen/f", 0o600); os.utime("seen/f", (1, 2)); os.rename("seen/f", "seen/g"); os.unlink("seen/g")
data = os.read(fd, 65536)
while data:
    _, mask, _, length = struct.unpack_from("iIII", data)
    print(hex(mask).replace("0x", "mask "), data[16:16 + length].rstrip(b"\\0").decode()); data = data[16 + length:]
import fcntl
f = open("lock", "w"); fcntl.lockf(f, fcntl.LOCK_EX)
if os.fork() == 0:
    try: fcntl.lockf(open("lock", "w"), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as e: print(e.strerror, flush=True)
    os._exit(0)
os.wait()
""")
    text = bench.same("sh", "-c", """
        mkdir seen; python3 watch.py; exec 9>l; flock 9; flock -n l echo no; echo $?; flock -u 9; flock -n l echo yes
        for i in 1 2 3 4 5 6; do (flock 9; n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) >n) 9>l & done; wait; cat n""",
                      needs=("python3", "flock"))
    assert "yes" in text and text.rstrip().endswith("6") and "Resource temporarily unavailable" in text


def test_talking_to_each_other(bench):
    """Unix sockets by name and abstract, descriptors passed through them, TCP, UDP, FIFOs, signals, semaphores, shared memory."""
    bench.give("talk.py", """
import array, ctypes, mmap, os, signal, socket, threading
def pair(family, address, kind=socket.SOCK_STREAM):
    s = socket.socket(family, kind); s.bind(address); s.listen()
    def client():
        c = socket.socket(family, kind); c.connect(s.getsockname()); c.sendall(b"hello"); c.close()
    if os.fork() == 0: client(); os._exit(0)
    c, _ = s.accept(); print(family.name, c.recv(9)); os.wait(); c.close(); s.close()
pair(socket.AF_UNIX, "s"); pair(socket.AF_UNIX, "\\0confine-test-%d" % os.getpid()); pair(socket.AF_INET, ("127.0.0.1", 0))
pair(socket.AF_UNIX, "q", socket.SOCK_SEQPACKET)
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(("127.0.0.1", 0)); u.sendto(b"u", u.getsockname()); print(u.recv(9))
a, b = socket.socketpair()
if os.fork() == 0:
    f = os.open("made", os.O_CREAT | os.O_RDWR, 0o640); socket.send_fds(a, [b"x"], [f]); os._exit(0)
_, fds, _, _ = socket.recv_fds(b, 9, 9); os.write(fds[0], b"by descriptor"); os.fchmod(fds[0], 0o604); os.wait()
os.mkfifo("fifo")
if os.fork() == 0: open("fifo", "w").write("through"); os._exit(0)
print(open("fifo").read()); os.wait()
pid = os.fork()
if pid == 0: signal.pause()
os.kill(pid, signal.SIGUSR1); print(os.WTERMSIG(os.waitpid(pid, 0)[1]))
d = os.pidfd_open(os.getpid()); signal.pidfd_send_signal(d, 0)
libc = ctypes.CDLL(None, use_errno=True)
libc.sem_open.restype = ctypes.c_void_p
name = b"/confine-test-%d" % os.getpid()
sem = libc.sem_open(name, os.O_CREAT, 0o600, 1); print(bool(sem))
if sem:
    libc.sem_wait.argtypes = libc.sem_post.argtypes = [ctypes.c_void_p]
    print(libc.sem_wait(sem), libc.sem_post(sem), libc.sem_unlink(name))
fd = libc.shm_open(name, os.O_CREAT | os.O_RDWR, 0o600); os.ftruncate(fd, 4096); m = mmap.mmap(fd, 4096); m[:2] = b"ok"; print(m[:2], libc.shm_unlink(name))
key = libc.shmget(0, 4096, 0o1600); print(key >= 0, libc.shmctl(key, 0, None)); q = libc.msgget(0, 0o1600); print(q >= 0, libc.msgctl(q, 0, None))
e = os.eventfd(1); print(os.eventfd_read(e)); print(len(os.sched_getaffinity(0)) == os.cpu_count(), os.getpriority(os.PRIO_PROCESS, 0))
t = [threading.Thread(target=os.getpid) for _ in range(50)]; [x.start() for x in t]; [x.join() for x in t]
""")
    text = bench.same("python3", "-W", "ignore", "talk.py", needs=("python3",))
    assert text.count("AF_UNIX") == 3 and "AF_INET b'hello'" in text


def test_streams(bench):
    """/dev/stdin and its like, here-documents, closed readers, empty and closed inputs, output of both kinds in order."""
    text = bench.same("bash", "-c", """
        read -r line; echo "first $line"; cat /dev/stdin | tail -1; echo to >/dev/stdout; echo err >/dev/stderr
        echo fd >/proc/self/fd/1; cat </dev/fd/0 | wc -c; seq 100000 | head -1; (seq 100000; echo "$?" >&2) 2>status | head -1 >/dev/null
        cat status; yes | head -c 100000 | wc -c; trap '' PIPE; seq 100000 2>&1 >&3 3>&- | head -c 0; cat <&-; echo x >&- || echo $?
        [ -p /dev/stdin ] && echo pipe; : </dev/null; dd if=/dev/zero bs=1M count=3 status=none | sha256sum | cut -c1-9
        tee a b <<<tee | tr a-z A-Z; cat a b; diff <(seq 3) <(seq 4); head -c 10 /dev/urandom | wc -c; echo >/dev/full || echo full $?""",
                      needs=("bash",), feed=b"one\ntwo\nthree\nlast\n")
    assert "first one" in text and "full 1" in text


@pytest.mark.parametrize("size", [64, pytest.param(1024, marks=pytest.mark.long)])
def test_much_output(bench, size):
    """Every byte of it, through a pipe."""
    digests = []
    for side in ("outside", "inside"):
        words = bench.words(side, ["sh", "-c", f"yes 0123456789abcde | head -c {size}M; exit 6"])
        process = subprocess.Popen(words, cwd=bench.places[side], env=bench.environment(bench.places[side]),
                                   preexec_fn=bench.who.become, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        digest, length = hashlib.sha256(), 0
        while block := process.stdout.read(1 << 20):
            digest.update(block)
            length += len(block)
        process.stdout.close()
        digests.append((process.wait(timeout=60), length, digest.hexdigest()))
    assert digests[0] == digests[1] and digests[1][:2] == (6, size << 20)


def test_a_reader_that_goes(bench):
    """The command gets SIGPIPE as it would, and so does whoever started it see 141 or its shell's word for it."""
    ends = []
    for side in ("outside", "inside"):
        reading, writing = os.pipe()
        process = subprocess.Popen(bench.words(side, ["bash", "-c", "trap 'echo $? >ended' EXIT; yes"]),
                                   cwd=bench.places[side], env=bench.environment(bench.places[side]), stdout=writing,
                                   preexec_fn=bench.who.become, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(writing)
        os.read(reading, 10)
        os.close(reading)
        ends.append((process.wait(timeout=20), (bench.places[side] / "ended").read_text()))
    assert ends[0] == ends[1]


def test_many_and_large_arguments(bench):
    """As near to the kernel's limit as the words that confine puts before them leave."""
    room = os.sysconf("SC_ARG_MAX") - (1 << 16)
    bench.same(PYTHON, "-c", "import sys, hashlib; print(len(sys.argv), hashlib.md5(repr(sys.argv[1:]).encode()).hexdigest()[:3])",
               *["x" * 100000] * (room // 100010))
    bench.same("sh", "-c", 'echo $#; printf %s "$1" | od -c | head -2', "sh", *["é\n\\'\""] * (room // 40))


def test_a_large_environment(bench):
    bench.more = {f"VARIABLE_{i}": "v" * 100000 for i in range(15)} | {"EMPTY": "", "ODD NAME": "=", "LINES_OF": "a\nb"}
    text = bench.same(PYTHON, "-c", "import os; print(sum(map(len, os.environ.values())) - len(os.environ['HOME'])*1 > 10**6, len(os.environ), "
                                    "repr(os.environ['LINES_OF']), os.environ['ODD NAME'])")
    assert text.startswith("True")


def test_languages_and_times(bench):
    """Locale, time zone, clock, host name, user's name, what /proc and /sys say."""
    for language in ("C", "C.UTF-8", "de_DE.UTF-8", "xx_XX"):
        bench.more = {"LANG": language, "LC_ALL": language, "TZ": "Asia/Kathmandu"}
        bench.same("sh", "-c", """
            locale 2>&1; echo 'äb' | wc -m; ls /none 2>&1; printf 'b\\na\\nB\\nä\\n' | sort; date -d @0 +%c; TZ=UTC0 date -d @0
            TZ=:America/New_York date -d '2020-07-01' +%Z; date +%Z""")
    bench.more = {}
    bench.same("sh", "-c", "hostname; uname -a; nproc; id; whoami; umask; cat /proc/loadavg | wc -w; getconf ARG_MAX PATH_MAX; "
                           "ls -d /proc/self/fd /sys/class /dev/null /dev/tty; stat -c %F /dev/zero; cat /proc/self/comm; "
                           "getent hosts localhost; getent passwd root; arch; df -P / | wc -l; mount | wc -l | grep -c .")


def test_a_workspace_that_is_deleted(bench):
    bench.same("sh", "-c", """
        mkdir d; cd d; rmdir ../d; echo x >f; echo $?; ls | wc -l; mkdir e; pwd -P >/dev/null; echo $?; cd ..; echo back >g; rm -rf ./* ; echo end""")


@pytest.mark.long
def test_250_roots(bench):
    """Each can be written; the count changes nothing else."""
    folder = bench.base / "roots"
    folder.mkdir()
    for i in range(250):
        (folder / str(i)).mkdir()
        bench.who.own(folder / str(i))
        bench.options += ["--write", str(folder / str(i))]
    bench.same("sh", "-c", 'for i in "$0"/*; do echo x >"$i/f"; chmod 600 "$i/f"; mv "$i/f" "$i/g"; rm "$i/g"; done; echo all',
               str(folder))


def test_trees_of_processes(bench):
    """As package managers do: many short children, deep ones, parallel ones, unpacked into place by renames."""
    bench.same("bash", "-c", """
        deep() { [ $1 = 0 ] && echo bottom || bash -c "$(declare -f deep); deep $(($1 - 1))"; }; deep 12
        seq 150 | xargs -P 4 -I{} sh -c 'mkdir -p .t{}; echo {} >.t{}/f; chmod 755 .t{}/f; touch -d @1 .t{}/f; mv .t{} p{}' ; ls | wc -l
        find . -name f -print0 | xargs -0 -n 50 cat | sort -n | sha256sum | cut -c1-6
        coproc cat; echo hello >&${COPROC[1]}; read -r x <&${COPROC[0]}; echo $x
        perl -e 'my @p = map { my $p = fork; exit($_) if !$p; $p } 1..9; waitpid($_, 0), print $? >> 8 for @p; print "\\n"'""",
               needs=("bash", "perl"))


def test_confine_inside_confine(bench):
    """It confines further, and says so."""
    inner = bench.programs.confine
    text = bench.same("sh", "-c", f"mkdir in; cd in; {inner} run --report ../r -- sh -c 'echo a >f; cat f; echo b >../out' 2>/dev/null; "
                                  f"echo $?; ls ..; rm ../r; {inner} run -- sh -c 'exit 9'; echo $?; "
                                  f"{inner} run --mode read-only -- sh -c 'echo c >f' 2>/dev/null; echo $?; {inner} run -- none; echo $?")
    assert "out" not in text.split()
