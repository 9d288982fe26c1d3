"""Ordinary tools work inside as they do outside."""
import re

PROGRAM = """
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int depth(int n) { return n ? 1 + depth(n - 1) : 0; }

static void *work(void *arg)
{
  *(int *)arg = depth(3);
  return arg;
}

int main(int argc, char **argv)
{
  int found = 0;
  pthread_t thread;
  if (argc > 1 && strcmp(argv[1], "wait") == 0) {
    puts("waiting");
    fflush(stdout);
    sleep(60);
  }
  pthread_create(&thread, NULL, work, &found);
  pthread_join(thread, NULL);
  FILE *file = fopen("made", "w");
  fprintf(file, "%d\\n", found);
  fclose(file);
  chmod("made", 0600);
  printf("found %d\\n", found);
  return 0;
}
"""

# It has its folder's name in it.
BUILT = ("^program$",)
BUILD = "cc -g -O0 -pthread -o program program.c && "


def test_gdb(bench):
    """Breakpoints, a backtrace, values, changing one, stepping, another thread.

    Nobody may open /proc/PID/mem for writing inside; gdb says so and writes by ptrace(2)."""
    bench.give("program.c", PROGRAM)
    text = bench.same("sh", "-c", BUILD + """
        gdb -q -nx -batch -ex 'set debuginfod enabled off' -ex 'break depth if n == 0' -ex run -ex 'bt 5' -ex 'print n' \
            -ex 'set var n = 2' -ex 'delete' -ex 'watch n' -ex 'next' -ex 'delete' -ex continue \
            ./program 2>&1 | grep -v '^warning: opening /proc/.*/mem file\\|^.Thread .*exited'""", needs=("gdb", "cc"), unequal=BUILT)
    assert re.search(r"#0 .* depth", text) and re.search(r"#\d+ .* work ", text)
    assert "found 5" in text


def test_gdb_attaches(bench):
    bench.give("program.c", PROGRAM)
    text = bench.same("sh", "-c", BUILD + """
        ./program wait >out & program=$!
        until grep -qs waiting out; do sleep 0.01; done
        gdb -q -nx -batch -ex 'set debuginfod enabled off' -p $program -ex 'frame function main' -ex 'print argc' \
            -ex detach >log 2>&1
        grep '^\\$1' log; kill $program; wait $program 2>/dev/null; echo "ended $?"; rm log""",
                      needs=("gdb", "cc"), unequal=BUILT)
    assert "$1 = 2" in text and "ended 143" in text


def test_strace(bench):
    """Calls of all kinds, those that confinement answers itself included."""
    bench.give("program.c", PROGRAM)
    text = bench.same("sh", "-c", BUILD + """
        strace -f -qq -e trace=execve,openat,chmod,fchmodat,rename,renameat,renameat2,unlink -e signal=none -o log \
            sh -c './program; mv made kept; chmod 640 kept; unlink no-such-file'
        sed 's/^[0-9]* *//' log | grep -E 'program|made|kept|no-such' | grep -v 'resumed\\|O_PATH' | sort -u; rm log""",
                      needs=("strace", "cc"), unequal=BUILT)
    assert 'openat(AT_FDCWD, "made", O_WRONLY|O_CREAT|O_TRUNC' in text
    assert re.search(r'chmod.*"made", (0600|N).* = 0', text)
    assert re.search(r'unlink.*no-such-file.* = -1 ENOENT', text)


def test_strace_attaches(bench):
    bench.give("program.c", PROGRAM)
    text = bench.same("sh", "-c", BUILD + """
        ./program wait >out & program=$!
        until grep -qs waiting out; do sleep 0.01; done
        strace -qq -o log -p $program & tracer=$!
        until grep -q 'TracerPid:.[1-9]' /proc/$program/status; do sleep 0.01; done
        kill $program; wait $program 2>/dev/null; echo "ended $?"; wait $tracer; grep -c SIGTERM log; rm log""",
                      needs=("strace", "cc"), unequal=BUILT)
    assert "ended 143" in text


