"""Whatever confine refuses, it refuses before anything runs, naming the thing and the way out."""
import errno
import os

import pytest

from blackbox import ANY_BIT, CLONE_NEWNS, UNAVAILABLE, failing, hiding, together

BWRAP = ("/usr/bin/bwrap", "/usr/local/bin/bwrap")


def nothing_works():
    """No mount namespace and no Landlock: what every runner needs."""
    return together(failing("clone", errno.EPERM, (0, ANY_BIT, CLONE_NEWNS)),
                    failing("unshare", errno.EPERM, (0, ANY_BIT, CLONE_NEWNS)),
                    failing("landlock_create_ruleset", errno.EOPNOTSUPP))


@pytest.mark.parametrize("mode", ["read-only", "workspace-write"])
def test_no_runner_is_usable(any_box, mode):
    outcome = any_box.refuse(options=("--mode", mode), last=nothing_works())
    assert outcome.text == f"confine: {UNAVAILABLE.format(mode)}\n"


@pytest.mark.parametrize("form", ["run", "wrap"])
def test_no_runner_is_usable_for_wrap(any_box, form):
    process = any_box.spawn([any_box.programs.confine, form, "--", "touch", "ran"], last=nothing_works())
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (125, b"")
    assert err.decode() == f"confine: {UNAVAILABLE.format('workspace-write')}\n"
    assert not (any_box.ws / "ran").exists()


def test_the_runner_asked_for_is_not_installed(any_box):
    outcome = any_box.refuse(options=("--runner", "bwrap"), privileged=hiding(*BWRAP))
    assert outcome.text.startswith(f"confine: {UNAVAILABLE.format('workspace-write')}")
    assert "/usr/bin/bwrap" in outcome.text


def test_the_runner_asked_for_cannot_confine(box):
    """Under a name the chain is not consulted: another runner is not used instead."""
    broken = {"namespace": failing("clone", errno.EPERM, (0, ANY_BIT, CLONE_NEWNS)),
              "bwrap": failing("clone", errno.EPERM, (0, ANY_BIT, CLONE_NEWNS)),
              "landlock": failing("landlock_create_ruleset", errno.EOPNOTSUPP)}
    outcome = box.confine("touch", "ran", last=broken[box.runner])
    # bwrap says first, in words of its own, what has failed.
    lines = outcome.text.splitlines()[-1 if box.runner == "bwrap" else 0:]
    assert outcome.rc == 125 and lines[0].startswith(f"confine: {UNAVAILABLE.format('workspace-write')}"), outcome
    assert not (box.ws / "ran").exists()


def test_a_missing_inner_runner_leaves_the_others(any_box):
    outcome = any_box.confine("true", privileged=hiding(*BWRAP))
    assert outcome.rc == 0, outcome


def test_a_runner_of_another_system(any_box):
    outcome = any_box.refuse(options=("--runner", "seatbelt"))
    assert "seatbelt" in outcome.text or UNAVAILABLE.format("workspace-write") in outcome.text


@pytest.mark.parametrize("options, named", [
    (("--mode", "write"), ("--mode", "write", "read-only", "workspace-write", "danger-full-access")),
    (("--runner", "docker"), ("--runner", "docker", "namespace", "bwrap", "landlock")),
    (("--require", "partial"), ("--require", "partial", "full")),
    (("--timeout", "soon"), ("--timeout", "soon", "seconds")),
    (("--timeout", "-1"), ("--timeout", "-1", "positive")),
    (("--timeout", "0"), ("--timeout", "0", "positive")),
    (("--timeout", "nan"), ("--timeout", "nan")),
    (("--timeout", "inf"), ("--timeout", "inf")),
    (("--timeout", "1e400"), ("--timeout", "1e400")),
    (("--timeout", "5s"), ("--timeout", "5s")),
    (("--timeout", ""), ("--timeout",)),
    (("--isolate", "files"), ("--isolate", "files", "network", "process", "ipc")),
    (("--isolate", "network,"), ("--isolate", "network,")),
    (("--isolate", ""), ("--isolate",)),
    (("--isolate", "network,net"), ("--isolate", "network,net")),
    (("--modus", "read-only"), ("--modus", "--mode")),
    (("--writ", "."), ("--writ", "--write")),
    (("--timeot", "1"), ("--timeot", "--timeout")),
    (("--mode=read-only",), ("--mode=read-only", "--mode")),
    (("-w", "."), ("-w",)),
    (("--config", "missing.yaml"), ("missing.yaml", "No such file")),
    (("--config", "/etc"), ("/etc",)),
    (("--write", "missing"), ("missing", "No such file")),
    (("--write", ""), ("writable root", "empty")),
    (("--write", "/"), ("writable root", "/")),
    (("--write", "/proc/self"), ("writable root", "/proc")),
    (("--write", "/sys/kernel"), ("writable root", "/sys")),
    (("--write", "/dev/null"), ("writable root", "/dev/null")),
])
def test_a_bad_option(any_box, options, named):
    outcome = any_box.refuse(options=options)
    for words in named:
        assert words in outcome.text
    assert outcome.text.count("\n") == 1
    assert outcome.record is None


