"""What is planted in the environment, the workspace or the current directory acts inside only, or not at all."""
import json
import os
import shutil
import subprocess

import pytest

from blackbox import program

# Leaves its mark wherever it is executed or loaded.
LIBRARY = """
#include <fcntl.h>
#include <unistd.h>
__attribute__((constructor)) static void mark(void) {
  int fd = open(MARKER, O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (fd >= 0) { if (write(fd, NAME "\\n", sizeof NAME) < 0) {} close(fd); }
  fd = open(INSIDE, O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (fd >= 0) close(fd);
}
int cap_get_proc(void) { return 0; }
"""
LIBRARIES = ("libcap.so.2", "libselinux.so.1", "libseccomp.so.2", "libconfine.so.0", "libjansson.so.4", "libyaml-0.so.2",
             "libnss_files.so.2", "libgcc_s.so.1")
PROGRAMS = ("bwrap", "landlock-run", "namespace-run", "confine", "sandbox-exec", "env", "useradd", "mount")


class Trap:
    """A marker that only something unconfined can make, and a folder full of planted files."""

    def __init__(self, box):
        self.box = box
        self.marker, self.inside = box.outside / "marker", box.ws / "acted"
        self.folder = box.ws / "planted"
        self.folder.mkdir()
        source = box.base / "planted.c"
        source.write_text(LIBRARY)
        self.library = self.folder / "planted.so"
        subprocess.run([program("gcc"), "-shared", "-fPIC", f'-DMARKER="{self.marker}"', f'-DINSIDE="{self.inside}"',
                        '-DNAME="library"', "-o", self.library, source], check=True)
        for name in LIBRARIES:
            shutil.copy(self.library, self.folder / name)
        for name in PROGRAMS:
            planted = self.folder / name
            planted.write_text(f"#!/bin/sh\necho {name} >>{self.marker}\n: >{self.inside}\n"
                               'case $0 in *env) exec /usr/bin/env "$@" ;; esac\nexit 1\n')
            planted.chmod(0o755)
        self.script = self.folder / "script"
        self.script.write_text(f"echo script >>{self.marker}\n: >{self.inside}\n")
        for path in (self.folder, *self.folder.iterdir()):
            box.who.own(path)

    def assert_not_sprung(self):
        assert not self.marker.exists(), self.marker.read_text()


@pytest.fixture
def trap(box):
    return Trap(box)


def environments(trap):
    folder = str(trap.folder)
    return {
        "PATH": {"PATH": f"{folder}:.:{os.defpath}"},
        "LD_PRELOAD": {"LD_PRELOAD": str(trap.library)},
        "LD_LIBRARY_PATH": {"LD_LIBRARY_PATH": folder},
        "LD_AUDIT": {"LD_AUDIT": str(trap.library)},
        "shell": {"BASH_ENV": str(trap.script), "ENV": str(trap.script)},
        "confine": {"CONFINE_PREFIX": folder, "CONFINE_BIN": f"{folder}/confine", "LANDLOCK_RUN": f"{folder}/landlock-run",
                    "NAMESPACE_RUN": f"{folder}/namespace-run", "BWRAP": f"{folder}/bwrap", "HOME": folder,
                    "XDG_CONFIG_HOME": folder, "XDG_DATA_DIRS": folder, "CONFINE_LAUNCHERS": folder},
        "other": {"GCONV_PATH": folder, "NODE_OPTIONS": f"--require {trap.script}", "PYTHONPATH": folder, "TMPDIR": folder,
                  "LOCPATH": folder, "NIS_PATH": folder, "MALLOC_TRACE": str(trap.marker), "LD_DEBUG": "all",
                  "LD_DEBUG_OUTPUT": str(trap.marker), "LD_PROFILE": "libc.so.6", "LD_PROFILE_OUTPUT": str(trap.box.outside)},
    }


