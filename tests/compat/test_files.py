"""Tools that make, move, keep and mark files work inside as they do outside."""
import os
import subprocess

import pytest

from blackbox import program

OFFLINE = {"npm_config_update_notifier": "false", "npm_config_offline": "true", "npm_config_audit": "false",
           "npm_config_fund": "false"}


@pytest.mark.long
def test_git_of_several_people(bench):
    """A submodule from a local path, a push that runs hooks, a conflict, signatures, a stash, patches."""
    text = bench.same("sh", "-ec", """
        export GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=protocol.file.allow GIT_CONFIG_VALUE_0=always \
            GIT_CONFIG_KEY_1=init.defaultBranch GIT_CONFIG_VALUE_1=main
        git init -q part; (cd part; echo part >p; git add p; git commit -q -m part)
        git init -q --bare shared.git; git init -q work; cd work; git remote add origin ../shared.git
        printf '#!/bin/sh\\ncat >got\\n' >../shared.git/hooks/post-receive; chmod +x ../shared.git/hooks/post-receive
        for hook in pre-commit post-commit commit-msg post-checkout pre-rebase; do
            printf '#!/bin/sh\\necho %s >>../hooks\\n' $hook >.git/hooks/$hook; chmod +x .git/hooks/$hook; done
        git submodule --quiet add ../part part; seq 20 >f; git add .; git commit -q -m one
        git push -q origin main; test -s ../shared.git/got
        git checkout -q -b side; sed -i s/10/ten/ f; git commit -q -am side
        git checkout -q main; sed -i s/10/TEN/ f; git commit -q -am main
        git rebase side >/dev/null 2>&1 || { git status --short; sed -i '/^[<=>]/d;/^TEN/d' f; git add f
            GIT_EDITOR=true git rebase --continue >/dev/null 2>&1 || git rebase --skip >/dev/null; }
        echo more >>f; git stash -q; git stash pop -q; git checkout -q f
        git format-patch -q -o ../patches HEAD~1; git reset -q --hard HEAD~1; git am -q ../patches/*
        touch .git/index.lock; git add f && exit 9; rm .git/index.lock
        git worktree add -q ../tree side; git -C ../tree submodule --quiet update --init; git worktree list | wc -l
        git worktree remove --force ../tree; git bundle create -q ../b HEAD; git clone -q ../b ../from
        git clone -q --recurse-submodules ../shared.git ../again; ls ../again/part; cat ../hooks
        git reflog expire --expire=now --all; git repack -adq; git gc -q; git count-objects -v | head -3; git fsck""",
                      needs=("git",), unequal=(r"\.git/", r"/\.git$", "^b$", "^patches", r"\.gitmodules$"))
    assert "pre-rebase" in text and "commit-msg" in text


def test_a_signed_commit(bench):
    """The key's own text is random, and so are the names of objects."""
    bench.same("sh", "-ec", """
        ssh-keygen -q -t ed25519 -N '' -C comment -f key; ssh-keygen -y -f key | cut -d' ' -f1; stat -c %a key
        echo text >f; ssh-keygen -q -Y sign -f key -n file f 2>/dev/null
        printf 'a@example.org %s\\n' "$(cut -d' ' -f1,2 key.pub)" >signers
        ssh-keygen -Y verify -f signers -I a@example.org -n file -s f.sig <f | sed 's/ with.*//'
        git init -q r; cd r; git config gpg.format ssh; git config user.signingkey "$PWD/../key"
        git config gpg.ssh.allowedSignersFile "$PWD/../signers"
        git commit -q --allow-empty -S -m signed; git verify-commit HEAD 2>&1 | sed 's/ with.*//'
        rm -rf .git""", needs=("git", "ssh-keygen"), unequal=("^key", "^signers$", r"^f\.sig$"))


