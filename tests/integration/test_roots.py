"""Exactly what was granted can be written, whatever its name, kind and place."""
import os

import pytest

from blackbox import mount, private_mounts

NAMES = [b"a b", b"new\nline", b"\xff\xfe", b"quo'te\"", b"$(x)", b"back\\slash", b"-dash", b"[vx]*", b"x" * 250,
         b"caf\xc3\xa9", b" ", b"...", b"colon:1:2", b"\x01\x7f", b"tab\t", b"%s%n"]


def make(box, path):
    os.makedirs(path)
    os.chown(path, box.who.uid, box.who.gid)
    return path


@pytest.mark.parametrize("name", NAMES, ids=[ascii(name)[2:-1][:20] for name in NAMES])
def test_an_odd_name(box, form, name):
    """As current directory, as --workspace and as --write, relative and absolute."""
    odd = make(box, os.fsencode(box.base) + b"/" + name)
    script = b'echo x >inside; echo x >"$PWD/inside2"; echo x >../outside/new'
    if form == "wrap" and b"\xff" in name:
        form = "run"  # the wrapped form of it is tested with the arguments
    outcome = box.confine("sh", "-c", script, cwd=os.fsdecode(odd), form=form)
    assert os.path.exists(odd + b"/inside") and os.path.exists(odd + b"/inside2"), outcome
    box.assert_untouched()
    spelled = os.fsdecode(b"./" + name if name.startswith(b"-") else name)
    outcome = box.confine("sh", "-c", 'echo x >"$0/by-option"', odd, cwd=box.base, options=("--workspace", spelled))
    assert os.path.exists(odd + b"/by-option"), outcome
    outcome = box.confine("sh", "-c", 'echo x >"$0/by-write"', odd, options=("--write", odd))
    assert os.path.exists(odd + b"/by-write"), outcome
    box.assert_untouched()


def test_a_value_that_looks_like_an_option(box):
    make(box, box.base / "-dash")
    outcome = box.confine("sh", "-c", f"echo x >{box.base}/-dash/in", cwd=box.base, options=("--workspace", "-dash"))
    assert outcome.rc == 0 and (box.base / "-dash" / "in").exists()


def test_a_workspace_that_is_a_symbolic_link(box, form):
    real = make(box, box.base / "real" / "deep")
    link = box.base / "link"
    link.symlink_to(real)
    outcome = box.confine("sh", "-c", f"echo x >{real}/physical; echo x >{link}/by-link", form=form,
                          options=("--workspace", str(link)))
    assert (real / "physical").exists() and (real / "by-link").exists()
    if form == "run":
        assert outcome.record["workspaceRoot"] == str(real)


def test_dots_after_a_symbolic_link_are_physical(box, form):
    """link/.. is the parent of the link's target, not of the link."""
    real = make(box, box.base / "real" / "deep")
    box.who.own(real.parent)
    (box.outside / "link").symlink_to(real)
    box.before = box._look()
    box.confine("sh", "-c", f"echo x >{real.parent}/up; echo x >{box.outside}/new", form=form,
                options=("--workspace", str(box.outside / "link" / "..")), cwd="/")
    assert (real.parent / "up").exists()
    box.assert_untouched()


def test_a_workspace_below_tmp(box, form, tmp_places):
    """It is the host's own, although the rest of the host's /tmp is not seen."""
    ws = make(box, tmp_places / "deep" / "ws")
    neighbour = tmp_places / "neighbour"
    neighbour.write_text("original\n")
    box.who.own(neighbour, tmp_places / "deep")
    outcome = box.confine("sh", "-c", f"pwd -P; echo x >in; echo x >/tmp/own; echo changed >{neighbour}", cwd=ws,
                          form=form)
    assert outcome.out.decode().strip() == str(ws)
    assert (ws / "in").exists()
    if box.runner != "landlock":
        assert neighbour.read_text() == "original\n"
        assert not os.path.exists("/tmp/own")
    elif os.path.exists("/tmp/own"):
        os.unlink("/tmp/own")


