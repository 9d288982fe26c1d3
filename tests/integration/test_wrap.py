"""confine wrap: what it prints is all that a foreign program needs, and nothing planted gets a say."""
import json
import os
import shutil
import subprocess
import sys

import pytest

from blackbox import RUNNERS, Who, program

# A program that knows nothing of confine: it spawns what it was given and passes the exit code on.
SPAWNER = """
import json, subprocess, sys
wrapped = json.load(open(sys.argv[1]))
done = subprocess.run(wrapped["argv"], capture_output=True)
sys.stdout.buffer.write(done.stdout)
sys.stderr.buffer.write(done.stderr)
sys.exit(done.returncode)
"""

# Stands for an operator's own runner: bwrap's dialect, handed on to bwrap.
SHIM = "#!/bin/sh\n[ $# -gt 0 ] || { echo 'shim-run: nothing to do' >&2; exit 9; }\nexec /usr/bin/bwrap \"$@\"\n"


def write_script(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def custom(any_box):
    """Options that make the shim the runner."""
    program("bwrap")
    shim = write_script(any_box.base / "shim", SHIM)
    config = any_box.base / "custom.yml"
    config.write_text(f"runnerCommand: [{shim}]\nrunnerFailureSignatures: ['shim-run: ', 'bwrap: ']\n")
    return ("--config", str(config))


def spawn_by_stranger(box, wrapped):
    place = box.base / "wrapped.json"
    place.write_text(json.dumps(wrapped))
    process = box.spawn([sys.executable, "-c", SPAWNER, str(place)])
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def check_confined(box, wrapped_of):
    inside, outside = box.ws / "inside", box.outside / "new"
    words = ("sh", "-c", f"echo in >'{inside}'; echo out >'{outside}'")
    code, _, err = spawn_by_stranger(box, {"argv": list(words)})
    assert code == 0, err
    assert outside.read_text() == "out\n"
    outside.unlink()
    inside.unlink()
    wrapped = wrapped_of(*words)
    code, _, err = spawn_by_stranger(box, wrapped)
    assert code != 0
    assert inside.read_text() == "in\n"
    assert not outside.exists()
    box.assert_untouched()
    assert any(signature in err.decode().lower() for signature in wrapped["denialSignatures"])
    assert not any(signature in err.decode() for rule in wrapped["runnerFailureRules"]
                   for signature in rule["fatalSignatures"])
    return wrapped


def test_a_stranger_spawns_it_confined(box):
    wrapped = check_confined(box, box.wrap)
    assert wrapped["runner"] == box.runner


def test_a_stranger_spawns_it_confined_by_a_custom_runner(any_box, custom):
    any_box.runner = "auto"
    wrapped = check_confined(any_box, lambda *words: any_box.wrap(*words, options=custom))
    assert (wrapped["runner"], wrapped["enforcement"], wrapped["gaps"]) == ("custom", "full", [])


def test_what_is_printed(box):
    process = box.spawn([box.programs.confine, "wrap", "--runner", box.runner, "--", "cmd", "--", "x y"])
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert out.count(b"\n") == 1 and out.endswith(b"}\n")
    wrapped = json.loads(out)
    assert list(wrapped) == ["schema", "argv", "runner", "enforcement", "gaps", "openChannels", "denialSignatures",
                             "runnerFailureRules"]
    assert wrapped["schema"] == "confine.wrap/1"
    assert wrapped["argv"][-3:] == ["cmd", "--", "x y"]
    assert wrapped["argv"][0].startswith("/")
    assert wrapped["runner"] == box.runner
    assert wrapped["enforcement"] == ("partial" if wrapped["gaps"] else "full")
    assert {"ipc", "network", "process"} <= set(wrapped["openChannels"])
    inner = {"allowedExitCodes": [125], "fatalSignatures": ["landlock-run: "],
             "informationalLines": ["landlock-run: partial enforcement (older Landlock ABI)"]}
    rules = {
        "namespace": [{"allowedExitCodes": [125], "fatalSignatures": ["namespace-run: "], "informationalLines": []}],
        "bwrap": [{"fatalSignatures": ["bwrap: "], "informationalLines": []}, inner],
        "landlock": [inner],
    }
    assert wrapped["runnerFailureRules"] == rules[box.runner]
    signatures = {"landlock": ["permission denied"]}
    assert wrapped["denialSignatures"] == signatures.get(box.runner, ["read-only file system", "permission denied"])


def test_the_custom_runner_gets_the_base_profile(any_box, custom):
    any_box.runner = "auto"
    wrapped = any_box.wrap("cmd", "arg", options=custom)
    assert wrapped["argv"] == [str(any_box.base / "shim"), "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
                               "--die-with-parent", "--tmpfs", "/tmp", "--bind", str(any_box.ws), str(any_box.ws), "--",
                               "cmd", "arg"]
    assert wrapped["runnerFailureRules"] == [{"fatalSignatures": ["shim-run: ", "bwrap: "], "informationalLines": []}]
    assert wrapped["denialSignatures"] == ["read-only file system", "permission denied"]
    reading = any_box.wrap("cmd", options=(*custom, "--mode", "read-only"))
    assert reading["argv"][1:] == ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--die-with-parent", "--",
                                   "cmd"]
    # By name without the file that says what it is, and another one by name although the file is there.
    process = any_box.spawn([any_box.programs.confine, "wrap", "--runner", "custom", "--", "cmd"])
    assert (process.communicate()[1], process.returncode) == (
        b"confine: chain: the runner custom needs a runnerCommand\n", 125)
    assert any_box.wrap("cmd", options=(*custom, "--runner", "landlock"))["runner"] == "landlock"