def test_python(bench):
    bench.give("work.py", """
import asyncio, concurrent.futures, mmap, multiprocessing, os, shutil, socket, sqlite3, subprocess, sys, tempfile

def square(n):
    return n * n

async def echo():
    reader, writer = await asyncio.open_unix_connection("socket")
    writer.write(b"hello\\n")
    answer = await reader.readline()
    writer.close()
    return answer

async def serve():
    async def on(reader, writer):
        writer.write((await reader.readline()).upper())
        await writer.drain()
        writer.close()
    server = await asyncio.start_unix_server(on, "socket")
    async with server:
        return await echo()

if __name__ == "__main__":
    with multiprocessing.Pool(3) as pool:
        print(pool.map(square, range(6)))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        print(list(pool.map(square, range(6))))
    print(asyncio.run(serve()))
    os.unlink("socket")
    with tempfile.TemporaryDirectory() as folder, open(os.path.join(folder, "x"), "w+b") as file:
        file.truncate(8192)
        with mmap.mmap(file.fileno(), 8192) as memory:
            memory[0:4] = b"abcd"
        print(file.read(4))
    with sqlite3.connect("data.db") as base:
        print(base.execute("pragma journal_mode=wal").fetchall())
        base.execute("create table t (x)")
        base.executemany("insert into t values (?)", [(n,) for n in range(100)])
        print(base.execute("select sum(x) from t").fetchall())
    base.close()
    shutil.copy2("work.py", "copy.py")
    print(os.stat("copy.py").st_mtime_ns == os.stat("work.py").st_mtime_ns)
    print(subprocess.run(["sh", "-c", "exit 3"]).returncode)
    os.setxattr("copy.py", "user.x", b"1")
    print(os.listxattr("copy.py"), oct(os.umask(0o022)), os.getcwd() == os.path.realpath("."))
""")
    text = bench.same("python3", "work.py", needs=("python3",), unequal=(r"data\.db",))
    assert "[0, 1, 4, 9, 16, 25]" in text and "b'HELLO\\n'" in text


def test_node(bench):
    bench.give("work.js", """
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const { spawnSync, fork } = require('child_process');
const fs = require('fs'), http = require('http'), crypto = require('crypto'), zlib = require('zlib');

if (process.argv[2] === 'child') {
  process.on('message', m => { process.send(m + 1); process.disconnect(); });
} else if (!isMainThread) {
  parentPort.postMessage(workerData * 2);
} else {
  (async () => {
    const doubled = await Promise.all([1, 2, 3].map(n => new Promise((done, failed) =>
      new Worker(__filename, { workerData: n }).on('message', done).on('error', failed))));
    console.log(doubled);
    await fs.promises.mkdir('a/b', { recursive: true });
    await Promise.all([...Array(40).keys()].map(n => fs.promises.writeFile(`a/b/${n}`, `${n}`)));
    await fs.promises.chmod('a/b/1', 0o600);
    await fs.promises.utimes('a/b/2', 1000, 2000);
    console.log((await fs.promises.readdir('a/b')).length, fs.statSync('a/b/2').mtimeMs);
    await fs.promises.cp('a', 'c', { recursive: true });
    await fs.promises.rm('a', { recursive: true });
    console.log(spawnSync('sh', ['-c', 'echo out; exit 4']).status);
    console.log(await new Promise(done => { const c = fork(__filename, ['child']); c.on('message', done); c.send(41); }));
    const server = http.createServer((q, r) => r.end('served ' + q.url)).listen(0, '127.0.0.1');
    await new Promise(done => server.on('listening', done));
    console.log(await new Promise(done => http.get({ port: server.address().port, path: '/x' }, r => {
      let body = ''; r.on('data', d => body += d); r.on('end', () => done(body)); })));
    server.close();
    console.log(zlib.gunzipSync(zlib.gzipSync('text')).toString());
    console.log(crypto.scryptSync('a', 'b', 16).toString('hex').length);
  })();
}
""")
    text = bench.same("node", "work.js", needs=("node",))
    assert "[ 2, 4, 6 ]" in text and "served /x" in text and "42" in text


def test_git(bench):
    text = bench.same("sh", "-ec", """
        git init -q -b main .
        mkdir src; echo one >src/a; printf '#!/bin/sh\\ntrue\\n' >run; chmod +x run
        printf '#!/bin/sh\\necho hook ran\\n' >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit
        git add . && git commit -q -m first
        git checkout -q -b side; echo two >>src/a; git commit -q -am second
        git checkout -q main; echo other >b; git add b; git commit -q -m third
        git merge -q --no-edit side; git rebase -q side; git tag -a -m t v1
        git worktree add -q ../ws/tree side 2>&1; git -C tree status --short --branch
        git stash list; git mv run go; git commit -q -m renamed; git gc -q --prune=now
        git clone -q . copy; git -C copy log --oneline | wc -l
        git fsck --strict; git log --format=%H%d --all; git status --short; git diff HEAD~1 --stat""",
                      needs=("git",), unequal=(r"(^|/)\.git/.*(index|logs/|\.pack|\.idx|\.rev|/info/|packed-refs|gc\.)",
                                               r"(^|/)\.git/objects/pack/", r"(^|/)\.git/worktrees/", r"^tree/\.git$",
                                               r"copy/\.git/config$"))
    assert "hook ran" in text


def test_make(bench):
    bench.give("Makefile", """
objects := $(foreach n,1 2 3 4 5 6 7 8 9 10 11 12,part$(n).o)
all: program lib.a
part%.c:
	echo 'int part$*(void) { return 1; }' >$@
program: $(objects) main.o
	$(CC) -o $@ $^
lib.a: $(objects)
	$(AR) rcD $@ $^
main.c:
	echo 'int part7(void); int main(void) { return part7() - 1; }' >$@
sub:
	+$(MAKE) --no-print-directory -C . all
install: sub
	install -d tree/bin
	install -m 755 program tree/bin/program
	install -p -m 644 lib.a tree/lib.a
	ln -s bin/program tree/link
	touch -d '2020-01-01 00:00:00 UTC' tree/lib.a
.PRECIOUS: part%.c
""")
    text = bench.same("sh", "-ec", """
        make -s -j4 install; ./program; ./tree/link; make -q all && echo nothing to do
        touch part3.c; make -j4 program | sort; stat -c '%a %Y' tree/lib.a
        tar -cf - tree | tar -xpf - -C "$(mktemp -d -p .  x.XXXXXX)"; mv x.* unpacked""", needs=("make", "cc", "ar"))
    assert "nothing to do" in text and "part3.o" in text