def test_tmp_is_there_and_empty(box, form):
    outcome = box.confine("sh", "-c", "echo x >/tmp/own && cat /tmp/own; ls -A /tmp; stat -c %a /tmp", form=form)
    if box.runner == "landlock":
        os.path.exists("/tmp/own") and os.unlink("/tmp/own")
        assert outcome.out.split()[0] == b"x"
    else:
        assert outcome.out.split() == [b"x", b"own", b"1777"]
        assert not os.path.exists("/tmp/own")


def test_further_roots(box, form):
    folder, file = make(box, box.base / "folder"), box.base / "file"
    file.write_text("old\n")
    beside = box.base / "beside"
    beside.write_text("original\n")
    box.who.own(file, beside)
    outcome = box.confine("sh", "-c", f"echo x >{folder}/new; echo new >{file}; echo x >{beside}; echo x >in; cat {file}",
                          options=("--write", str(folder), "--write", str(file)), form=form)
    assert (folder / "new").exists() and file.read_text() == "new\n" and (box.ws / "in").exists()
    assert beside.read_text() == "original\n" and outcome.out == b"new\n"
    if form == "run":
        assert outcome.record["writableRoots"] == [str(box.ws), str(folder), str(file)]


def test_a_relative_root_and_a_root_by_link(box):
    folder = make(box, box.base / "folder")
    (box.base / "link").symlink_to("folder")
    box.confine("sh", "-c", f"echo x >{folder}/new", options=("--write", "../link"))
    assert (folder / "new").exists()


def test_a_root_that_is_a_file_below_tmp(box, tmp_places):
    if box.runner == "landlock":
        return  # the host's /tmp is writable there anyway
    file = tmp_places / "file"
    file.write_text("old\n")
    box.who.own(file)
    outcome = box.confine("sh", "-c", f"echo new >{file}; echo x >{tmp_places}/other", options=("--write", str(file)))
    assert file.read_text() == "new\n" and not (tmp_places / "other").exists(), outcome


def test_250_roots(box, form):
    roots, options = [], []
    for i in range(250):
        root = box.base / "many" / str(i)
        if i % 2:
            root = make(box, root)
        else:
            root.parent.mkdir(exist_ok=True)
            root.write_text("")
            box.who.own(root)
        roots.append(root)
        options += ["--write", str(root)]
    script = f'for i in "$@"; do if [ -d "$i" ]; then echo x >"$i/new"; else echo x >"$i"; fi || exit 9; done; ' \
             f"echo x >{box.base}/many/none"
    outcome = box.confine("sh", "-c", script, "sh", *map(str, roots), options=options, form=form)
    assert outcome.rc not in (0, 9, 125), outcome
    assert all((root / "new").exists() if root.is_dir() else root.read_text() == "x\n" for root in roots)
    assert not (box.base / "many" / "none").exists()


def test_too_many_roots_are_refused(any_box):
    outcome = any_box.refuse(options=["--write", str(any_box.outside)] * 600)
    assert "more than" in outcome.text


@pytest.mark.parametrize("order", ["inner-first", "outer-first", "same-twice", "workspace-inside"])
def test_nested_roots(box, form, order):
    outer = make(box, box.base / "outer")
    inner = make(box, outer / "middle" / "inner")
    box.who.own(inner.parent)
    options = {"inner-first": ("--write", inner, "--write", outer), "outer-first": ("--write", outer, "--write", inner),
               "same-twice": ("--write", outer, "--write", outer),
               "workspace-inside": ("--workspace", inner, "--write", outer)}[order]
    outcome = box.confine("sh", "-c", f"echo x >{inner}/a && echo x >{outer}/b && echo x >{inner.parent}/c && "
                                      f"mv {outer}/b {inner.parent}/d", options=options, form=form)
    assert outcome.rc == 0, outcome
    assert (inner / "a").exists() and (inner.parent / "c").exists() and (inner.parent / "d").exists()
    box.assert_untouched()