def test_full_access_is_the_argv_itself(any_box):
    any_box.runner = "auto"
    wrapped = any_box.wrap("cmd", "-x", "", options=("--mode", "danger-full-access"))
    assert wrapped["argv"] == ["cmd", "-x", ""]
    assert (wrapped["runner"], wrapped["enforcement"], wrapped["gaps"]) == (None, None, [])
    assert (wrapped["denialSignatures"], wrapped["runnerFailureRules"]) == ([], [])


def test_bytes_that_are_not_utf8(box):
    wrapped = box.wrap("cmd", b"caf\xe9", "\N{SNOWMAN}")
    assert wrapped["argv"][-2:] == [{"bytes": "Y2Fm6Q=="}, "\N{SNOWMAN}"]


def refused(box, *options, form="wrap"):
    flag = box.ws / "ran"
    process = box.spawn([box.programs.confine, form, *options, "--", "touch", str(flag)])
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (125, b"")
    assert not flag.exists()
    assert err.startswith(b"confine: ") and err.count(b"\n") == 1
    return err.decode()[len("confine: "):-1]


def test_full_enforcement_is_required(box):
    gaps = box.wrap("cmd")["gaps"]
    if not gaps:
        box.wrap("cmd", options=("--require", "full"))
        return
    text = refused(box, "--runner", box.runner, "--require", "full")
    assert box.runner in text and all(gap in text for gap in gaps)


@pytest.mark.parametrize("options", [("--timeout", "3"), ("--report", "x"), ("--keep-background",), ("--no-observe",)])
def test_options_of_run_are_a_usage_error(any_box, options):
    assert options[0] in refused(any_box, *options)


SIGNATURES = "sandbox-local: runnerFailureSignatures "


@pytest.mark.parametrize("form", ["run", "wrap"])
@pytest.mark.parametrize("text, expected", [
    ("runnerFailureSignatures: ['x']", SIGNATURES + "requires runnerCommand"),
    ("runnerCommand: [/bin/sh]", "sandbox-local: runnerCommand requires at least one runnerFailureSignatures entry"),
    ("runnerCommand: [/bin/sh]\nrunnerFailureSignatures: ['x', '']",
     SIGNATURES + "entries must be non-empty single-line strings"),
    ("runnerCommand: [/bin/sh]\nrunnerFailureSignatures: [\"x\\ny\"]",
     SIGNATURES + "entries must be non-empty single-line strings"),
    ("probeTimeoutMs: 0", "sandbox-local: probeTimeoutMs must be a positive finite number (line 1, column 17)"),
    ("mode: read-only\nmodes: x", "unknown key modes; the keys are mode, workspaceRoot, writableRoots, chain, "
     "runnerCommand, runnerFailureSignatures, probeTimeoutMs (line 2, column 1)"),
])
def test_configuration_errors(any_box, form, text, expected):
    config = any_box.base / "c.yml"
    config.write_text(text)
    assert refused(any_box, "--config", str(config), form=form) == expected