def test_a_tree_of_processes(bench):
    """As cargo works: a lock on the target folder, a job server, compilers in parallel each with children,
    outputs under hashed names, hard links, renames over what is there, times taken over from sources."""
    bench.give("build.py", """
import fcntl, os, subprocess, sys, time
from pathlib import Path

TARGET = Path("target/debug/deps")

def compile(name):
    TARGET.mkdir(parents=True, exist_ok=True)
    (TARGET / f"{name}.tmp").write_text(name)
    part = subprocess.run(["sh", "-c", "(sleep 0.01; echo part) & wait; exec cat"], input=name.encode(),
                          stdout=subprocess.PIPE, check=True).stdout
    (TARGET / f"{name}.o").write_bytes(part)
    os.rename(TARGET / f"{name}.tmp", TARGET / f"{name}.rlib")
    os.utime(TARGET / f"{name}.rlib", ns=(10**18, 10**18))

def child(name, read, write):
    token = os.read(read, 1)
    compile(name)
    os.write(write, token)

if len(sys.argv) > 1:
    child(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    raise SystemExit
Path("target/debug").mkdir(parents=True)
lock = open("target/debug/.lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
read, write = os.pipe()
os.write(write, b"++++")
children = [subprocess.Popen([sys.executable, __file__, f"crate{n}", str(read), str(write)], pass_fds=(read, write))
            for n in range(12)]
print([process.wait() for process in children])
# A second builder has to wait, and then gets it.
second = subprocess.Popen(["flock", "target/debug/.lock", "true"])
time.sleep(0.05)
print(second.poll())
fcntl.flock(lock, fcntl.LOCK_UN)
print(second.wait())
for n in range(12):
    os.link(TARGET / f"crate{n}.rlib", f"target/debug/libcrate{n}.rlib")
    os.chmod(f"target/debug/libcrate{n}.rlib", 0o755)
script = Path("target/debug/build-script")
script.write_text("#!/bin/sh\\necho generated >\\"$OUT_DIR/out\\"\\n")
script.chmod(0o755)
Path("out").mkdir()
print(subprocess.run([script.resolve()], env={**os.environ, "OUT_DIR": "out"}).returncode)
print(os.stat("target/debug/libcrate3.rlib").st_nlink, os.stat("target/debug/libcrate3.rlib").st_mtime_ns)
""")
    text = bench.same("python3", "build.py", needs=("python3", "flock"))
    assert text.splitlines()[1:3] == ["None", "0"]


def talk(terminal):
    """A session in a shell with job control; returns what was seen."""
    said = []

    def prompt(line):
        said.append(terminal.expect("ready> "))
        terminal.send(line)

    def in_front(line):
        """The same for a job that gets the terminal, once it has."""
        said.append(terminal.expect("ready> "))
        terminal.hand_over(line)

    prompt("sleep 300 & sleep 301 &\n")
    prompt("jobs\n")
    prompt("kill %1; wait %1; echo waited $?\n")
    in_front("fg %2\n")
    terminal.send("\x1a")
    prompt("bg %2; kill -STOP %2; kill %2; kill -CONT %2; wait %2; echo gone $?\n")
    in_front("cat\n")
    terminal.send("typed\n")
    said.append(terminal.expect("typed\r\ntyped\r\n"))
    terminal.send("\x03")
    prompt("echo interrupted $?\n")
    prompt("sh -c 'kill -STOP $$; echo went on'\n")
    prompt("fg\n")
    prompt("stty size; test -t 0 && echo a terminal\n")
    prompt("(trap 'echo trapped' INT; kill -INT $BASHPID); exit 7\n")
    return b"".join(said)


def test_job_control(bench):
    """A shell on a terminal."""
    seen = {}
    for side in ("outside", "inside"):
        bench.give(".bashrc", "PS1='ready> '\n")
        terminal = bench.terminal(side, "bash", "--noprofile", "-i")
        spoken = talk(terminal)
        last, status = terminal.end()
        text = bench.plain(side, spoken + last)
        # When a shell tells that a job has ended depends on when it looks.
        text = re.sub(r"\x1b\[\?2004[hl]\r?", "", text)
        seen[side] = (sorted(line.strip() for line in text.splitlines() if line.strip()), status)
    assert seen["inside"] == seen["outside"]
    lines, status = seen["inside"]
    assert status == 7
    assert {"trapped", "interrupted 130", "went on"} <= set(lines)