def test_run_and_wrap(box, form, trap):
    for kind, environment in environments(trap).items():
        outcome = box.confine("/bin/true", form=form, environment=environment, cwd=trap.folder,
                              options=("--workspace", str(box.ws)))
        assert outcome.rc == 0, (kind, outcome)
        trap.assert_not_sprung()
        box.assert_untouched()


def test_doctor(any_box):
    trap = Trap(any_box)
    for kind, environment in environments(trap).items():
        process = any_box.spawn([any_box.programs.confine, "doctor", "--json"], environment=environment,
                                cwd=trap.folder)
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 0 and out.startswith(b"{"), kind
        trap.assert_not_sprung()
        any_box.assert_untouched()


def test_loader_variables_act_inside(box, form, trap):
    """They are the command's: there they do what they say."""
    for environment, words in (({"LD_PRELOAD": str(trap.library)}, ["/bin/true"]),
                               ({"BASH_ENV": str(trap.script)}, ["bash", "-c", "true"]),
                               ({"PATH": str(trap.folder)}, ["bwrap"])):
        box.confine(*words, form=form, environment=environment)
        assert trap.inside.exists(), environment
        trap.inside.unlink()
        trap.assert_not_sprung()


def test_the_trap_works(box, trap):
    """The unconfined control: every kind of planted thing leaves its mark."""
    for environment, words in (({"LD_PRELOAD": str(trap.library)}, ["/bin/true"]),
                               ({"LD_AUDIT": str(trap.library)}, ["/bin/true"]),
                               ({"LD_LIBRARY_PATH": str(trap.folder)}, ["/bin/ls"]),
                               ({"BASH_ENV": str(trap.script)}, ["bash", "-c", "true"]),
                               ({"PATH": f"{trap.folder}:{os.defpath}"}, ["sh", "-c", "bwrap"])):
        box.spawn(words, environment=environment).communicate(timeout=20)
        assert trap.marker.exists(), environment
        trap.marker.unlink()


def test_a_planted_program_in_the_launchers_folder_of_another_prefix(box, trap):
    """confine started by a link or a relative name still finds its own launchers, never those beside the link."""
    (box.ws / "bin").mkdir()
    libexec = box.ws / "libexec" / "confine"
    libexec.mkdir(parents=True)
    for name in ("landlock-run", "namespace-run"):
        shutil.copy(trap.folder / name, libexec / name)
    (box.ws / "bin" / "confine").symlink_to(box.programs.confine)
    words = [str(box.ws / "bin" / "confine"), "run", "--runner", box.runner, "--", "/bin/true"]
    process = box.spawn(words)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 0, err
    trap.assert_not_sprung()


def test_a_runner_that_the_call_could_write_is_refused(box):
    """A copy of the installation inside the workspace: its launchers decide about the call."""
    copy = box.ws / "copy"
    shutil.copytree(box.programs.prefix, copy)
    process = box.spawn([str(copy / "bin" / "confine"), "wrap", "--runner", box.runner, "--", "true"])
    _, err = process.communicate(timeout=20)
    if box.runner == "bwrap":
        # landlock-run is bound read-only over itself there.
        assert process.returncode in (0, 125)
    else:
        assert process.returncode == 125 and b"writable" in err and str(copy).encode() in err, err


def test_an_installation_below_tmp(box, form, tmp_places):
    """The launchers are found although the command's /tmp is another one."""
    prefix = tmp_places / "prefix"
    shutil.copytree(box.programs.prefix, prefix)
    argv = [str(prefix / "bin" / "confine"), form, "--runner", box.runner, "--", "sh", "-c", "echo x >in; exit 3"]
    process = box.spawn(argv)
    out, err = process.communicate(timeout=20)
    if form == "wrap":
        if box.runner == "landlock":
            assert process.returncode == 125 and b"writable" in err
            return
        assert process.returncode == 0, err
        process = box.spawn(json.loads(out)["argv"])
        _, err = process.communicate(timeout=20)
    assert process.returncode == 3, err
    assert (box.ws / "in").exists()