def test_configuration_is_obeyed_and_outranked(any_box):
    any_box.runner = "auto"
    config = any_box.base / "c.yml"
    config.write_text("mode: read-only\nchain: [landlock]\nworkspaceRoot: ws\nwritableRoots: [reports]\n")
    options = ("--config", str(config))
    wrapped = any_box.wrap("cmd", options=options, cwd="/")
    assert (wrapped["runner"], "--root" in wrapped["argv"]) == ("landlock", False)
    wrapped = any_box.wrap("cmd", options=(*options, "--mode", "workspace-write"), cwd="/")
    roots = [word.split(":", 2)[2] for at, word in enumerate(wrapped["argv"]) if wrapped["argv"][at - 1] == "--root"]
    assert roots == [str(any_box.ws), str(any_box.reports)]


@pytest.mark.parametrize("form", ["run", "wrap"])
def test_a_configuration_that_the_call_could_write_is_refused(any_box, form):
    config = any_box.ws / "c.yml"
    config.write_text("mode: workspace-write\n")
    text = refused(any_box, "--config", str(config), form=form)
    assert str(config) in text and "writable" in text
    any_box.runner = "auto"
    any_box.wrap("true", options=("--config", str(config), "--mode", "read-only"))


def install_into(box, folder):
    shutil.copytree(box.programs.prefix, folder, symlinks=True)
    return str(folder / "bin" / "confine")


def test_a_launcher_that_the_call_could_write(box):
    """Refused by name where the launcher is started from there, read-only inside where the runner can make it so."""
    confine = install_into(box, box.ws / "prefix")
    box.who.own(*(box.ws / "prefix").rglob("*"), box.ws / "prefix")
    launcher = box.ws / "prefix" / "libexec" / "confine" / (
        "namespace-run" if box.runner == "namespace" else "landlock-run")
    before = launcher.read_bytes()
    process = box.spawn([confine, "wrap", "--runner", box.runner, "--", "sh", "-c", f"echo forged >'{launcher}'"])
    out, err = process.communicate(timeout=60)
    if box.runner == "bwrap":
        code, _, _ = spawn_by_stranger(box, json.loads(out))
        assert code != 0
    else:
        assert process.returncode == 125
        assert str(launcher) in err.decode()
    assert launcher.read_bytes() == before


def test_installed_below_tmp(box):
    """The private /tmp hides the launchers, and the host's /tmp is writable under Landlock."""
    place = f"/tmp/confine-test-{os.getpid()}-{box.who.uid}-{box.runner}"
    try:
        os.mkdir(place, 0o755)
        shutil.copytree(box.programs.prefix, f"{place}/prefix", symlinks=True)
        process = box.spawn([f"{place}/prefix/bin/confine", "wrap", "--runner", box.runner, "--", "touch", "made"])
        out, err = process.communicate(timeout=60)
        if box.runner == "landlock":
            assert process.returncode == 125 and f"{place}/prefix/libexec/confine/landlock-run" in err.decode()
            return
        code, _, err = spawn_by_stranger(box, json.loads(out))
        assert code == 0, err
        assert (box.ws / "made").exists()
    finally:
        shutil.rmtree(place, ignore_errors=True)


PRELOAD = """
#include <fcntl.h>
#include <unistd.h>
static void __attribute__((constructor)) loaded(void) {
  int fd = open("%s", O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (fd >= 0) close(fd);
}
"""