@pytest.mark.parametrize("option", ["--mode", "--workspace", "--write", "--runner", "--require", "--isolate", "--config",
                                    "--timeout", "--report"])
def test_a_missing_value(any_box, option):
    process = any_box.spawn([any_box.programs.confine, "run", option])
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (125, b"")
    assert err.startswith(b"confine: ") and f"{option} requires a value".encode() in err


@pytest.mark.parametrize("words, named", [
    ((), "no command given"),
    (("run",), "no command given"),
    (("run", "--"), "no command given"),
    (("wrap",), "no command given"),
    (("runn", "--", "true"), "unknown command runn"),
    (("--versoin",), "--versoin"),
    (("wrap", "--timeout", "3", "--", "true"), "--timeout"),
    (("wrap", "--report", "r", "--", "true"), "--report"),
    (("wrap", "--keep-background", "--", "true"), "--keep-background"),
    (("wrap", "--no-observe", "--", "true"), "--no-observe"),
    (("doctor", "--jsn"), "--json"),
])
def test_a_wrong_command_line(any_box, words, named):
    process = any_box.spawn([any_box.programs.confine, *words])
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (125, b"")
    assert err.startswith(b"confine: ") and named.encode() in err


@pytest.mark.parametrize("form", ["run", "wrap"])
@pytest.mark.parametrize("workspace, named", [
    ("/", ("whole file system",)), ("/tmp", ("/tmp",)), ("/var/tmp", ("/var/tmp",)), ("/proc", ("kernel",)),
    ("/proc/self", ("/proc",)), ("/sys", ("kernel",)), ("/sys/kernel", ("/sys/kernel",)), ("/dev", ("kernel",)),
    ("/dev/shm", ("/dev/shm",)), ("/etc/hostname", ("/etc/hostname", "not a directory")),
    ("missing", ("missing", "No such file")), ("", ("empty",)), ("/tmp/../var/tmp/", ("/var/tmp",)),
    ("link-to-tmp", ("/tmp",)),
])
def test_a_workspace_that_cannot_be_one(any_box, form, workspace, named):
    (any_box.ws / "link-to-tmp").symlink_to("/tmp")
    process = any_box.spawn([any_box.programs.confine, form, "--workspace", workspace, "--", "touch", "ran"])
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (125, b"")
    assert err.startswith(b"confine: workspace") or err.startswith(b"confine: the workspace")
    for words in named:
        assert words in err.decode()
    assert not (any_box.ws / "ran").exists()


@pytest.mark.parametrize("place", ["/", "/tmp", "/var/tmp", "/proc", "/dev"])
def test_the_current_directory_cannot_be_the_workspace(any_box, place):
    outcome = any_box.refuse(cwd=place)
    assert f"workspace {place} is refused" in outcome.text


def test_a_deleted_current_directory_cannot_be_the_workspace(any_box):
    gone = any_box.ws / "gone"
    gone.mkdir()
    outcome = any_box.refuse(cwd=gone, last=lambda: os.rmdir(gone))
    assert "workspace the current directory" in outcome.text


def test_a_workspace_that_cannot_be_entered(user_box):
    closed = user_box.base / "closed"
    (closed / "ws").mkdir(parents=True)
    closed.chmod(0)
    outcome = user_box.refuse(options=("--workspace", str(closed / "ws")))
    assert "Permission denied" in outcome.text and str(closed / "ws") in outcome.text


@pytest.mark.parametrize("place, named", [
    ("missing/record", "No such file"), ("/proc/record", "/proc/record"), (".", "directory"), ("", "empty"),
    ("fd:99", "Bad file descriptor"), ("fd:", "fd:"), ("fd:x", "fd:x"), ("fd:-1", "fd:-1"),
    ("fd:0", "reading only"), ("/etc/hostname/record", "Not a directory"), ("folder/", "folder/"),
])
def test_a_report_that_cannot_be_written(any_box, place, named):
    (any_box.ws / "folder").mkdir()
    any_box.who.own(any_box.ws / "folder")
    with open("/dev/null", "rb") as nothing:
        process = any_box.spawn([any_box.programs.confine, "run", "--report", place, "--", "touch", "ran"],
                                stdin=nothing)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (125, b"")
    assert err.startswith(b"confine: --report") and named in err.decode()
    assert not (any_box.ws / "ran").exists()


