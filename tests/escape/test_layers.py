"""Confinement with one layer taken out at a time: the suite and the proof must notice.

Each case builds a copy of the sources in which one call does nothing. What the other layers hold all the
same is not a fault of the suite: the read-only tree is held by Landlock and the supervisor alone on a
kernel that has Landlock, so its absence can be seen only where that is missing.
"""
import json
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from blackbox import Programs, failing, lacking
from suite import Attack, ask

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

TOP = Path(__file__).resolve().parents[2]
BUILD_LIMIT = 600
ENOSYS = 38


class Layer(NamedTuple):
    file: str
    call: str      # stands once in the file
    instead: str
    families: dict  # by runner: of each, something must escape
    users: bool = True  # there is something to take away from an ordinary user
    landlock: bool = True  # the kernel's


LAYERS = {
    "guard": Layer(
        "src/enter/enter.c", "r = confine__enter_guard(state);", "r = 0;",
        {runner: {"inherited-fd", "keyring", "locks"} for runner in ("namespace", "bwrap", "landlock")}),
    "landlock": Layer(
        "src/enter/enter.c", "r = confine__enter_landlock(state);", "r = 0;",
        {"namespace": {"inherited-fd", "fifo"}, "bwrap": {"inherited-fd", "fifo"},
         "landlock": {"write", "truncate", "path", "hard-links", "proc"}}),
    # The private /dev and /tmp and the read-only tree.
    "mounts": Layer(
        "src/enter/enter.c", "? confine__enter_mounts(state) : confine__enter_roots(state);",
        "? confine__enter_roots(state) : confine__enter_roots(state);",
        {"namespace": {"write"}}),
    # Its propagation stays private: the host's mounts are not to be touched.
    "read-only-tree": Layer(
        "src/enter/mounts.c", "{.attr_set = SYS_MOUNT_ATTR_RDONLY, .propagation = SYS_MS_PRIVATE}",
        "{.propagation = SYS_MS_PRIVATE}",
        {"namespace": {"write", "truncate", "path"}}, landlock=False),
    "descriptors": Layer(
        "src/enter/enter.c", "int r = close_descriptors(plan);",
        "int r = plan->keep_fd < -1 ? close_descriptors(plan) : 0;",
        {runner: {"inherited-fd"} for runner in ("namespace", "bwrap", "landlock")}),
    # bubblewrap drops them itself.
    "capabilities": Layer(
        "src/enter/enter.c", "r = confine__enter_capabilities(state);", "r = 0;",
        {"namespace": {"kernel"}, "landlock": {"kernel"}}, users=False),
}


class Sources:
    """A copy of the sources, built again with each change."""

    def __init__(self, folder):
        self.folder = folder
        leave = shutil.ignore_patterns("build", ".git", "__pycache__")
        shutil.copytree(TOP, folder, ignore=leave, symlinks=True)
        if (TOP / "build" / "deps").is_dir():
            shutil.copytree(TOP / "build" / "deps", folder / "build" / "deps", symlinks=True)
        self.build()

    def build(self):
        done = subprocess.run([self.folder / "dev", "build"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=BUILD_LIMIT, check=False)
        assert done.returncode == 0, done.stdout.decode()[-4000:]
        return Programs(self.folder / "build" / "out")

    def without(self, layer):
        """Builds it so, and leaves the sources as they were."""
        path = self.folder / layer.file
        whole = path.read_text()
        assert whole.count(layer.call) == 1, f"{layer.file} no longer has: {layer.call}"
        try:
            path.write_text(whole.replace(layer.call, layer.instead))
            return self.build()
        finally:
            path.write_text(whole)


@pytest.fixture(scope="module")
def sources(scratch):
    return Sources(scratch / "sources")


@pytest.fixture(scope="module", params=LAYERS)
def removed(request, sources):
    layer = LAYERS[request.param]
    return layer, sources.without(layer)


def becoming(who, layer):
    """What a child does before it attacks; also without Landlock, as on a kernel that has none."""
    without = None if layer.landlock else failing("landlock_create_ruleset", ENOSYS)

    def prepare():
        who.become()
        if without:
            without()

    return prepare


def usable(programs, prepare):
    done = subprocess.run([programs.confine, "doctor", "--json"], preexec_fn=prepare, cwd="/", check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=60)
    return {entry["name"] for entry in json.loads(done.stdout)["runners"] if entry["usable"]}


def families(checks):
    return {check["family"] for check in checks if check["verdict"] == "escaped"}


def test_the_suite_notices(removed, who):
    layer, programs = removed
    if who.uid and not layer.users:
        pytest.skip("only root has it")
    prepare, attack = becoming(who, layer), Attack(programs)
    there = usable(programs, prepare)
    for runner, wanted in layer.families.items():
        if runner not in there:
            lacking(f"{runner} is not usable by {who.name}")
        head, prefix = attack.words(runner, "workspace-write", "run", ())
        checks = ask([*head, "--", *prefix], preexec_fn=prepare)
        assert wanted <= families(checks.values()), runner


def test_the_proof_notices(removed, who):
    layer, programs = removed
    if who.uid and not layer.users:
        pytest.skip("only root has it")
    done = subprocess.run([programs.confine, "doctor", "--prove", "--json"], preexec_fn=becoming(who, layer), cwd="/",
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=200,
                          check=False)
    assert done.returncode == 1, done.stderr
    proof = {runner["name"]: runner["checks"] for runner in json.loads(done.stdout)["runners"]}
    for runner, wanted in layer.families.items():
        assert wanted <= families(proof[runner]), runner