def test_npm(bench):
    """A local folder is linked and prepared, an archive unpacked; the binary runs."""
    bench.more = OFFLINE
    text = bench.same("sh", "-ec", """
        export npm_config_cache="$PWD/.npm"; mkdir one two package app
        echo '{"name":"one","version":"1.0.0","bin":"x.js","scripts":{"prepare":"echo >made"}}' >one/package.json
        printf '#!/usr/bin/env node\nconsole.log("ran", require("fs").existsSync(__dirname + "/made"))\n' >one/x.js
        echo '{"name":"two","version":"2.0.0"}' >package/package.json; tar -czf two.tgz package
        cd app; echo '{}' >package.json; npm install --silent ../one ../two.tgz; ./node_modules/.bin/one; cd ..; rm -rf .npm""",
                      needs=("npm", "node"), unequal=(r"package-lock\.json$", r"\.tgz$"))
    assert "ran true" in text


@pytest.mark.long
def test_npm_again(bench):
    """A clean install by the lock file, a workspace of packages, npx, an uninstall."""
    bench.more = OFFLINE
    bench.same("sh", "-ec", """
        export npm_config_cache="$PWD/.npm"; mkdir -p w/a w/b; cd w
        echo '{"name":"a","version":"1.0.0","bin":"a.js","dependencies":{"b":"1.0.0"}}' >a/package.json
        printf '#!/usr/bin/env node\nconsole.log(require("b"))\n' >a/a.js
        echo '{"name":"b","version":"1.0.0"}' >b/package.json; echo 'module.exports = "b"' >b/index.js
        npm init -y >/dev/null; npm pkg set 'workspaces[]=a' 'workspaces[]=b'; npm install --silent; npx --no-install a
        rm -rf node_modules; npm ci --silent; ls -l node_modules | wc -l; npm ls --depth 0 | sed 1d
        npm uninstall --silent --workspace a b; npm exec --workspace b -- node -p 1; cd ..; rm -rf .npm""",
               needs=("npm", "node"), unequal=(r"package-lock\.json$",))


@pytest.fixture(scope="session")
def pnpm(scratch):
    """Installed from npm's registry for the run, where there is one."""
    folder = scratch / "pnpm"
    folder.mkdir()
    done = subprocess.run([program("npm"), "install", "--silent", "--no-audit", "--no-fund", "--prefix", folder, "pnpm@9"],
                          check=False, stdin=subprocess.DEVNULL, timeout=200)
    if done.returncode != 0:
        pytest.skip("npm cannot install pnpm here")
    return str(folder / "node_modules" / ".bin" / "pnpm")


@pytest.mark.long
def test_pnpm(bench, pnpm):
    """Its store is outside of what it installs, and files are hard links into it."""
    text = bench.same("sh", "-ec", f"""
        mkdir one two app; pnpm='node {os.path.realpath(pnpm)}'
        echo '{{"name":"one","version":"1.0.0","bin":"x.js","files":["x.js"]}}' >one/package.json
        printf '#!/usr/bin/env node\\nconsole.log("ran")\\n' >one/x.js
        echo '{{"name":"two","version":"2.0.0"}}' >two/package.json; echo 'module.exports = 2' >two/index.js
        (cd two; npm pack --silent --cache "$PWD/../.npm" >/dev/null); rm -rf .npm
        cd app; echo '{{"name":"app","version":"1.0.0"}}' >package.json
        export npm_config_store_dir="$PWD/../store" npm_config_cache_dir="$PWD/../cache" npm_config_state_dir="$PWD/../state"
        $pnpm add --offline --silent file:../one ../two/two-2.0.0.tgz; ./node_modules/.bin/one
        node -p 'require("two")'; stat -Lc %h node_modules/two/index.js
        rm -rf node_modules; $pnpm install --offline --silent --frozen-lockfile; ls node_modules; cd ..; rm -rf store cache state""",
                      needs=("npm", "node"), unequal=(r"\.modules\.yaml$", r"pnpm-lock\.yaml$", r"\.tgz$", r"lock\.yaml$",
                                                      r"workspace-state", r"/\.bin/"))
    assert "ran" in text