def test_a_root_that_holds_the_workspace(box, form):
    """The parent is granted too: renaming the workspace itself stays the kernel's business, writing does not."""
    outcome = box.confine("sh", "-c", f"echo x >{box.base}/beside; echo x >in",
                          options=("--write", str(box.base)), form=form)
    assert outcome.rc == 0 and (box.base / "beside").exists() and (box.ws / "in").exists()


def test_renames_and_links_across_roots(box):
    """Within one root they work; from outside into a root they do not."""
    one = make(box, box.base / "one")
    (box.ws / "d").mkdir()
    box.who.own(box.ws / "d")
    outcome = box.confine("sh", "-c", f"echo x >a && mv a d/b && ln d/b c && ln -s d/b e && echo y >{one}/f; "
                                      f"mv {box.victim} stolen; ln {box.victim} linked; mv d/b {box.outside}/put; :",
                          options=("--write", str(one)))
    assert outcome.rc == 0
    assert (box.ws / "c").exists() and (box.ws / "e").is_symlink() and (one / "f").exists()
    assert not (box.ws / "linked").exists()
    box.assert_untouched()


def test_a_symbolic_link_inside_that_leads_out(box, form):
    (box.ws / "out").symlink_to(box.outside)
    box.confine("sh", "-c", "echo x >out/new; echo x >out/victim; rm out/victim; touch out/victim; chmod 0 out/victim; "
                            f"ln -s {box.victim} later; echo x >later", form=form)
    if box.runner == "landlock":
        record = box.confine("true").record
        if "metadata" in record["gaps"]:
            os.chmod(box.victim, 0o644)
            assert box.victim.read_text() == "original\n" and not (box.outside / "new").exists()
            return
    box.assert_untouched()


def test_dev_shm_can_be_granted(box, form):
    """A root below /dev/shm is the host's; without, namespace and bwrap have a private one."""
    name = f"confine-test-{box.mark.value}"
    place = f"/dev/shm/{name}"
    try:
        box.confine("sh", "-c", f"echo x >{place}", form=form)
        assert not os.path.exists(place)
        os.mkdir(place)
        os.chown(place, box.who.uid, box.who.gid)
        outcome = box.confine("sh", "-c", f"echo x >{place}/in", options=("--write", place), form=form)
        assert outcome.rc == 0 and os.path.exists(f"{place}/in"), outcome
    finally:
        if os.path.isdir(place):
            for entry in os.listdir(place):
                os.unlink(f"{place}/{entry}")
            os.rmdir(place)


def test_a_workspace_on_another_mount(box, form):
    """A mount below the workspace is writable as the host's is, one outside is not."""
    if os.getuid() != 0:
        pytest.skip("only root can mount")
    within, beside = make(box, box.ws / "within"), make(box, box.base / "beside")

    def mounts():
        private_mounts()
        mount("tmpfs", within, "tmpfs", 0, b"mode=1777")
        mount("tmpfs", beside, "tmpfs", 0, b"mode=1777")

    words = ["sh", "-c", f"echo x >within/a; cat within/a; echo x >{beside}/b; ls {beside}"]
    start = box.run_words(words) if form == "run" else box.wrap(*words)["argv"]
    out, err = box.spawn(start, privileged=mounts).communicate(timeout=20)
    assert out == b"x\n", err


def test_the_home_directory_as_workspace_is_noticed(box):
    outcome = box.confine("true", cwd=box.home, options=("--workspace", str(box.home)))
    assert [notice["code"] for notice in outcome.record["notices"]] == ["home-workspace"]


def test_a_workspace_deleted_while_running(box, form):
    words = ["sh", "-c", f"echo go; read line; echo x >{box.outside}/new; exit 4"]
    process = box.spawn(box.run_words(words) if form == "run" else box.wrap(*words)["argv"], stdin=-1)
    assert process.stdout.read(3) == b"go\n"
    moved = box.base / "moved"
    os.rename(box.ws, moved)
    process.communicate(b"\n", timeout=20)
    assert process.returncode in (2, 4)
    box.assert_untouched()
