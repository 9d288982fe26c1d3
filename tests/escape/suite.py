"""Running escape-suite, and what may come of it."""
import json
import os
import subprocess
from typing import NamedTuple

from blackbox import has_entry_32

LIMIT = 280
JOBS = str(max(4, 2 * (os.cpu_count() or 1)))

# Attempts that need something of the kernel or of the attacker which not every host gives: their
# unconfined control may fail. Every other one's must succeed.
NEEDS = {
    "chmod-x32": "CONFIG_X86_X32_ABI",
    "open-x32": "CONFIG_X86_X32_ABI",
    "tiocsti-x32": "CONFIG_X86_X32_ABI",
    "timerslack": "CAP_SYS_NICE",
    "proc-init-root": "an init in the same container",
    "mptcp": "CONFIG_MPTCP",
}


def needs(technique):
    """What this host must give, and may not, for the attempt to work; or None."""
    if technique.endswith("-int80") and not has_entry_32():
        return "CONFIG_IA32_EMULATION"
    return NEEDS.get(technique)


class Technique(NamedTuple):
    id: str
    family: str
    by_design: str
    channel: str
    flags: frozenset


class Attack:
    """Runs the suite under confine; each answer is kept."""

    def __init__(self, programs):
        self.programs = programs
        self.answers = {}
        listing = subprocess.run([self.program("escape-suite"), "--list"], check=True, stdout=subprocess.PIPE)
        rows = [line.split("\t") for line in listing.stdout.decode().splitlines()]
        self.techniques = {row[0]: Technique(*(word.replace("-", "", word == "-") for word in row[:4]),
                                             frozenset(row[4].split())) for row in rows}

    def program(self, name):
        return self.programs.launcher(name)

    def words(self, runner, mode, form, options):
        prefix = [self.programs.confine, form, "--runner", runner, "--mode", "%MODE%", "--workspace", "%WS%",
                  *options, "--"]
        return [self.program("escape-suite"), "--json", "--mode", mode, "--jobs", JOBS,
                "--resolves-late" if form == "run" else "--wrap"], prefix

    def __call__(self, who, runner, mode, form="run", options=()):
        """The checks by id. The exit status must agree with them."""
        question = (who, runner, mode, form, tuple(options))
        if question not in self.answers:
            head, prefix = self.words(runner, mode, form, options)
            if os.getuid() != who.uid:
                head += ["--user", who.name]
            self.answers[question] = ask([*head, "--", *prefix])
        return self.answers[question]


def ask(words, **how):
    done = subprocess.run(words, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=LIMIT, check=False, **how)
    assert done.returncode in (0, 1), done.stderr
    checks = {check["id"]: check for check in json.loads(done.stdout)}
    assert (done.returncode == 1) == bool(escaped(checks) + not_made(checks)), done.stderr
    return checks


def escaped(checks):
    return [f"{check['id']}: {check['why']}" for check in checks.values() if check["verdict"] == "escaped"]


def opened(checks):
    return {check["id"] for check in checks.values() if check["verdict"] == "open"}


def not_made(checks):
    """Held only because nothing was started, where the launcher is not what is attacked."""
    return [f"{check['id']}: {check['why']}" for check in checks.values()
            if check["verdict"] == "held" and not check["ran"]
            and check["family"] not in ("launcher", "workspace-race")]


def without_control(checks):
    """The control was tried and did not succeed, or something went wrong in the driver."""
    excuses = ("only root can try it", "only an ordinary user has something to gain",
               "needs a writable workspace", "the workspace's name is resolved", "cannot be tried here: ")
    return [f"{check['id']}: {check['why']}" for check in checks.values()
            if check["verdict"] == "n/a" and not check["why"].startswith(excuses) and not needs(check["id"])]