def test_cmake(bench):
    bench.give("CMakeLists.txt", """
cmake_minimum_required(VERSION 3.10)
project(p C)
add_custom_command(OUTPUT made.c COMMAND cp ${CMAKE_CURRENT_SOURCE_DIR}/part.in made.c)
add_library(l SHARED made.c)
configure_file(in.h.in in.h)
add_executable(e main.c)
target_include_directories(e PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
target_link_libraries(e l)
enable_testing()
add_test(NAME t COMMAND e)
install(TARGETS e l RUNTIME DESTINATION bin LIBRARY DESTINATION lib)
""")
    bench.give("part.in", "int made(void) { return 0; }\n")
    bench.give("in.h.in", "#define WORD \"@PROJECT_NAME@\"\n")
    bench.give("main.c", "#include \"in.h\"\n#include <stdio.h>\nint made(void);\nint main(void) { puts(WORD); return made(); }\n")
    text = bench.same("sh", "-ec", """
        cmake -S . -B b >/dev/null; cmake --build b -j2 >/dev/null; b/e; (cd b; ctest 2>&1 | grep 'tests passed')
        cmake --install b --prefix "$PWD/to" >/dev/null; find to | sort; rm -rf b""", needs=("cmake", "cc"),
                      unequal=("^to/bin/e$",))
    assert "tests passed" in text and "to/lib/libl.so" in text


def test_python_environments(bench):
    """A venv, a package of a local folder by pip as far as the host has one, compiled caches, processes."""
    bench.give("work.py", """
import multiprocessing as m, os, sys
def f(n):
    return n, os.getpid() != parent
def add(value, lock):
    for _ in range(50):
        with lock:
            value.value += 1
if __name__ == "__main__":
    parent = os.getpid()
    for way in ("fork", "spawn", "forkserver"):
        c = m.get_context(way)
        value, lock, queue = c.Value("i", 0), c.Lock(), c.Queue()
        all = [c.Process(target=add, args=(value, lock)) for _ in range(2)]
        [p.start() for p in all]; [p.join() for p in all]
        print(way, value.value, [p.exitcode for p in all])
    with m.Manager() as manager:
        d = manager.dict(); d["x"] = 1; print(dict(d))
    from multiprocessing import shared_memory
    s = shared_memory.SharedMemory(create=True, size=100); s.buf[0] = 7; print(s.buf[0]); s.close(); s.unlink()
""")
    text = bench.same("sh", "-ec", """
        python3 -m venv --without-pip --copies v; . v/bin/activate; python -c 'import sys; print(sys.prefix != sys.base_prefix)'
        mkdir p; echo 'print("imported")' >p/__init__.py; python -c 'import p'; ls p/__pycache__ | wc -l; python work.py
        python -m zipapp p -m p:x -o a.pyz; python -m compileall -q p; deactivate; rm -rf v p/__pycache__ a.pyz""",
                      needs=("python3",))
    assert "spawn 100" in text.replace("N", "100") and "imported" in text


def test_sqlite(bench):
    """Several writers of one base with a write-ahead log and its shared memory."""
    text = bench.same("sh", "-ec", """
        sqlite3 b.db 'pragma journal_mode=wal; create table t(x)'
        for i in 1 2 3; do (for k in 1 2 3 4; do sqlite3 -cmd '.timeout 20000' b.db "insert into t values($i)"; done) & done; wait
        sqlite3 b.db 'select count(*), sum(x) from t; pragma integrity_check; pragma wal_checkpoint(truncate); vacuum'
        sqlite3 b.db 'pragma journal_mode=delete; begin; delete from t; rollback; select count(*) from t'""",
                      needs=("sqlite3",), unequal=(r"b\.db",))
    assert "12|24" in text and "ok" in text