@pytest.fixture
def planted(any_box):
    """Programs and libraries of the names that confine uses, in every place a careless search would look.

    Executed outside confinement, each leaves a mark in the folder outside.
    """
    mark = any_box.outside / "executed"
    for folder in (any_box.ws, any_box.ws / "bin", any_box.ws / "libexec" / "confine", any_box.ws / "launcher"):
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("bwrap", "landlock-run", "namespace-run", "confine"):
            write_script(folder / name, f"#!/bin/sh\ntouch '{mark}'\nexit 0\n")
    source = any_box.base / "preload.c"
    source.write_text(PRELOAD % mark)
    library = any_box.ws / "preload.so"
    subprocess.run([program("gcc"), "-shared", "-fPIC", "-o", library, source], check=True)
    for name in ("libc.so.6", "libcap.so.2", "libselinux.so.1", "libconfine.so.0"):
        shutil.copy(library, any_box.ws / name)
    environment = {"PATH": f"{any_box.ws}:{any_box.ws}/bin:/usr/bin:/bin", "LD_LIBRARY_PATH": str(any_box.ws),
                   "LD_PRELOAD": str(library), "LD_AUDIT": str(library), "BASH_ENV": str(any_box.ws / "bwrap"),
                   "ENV": str(any_box.ws / "bwrap")}
    any_box.before = any_box._look()
    return environment, mark


def test_what_is_planted_would_be_executed(any_box, planted):
    """The control: without confinement the marks do appear."""
    environment, mark = planted
    any_box.spawn(["/bin/sh", "-c", "true"], environment={"LD_PRELOAD": environment["LD_PRELOAD"]}).wait(60)
    assert mark.exists()
    mark.unlink()
    any_box.spawn(["/bin/sh", "-c", "landlock-run"], environment={"PATH": environment["PATH"]}).wait(60)
    assert mark.exists()


@pytest.mark.parametrize("runner", ["auto", *RUNNERS])
def test_nothing_planted_is_executed_by_run_and_wrap(any_box, planted, runner):
    environment, mark = planted
    any_box.runner = runner
    any_box.confine("/bin/sh", "-c", "true", environment=environment)
    assert not mark.exists()
    argv = any_box.wrap("/bin/sh", "-c", "true", environment=environment)["argv"]
    assert not argv[0].startswith(str(any_box.ws))
    any_box.spawn(argv, environment=environment).wait(60)
    assert not mark.exists()
    any_box.assert_untouched()


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_nothing_planted_is_executed_by_doctor(any_box, planted, options):
    environment, mark = planted
    process = any_box.spawn([any_box.programs.confine, "doctor", *options], environment=environment)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert str(any_box.ws) not in out.decode()
    assert not mark.exists()


def test_a_bwrap_that_others_may_change_is_not_used(any_box):
    """Its directory counts as well: whoever may write there may replace it."""
    if os.getuid() != 0 or any_box.who != Who("root", 0, 0):
        pytest.skip("only root can stage this")
    script = f"""
        mount -t tmpfs tmpfs '{any_box.outside}'
        cp -a /usr/bin/. '{any_box.outside}/'
        chmod 0777 '{any_box.outside}'
        mount --bind '{any_box.outside}' /usr/bin
        '{any_box.programs.confine}' doctor --json
        chmod 0755 /usr/bin; chmod 0775 /usr/bin/bwrap
        '{any_box.programs.confine}' doctor --json
    """
    program("bwrap")
    process = any_box.spawn([program("unshare"), "-m", "sh", "-ec", script])
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    for line, culprit in zip(out.decode().splitlines(), ("/usr/bin is", "/usr/bin/bwrap is"), strict=True):
        entry = {entry["name"]: entry for entry in json.loads(line)["runners"]}["bwrap"]
        assert not entry["usable"] and culprit in entry["reason"] and "root" in entry["reason"]


def test_an_environment_is_restored_first_or_not(any_box):
    """A stream that it puts back by number could otherwise be a directory that was opened before."""
    launcher = any_box.programs.launcher("landlock-run")
    process = any_box.spawn([launcher, "--rw", str(any_box.ws), "--restore-environment", "--", "touch", "made"],
                            environment={"confine-streams": "0:3:2"})
    assert (process.wait(60), process.stderr.read()) == (
        125, b"landlock-run: usage error: unknown argument: --restore-environment\n")
    assert not (any_box.ws / "made").exists()
