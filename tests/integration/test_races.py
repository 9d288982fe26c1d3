"""A workspace, or its parent, that is swapped for a symbolic link while runs start."""
import os
import subprocess

import pytest

# Renames the place away, puts a link to elsewhere there, and back, as fast as it can, with rests in which a
# whole start finds the place as it was.
SWAPPER = """
import os, sys, time
place, elsewhere = sys.argv[1:]
away = place + ".away"
print("go", flush=True)
while True:
    for _ in range(100):
        os.rename(place, away)
        os.symlink(elsewhere, place)
        os.unlink(place)
        os.rename(away, place)
    time.sleep(0.05)
"""


class Arena:
    """A workspace three deep, and a decoy of the same shape outside that must stay empty."""

    def __init__(self, box, what):
        self.box = box
        self.parent, self.ws = box.base / "parent", box.base / "parent" / "ws"
        self.decoy, decoy_parent = box.outside / "decoy-ws", box.outside / "decoy-parent"
        self.decoys = [self.decoy, decoy_parent / "ws"]
        for folder in (self.parent, self.ws, decoy_parent, *self.decoys):
            folder.mkdir()
            box.who.own(folder)
        self.place, elsewhere = (self.ws, self.decoy) if what == "workspace" else (self.parent, decoy_parent)
        self.elsewhere = elsewhere

    def swap(self):
        return self.box.spawn(["/usr/bin/python3", "-I", "-c", SWAPPER, str(self.place), str(self.elsewhere)])

    def settle(self, swapper):
        """Stops the swapper and puts everything back."""
        swapper.kill()
        swapper.wait()
        away = f"{self.place}.away"
        if self.place.is_symlink():
            self.place.unlink()
        if os.path.exists(away):
            os.rename(away, self.place)

    def written(self):
        return len(os.listdir(self.ws))

    def assert_decoys_empty(self):
        for decoy in self.decoys:
            assert os.listdir(decoy) == []


def start_many(box, argv, count, enter, at_once=4):
    """Spawns argv with a number added, count times; returns how many did not succeed."""
    running, refused = [], 0
    for i in range(count):
        process = box.spawn([*argv, str(i)], cwd="/", last=enter, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)
        box.started.pop()
        running.append(process)
        if len(running) == at_once:
            refused += running.pop(0).wait(timeout=60) != 0
    return refused + sum(process.wait(timeout=60) != 0 for process in running)


def race(box, form, what, count):
    arena = Arena(box, what)
    # The shell writes by every name it has: whatever they mean by then, only the original may get it.
    words = ["sh", "-c", f'echo x >"{arena.ws}/$0"; echo x >"$PWD/$0"; echo x >"$0"']
    held = os.open(arena.ws, os.O_RDONLY)
    # `run` takes the current directory as the workspace, whatever it is called meanwhile; what wrap prints is
    # resolved once, before anything is swapped, and spawned many times.
    argv = box.run_words(words) if form == "run" else box.wrap(*words, cwd=arena.ws)["argv"]

    def enter():
        os.fchdir(held)

    assert start_many(box, argv, 20, enter) == 0 and arena.written() == 20
    swapper = arena.swap()
    assert swapper.stdout.readline() == b"go\n"
    start_many(box, argv, count, enter)
    assert swapper.poll() is None, swapper.stderr.read()
    arena.settle(swapper)
    os.close(held)
    arena.assert_decoys_empty()
    box_victim_untouched(box)
    return arena.written() - 20


def box_victim_untouched(box):
    assert box.victim.read_text() == "original\n"
    assert sorted(os.listdir(box.outside)) == ["decoy-parent", "decoy-ws", "victim"]


@pytest.mark.parametrize("what", ["workspace", "parent"])
def test_a_swapped_workspace(box, form, what):
    race(box, form, what, 16)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("what", ["workspace", "parent"])
def test_a_workspace_swapped_during_2000_runs(box, what):
    """Each writes in the original or is refused; a tenth at least gets through."""
    assert race(box, "wrap", what, 2000) >= 200


@pytest.mark.parametrize("what", ["workspace", "parent"])
def test_a_workspace_swapped_after_wrap(box, what):
    """Without a race: what wrap resolved is the original or nothing."""
    arena = Arena(box, what)
    words = ["sh", "-c", f"echo x >{arena.ws}/a; echo x >b"]
    argv = box.wrap(*words, options=("--workspace", str(arena.ws)), cwd="/")["argv"]
    os.rename(arena.place, f"{arena.place}.away")
    os.symlink(arena.elsewhere, arena.place)
    process = box.spawn(argv, cwd="/")
    _, err = process.communicate(timeout=20)
    assert process.returncode != 0 and str(arena.ws).encode() in err, err
    os.unlink(arena.place)
    arena.elsewhere.rename(box.base / "another")
    os.rename(box.base / "another", arena.place)
    process = box.spawn(argv, cwd="/")
    _, err = process.communicate(timeout=20)
    assert process.returncode == 125 or box.runner == "bwrap", err
    for folder in (arena.place, arena.place / "ws"):
        assert not (folder / "a").exists() and not (folder / "b").exists()


def test_a_further_root_that_is_swapped(box):
    """The same for --write, where the first root stays."""
    root, decoy = box.base / "root", box.outside / "decoy"
    for folder in (root, decoy):
        folder.mkdir()
        box.who.own(folder)
    argv = box.wrap("sh", "-c", f'echo x >"{root}/$0"', options=("--write", str(root)))["argv"]
    swapper = box.spawn(["/usr/bin/python3", "-I", "-c", SWAPPER, str(root), str(decoy)])
    assert swapper.stdout.readline() == b"go\n"
    for i in range(15):
        box.spawn([*argv, str(i)]).communicate(timeout=60)
    swapper.kill()
    swapper.wait()
    assert os.listdir(decoy) == []