def test_copies(bench):
    """Times, modes, set-id bits, links of both kinds, holes, FIFOs, attributes, and for root owners."""
    owners = "chown 1234:4321 a/f; chown -h 1234 a/soft; chown 7:7 a/d;" if bench.who.uid == 0 else ""
    bench.same("sh", "-ec", f"""
        mkdir -p a/d; echo x >a/f; ln a/f a/hard; ln -s f a/soft; ln -s nowhere a/dangling; mkfifo a/fifo
        dd if=/dev/zero of=a/hole bs=1 count=1 seek=5M status=none; echo s >a/x; {owners}
        chmod 6711 a/f; chmod 4755 a/x; chmod 2770 a/d; chmod 400 a/hole; setfattr -n user.k -v v a/x 2>/dev/null || :
        find a -exec touch -h -d '2001-02-03 04:05:06.789 UTC' {{}} +
        cp -a a cp; rsync -aHSX a/ rs; mkdir t p l; tar -cpf - a | tar -xpf - -C t; (cd a; find . -depth -print | cpio -pdm --quiet ../p) || :
        install -m 640 -p a/f i; install -D -m 755 a/x in/st/all; cp -l a/f l/; cp --reflink=auto a/x l/; mv a m
        rsync -a --delete --inplace rs/ rs2; rsync -an --itemize-changes rs/ rs2
        du -k rs/hole | cut -f1; find . -newer m/f -type f | sort | head; cp -a m/x y; getfattr -n user.k y rs/x 2>/dev/null || :""",
               needs=("rsync", "tar"), dated=r"^(cp|rs|rs2|m)(/|$)|^t/|^i$|^y$")


def test_temporary_files(bench):
    bench.same("sh", "-ec", """
        f=$(mktemp); d=$(mktemp -d); echo x >"$f"; stat -c %a "$f" "$d"; mv "$f" "$d/"; ls "$d" | wc -l; rm -r "$d"
        TMPDIR=$PWD mktemp -u t.XXXXXX | tr -d 'a-zA-Z0-9'; mktemp -p . q.XXXXXX >name; rm "$(cat name)" name
        cat <<END
here
END
        bash -c 'cat <<<word; cat <(echo proc)'; sort -S 1k -T /tmp /etc/services | tail -1; test -w "${TMPDIR:-/tmp}"
        python3 - <<END
import os, tempfile
with tempfile.TemporaryFile() as f: f.write(b"x"); print(os.fstat(f.fileno()).st_nlink)
here = os.open(".", os.O_RDONLY); fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600); os.write(fd, b"named")
os.link(f"/proc/self/fd/{fd}", "named", dst_dir_fd=here, follow_symlinks=True)
fd = os.memfd_create("m"); os.write(fd, b"1"); print(os.fstat(fd).st_size)
END
        cat named""", needs=("python3", "bash"))


def test_names_that_are_not_utf8(bench):
    """In file names, arguments, variables, links, archives and what is printed."""
    bench.same("bash", "-ec", r"""
        n=$'\xff\xfe \n\t"\x01\xc3(\\'; mkdir "$n"; cd "$n"; echo "$n" >"$n"; ln "$n" "h$n"; ln -s "$n" "s$n"; mv "h$n" "m$n"
        V=$n env -u OLDPWD sh -c 'printf %s "$V" | od -c; printf %s "$1" | od -c' sh "$n"; ls | od -c; cd ..
        tar -cf t.tar "$n"; rm -r "$n"; tar -xf t.tar; rm t.tar; rsync -a "$n/" "c$n"; python3 - "$n" <<END
import os, sys
raw = os.fsencode(sys.argv[1])
print(os.listdir(os.fsencode("."))[0][:1] in (b"c", b"\xff"), os.path.isdir(raw))
os.rename(raw, raw + b"\x80"); os.chmod(raw + b"\x80", 0o711)
END
        git init -q .; git add .; git commit -qm "$n"; git ls-files -z | od -c | tail -5; rm -rf .git; env $'\xffA=\xfe' env | grep -a ^$'\xff' | od -c""",
               needs=("bash", "git", "python3", "rsync"))


def test_names_that_are_long(bench):
    bench.same("bash", "-ec", """
        n=$(printf '%0255d' 0); echo x >$n; chmod 600 $n; mv $n 1$(printf '%0254d' 0); echo x >0$n 2>&1 | sed 's/.*: //' || :
        for i in {1..10}; do mkdir $n; cd $n; done; echo deep >f; chmod 640 f; touch -d @1 f; cat f; mv f g
        for i in {1..12}; do mkdir $n; cd $n; done; echo deeper >f; cat f; ln f h; mv f g; rm h; pwd | wc -c
        cd ~; find . -name g | wc -c; rm -rf 0*""", needs=("bash",))
