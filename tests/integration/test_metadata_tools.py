"""Tools that copy, unpack and build leave the same tree inside as outside: modes, owners, times, attributes."""
import os
import shutil
import subprocess
import time

import pytest

from blackbox import HANG, program

SCRIPTS = {
    "cp": "cp -a \"$SRC\" copy",
    "rsync": "rsync -aHAX \"$SRC/\" copy/ && touch -r \"$SRC/plain\" copy/later && chmod 700 copy/later && "
             "rsync -aHAX --delete \"$SRC/\" copy/",
    "tar": "mkdir copy && tar -C copy --xattrs --acls -xpf \"$SRC.tar\"",
    "install": "install -d -m 2750 copy && install -p -m 6755 \"$SRC/plain\" copy/a && install -m 0400 \"$SRC/plain\" "
               "copy/b && install -D -p -t copy/deep/er \"$SRC/plain\"",
    "git": "git init -q copy && cd copy && git config user.email a@b && git config user.name a && "
           "git config core.sharedRepository group && cp -a \"$SRC/.\" . && git add -A && git commit -qm one && "
           "git checkout -q -b other && chmod 755 plain && git commit -qam two && git checkout -q master && "
           "git gc -q && git worktree add -q ../tree other && git clone -q . ../clone",
    "npm": "mkdir copy && cd copy && npm install --offline --no-audit --no-fund --silent "
           "--install-links \"$SRC.package\"",
    "make": "mkdir copy && cp \"$SRC.make\" copy/Makefile && make -s -C copy && make -s -C copy again && "
            "make -s -C copy | grep -v 'Nothing to be done\\|is up to date' || true",
    "dpkg": "dpkg-deb -x \"$SRC.deb\" copy",
}
MAKEFILE = """all: a b
a:
\ttouch -d @1200000000 a
b: a
\tcp a b && chmod 4711 b && touch -r a b && touch -c -m -d @1300000000 b
again:
\ttouch -h -d @1200000001 a && chmod g+w,o-x a
.PHONY: all again
"""


def make_source(box):
    """A tree with what tools carry over, a tar archive, a package for npm, a package for dpkg and a makefile."""
    source = box.base / "source"
    source.mkdir()
    for name, mode in (("plain", 0o644), ("script", 0o755), ("setid", 0o6755), ("secret", 0o600), ("read-only", 0o444),
                       ("dir/inner", 0o640), ("strange \n name\udcff", 0o664)):
        path = source / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{name!r}\n" * 100)
        path.chmod(mode)
    os.link(source / "plain", source / "hard")
    os.symlink("plain", source / "link")
    os.symlink("nowhere", source / "dangling")
    os.mkfifo(source / "dir" / "fifo", 0o620)
    (source / "dir").chmod(0o2775)
    (source / "closed").mkdir(0o500)
    (source / "sticky").mkdir()
    (source / "sticky").chmod(0o1777)
    os.setxattr(source / "plain", "user.kept", b"value")
    os.setxattr(source / "dir", "user.kept", b"\0\1")
    for path in (source, *source.rglob("*")):
        box.who.own(path)
    if box.who.uid == 0:
        os.chown(source / "secret", 1234, 4321)
        os.chown(source / "link", 77, 78, follow_symlinks=False)
        os.chown(source / "dir", 1234, 0)
        (source / "dir").chmod(0o2775)
    (source / "setid").chmod(0o6755)  # a change of owner has taken the bits
    if shutil.which("setfacl"):
        subprocess.run(["setfacl", "-m", f"u:{box.who.uid}:rwx,m::rx", source / "script"], check=True)
        subprocess.run(["setfacl", "-d", "-m", f"g:{box.who.gid}:rx", source / "sticky"], check=True)
    for i, path in enumerate(sorted((source, *source.rglob("*")), key=lambda p: -len(p.parts))):
        os.utime(path, ns=(10**18 + i * 1001, 10**18 + i * 1000000001), follow_symlinks=False)
    subprocess.run(["tar", "-C", source, "--xattrs", "--acls", "-cf", f"{source}.tar", "."], check=True)
    package = box.base / "source.package"
    package.mkdir()
    (package / "package.json").write_text('{"name": "one", "version": "1.0.0", "bin": {"one": "one.js"}}')
    (package / "one.js").write_text("#!/usr/bin/env node\n")
    deb = box.base / "deb"
    (deb / "DEBIAN").mkdir(parents=True)
    (deb / "DEBIAN" / "control").write_text("Package: one\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\n"
                                            "Description: one\n")
    (deb / "usr").mkdir()
    (deb / "usr" / "program").write_text("x")
    (deb / "usr" / "program").chmod(0o4755)
    os.symlink("program", deb / "usr" / "link")
    os.utime(deb / "usr" / "program", (10**9, 10**9))
    os.utime(deb / "usr", (10**9, 10**9))
    os.utime(deb, (10**9, 10**9))
    subprocess.run(["dpkg-deb", "-Znone", "-b", deb, f"{source}.deb"], check=True, stdout=subprocess.DEVNULL)
    (box.base / "source.make").write_text(MAKEFILE)
    return source


def look(folder, since):
    seen = {}
    for path in sorted([folder, *folder.rglob("*")]):
        if ".git" in path.parts and path.name in ("index", "packed-refs") or "objects" in path.parts and path.is_file():
            continue  # content that tells the time
        if "cache" in path.parts:
            continue  # names that tell it
        st = path.lstat()
        attributes = {name: os.getxattr(path, name, follow_symlinks=False)
                      for name in os.listxattr(path, follow_symlinks=False)}
        when = "now" if st.st_mtime > since else st.st_mtime_ns
        what = os.fsencode(os.readlink(path)) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        what = what.replace(os.fsencode(folder), b"FOLDER")
        if "logs" in path.parts:
            what = b""  # when, and from where
        seen[str(path.relative_to(folder))] = (oct(st.st_mode), st.st_uid, st.st_gid, when, attributes, what)
    return seen


@pytest.mark.parametrize("tool", [pytest.param(tool, marks=pytest.mark.long) if tool == "npm" else tool for tool in SCRIPTS])
def test_a_tool_leaves_the_same_tree(box, tool):
    program({"dpkg": "dpkg-deb"}.get(tool, tool))
    source = make_source(box)
    since = time.time() - 2
    environment = {"SRC": str(source), "GIT_AUTHOR_DATE": "@1200000000 +0000", "GIT_COMMITTER_DATE": "@1200000000 +0000",
                   "npm_config_cache": "../cache", "npm_config_update_notifier": "false"}
    trees = []
    (box.base / "free").mkdir()
    for folder in (box.base / "free" / "control", box.ws / "inside"):
        folder.mkdir()
        box.who.own(folder)
        words = ["sh", "-euc", "umask 022\n" + SCRIPTS[tool]]
        if folder.parent != box.ws:
            process = box.spawn(words, cwd=folder, environment=environment)
            out, err = process.communicate(timeout=HANG)
            assert process.returncode == 0, err
            said = out, err
        else:
            outcome = box.confine(*words, cwd=folder, environment=environment,
                                  options=("--workspace", str(box.ws), "--require", "full"))
            assert outcome.rc == 0, outcome
            assert (outcome.out, outcome.err) == said
        trees.append(look(folder, since))
    outside, inside = trees
    assert sorted(inside) == sorted(outside)
    assert len(inside) >= 3
    assert [(name, outside[name], inside[name]) for name in outside if outside[name] != inside[name]] == []