def test_a_report_in_a_folder_of_somebody_else(user_box):
    for place in ("/etc/record", "/etc/hostname"):
        outcome = user_box.refuse(options=("--report", place))
        assert place in outcome.text and "Permission denied" in outcome.text


def test_full_enforcement_is_required(box):
    """--require full runs where the record says full and refuses, with the gaps, where it says partial."""
    told = box.confine("true").record
    required = box.confine("touch", "ran", options=("--require", "full"))
    if told["enforcement"] == "full":
        assert required.rc == 0 and required.record["gaps"] == []
    else:
        assert required.rc == 125 and not (box.ws / "ran").exists()
        for gap in told["gaps"]:
            assert gap in required.text
        assert "--require full" in required.text and "doctor" in required.text


def test_full_enforcement_is_required_on_a_weaker_host(any_box):
    """Without Landlock the mount namespace alone leaves a gap."""
    without = failing("landlock_create_ruleset", errno.EOPNOTSUPP)
    options = ("--runner", "namespace")
    told = any_box.confine("true", options=options, last=without)
    if told.rc != 0:
        pytest.skip("the namespace runner is not usable here")
    assert told.record["enforcement"] == "partial" and "proc" in told.record["gaps"]
    outcome = any_box.refuse(options=(*options, "--require", "full"), last=without)
    assert "proc" in outcome.text


def test_isolation_that_a_runner_cannot_give(any_box):
    """Nothing is known of an operator's own runner; the message names one that could."""
    config = any_box.base / "confine.yaml"
    config.write_text("runnerCommand: [/usr/bin/bwrap]\nrunnerFailureSignatures: ['bwrap: ']\n")
    outcome = any_box.refuse(options=("--config", str(config), "--runner", "custom", "--isolate", "network"))
    assert "custom" in outcome.text and "network" in outcome.text and "namespace can" in outcome.text


@pytest.mark.parametrize("text, named", [
    ("mode: write\n", ("line 1", "mode")),
    ("mode: read-only\nmodus: x\n", ("line 2", "column 1", "modus")),
    ("mode: read-only\nmode: read-only\n", ("line 2", "mode")),
    ("writableRoots: /x\n", ("line 1", "writableRoots")),
    ("[", ("line",)),
    ("runnerCommand: [/bin/true]\n",
     ("sandbox-local: runnerCommand requires at least one runnerFailureSignatures entry",)),
    ("runnerFailureSignatures: [oops]\n", ("sandbox-local: runnerFailureSignatures requires runnerCommand",)),
    ("runnerCommand: [/bin/true]\nrunnerFailureSignatures: ['']\n",
     ("sandbox-local: runnerFailureSignatures entries must be non-empty single-line strings",)),
    ("probeTimeoutMs: 0\n", ("sandbox-local: probeTimeoutMs must be a positive finite number",)),
    ("chain: [docker]\n", ("docker",)),
])
def test_a_bad_configuration(any_box, text, named):
    config = any_box.base / "confine.yaml"
    config.write_text(text)
    outcome = any_box.refuse(options=("--config", str(config)))
    for words in named:
        assert words in outcome.text


def test_a_configuration_that_the_call_could_write(any_box):
    config = any_box.ws / "confine.yaml"
    config.write_text("mode: workspace-write\n")
    outcome = any_box.refuse(options=("--config", str(config)))
    assert str(config) in outcome.text and "writable" in outcome.text


def test_a_good_configuration(any_box):
    extra = any_box.base / "extra"
    extra.mkdir()
    any_box.who.own(extra)
    config = any_box.base / "confine.yaml"
    config.write_text(f"mode: workspace-write\nworkspaceRoot: {any_box.ws}\nwritableRoots: [{extra}]\n"
                      "chain: [landlock]\n")
    process = any_box.spawn([any_box.programs.confine, "run", "--config", config, "--report", any_box.reports / "r",
                             "--", "sh", "-c", f"echo x >{any_box.ws}/a; echo x >{extra}/b; echo x >{any_box.victim}"],
                            cwd="/")
    process.communicate(timeout=60)
    assert (any_box.ws / "a").exists() and (extra / "b").exists()
    any_box.assert_untouched()
