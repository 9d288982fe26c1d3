"""confine learn: with the options it prints the same command succeeds, and they allow no more than that."""
import json
import os
import stat
import subprocess

import pytest

from blackbox import HANG, program

PYTHON = "/usr/bin/python3"


class Lesson:
    """What confine learn did and printed."""

    def __init__(self, box, words, options=(), **how):
        self.box = box
        start = [box.programs.confine, "learn", "--runner", box.runner or "auto", *options, "--", *map(str, words)]
        process = box.spawn(start, **how)
        self.out, self.err = process.communicate(timeout=HANG)
        self.rc = process.returncode

    @property
    def json(self):
        return json.loads(self.out.splitlines()[-1])


def learn(box, *words, options=(), **how):
    """The report as JSON, checked for what holds of all."""
    lesson = Lesson(box, words, ("--json", *options), **how)
    report = lesson.json
    assert report["schema"] == "confine.learn/1"
    assert report["exitStatus"] == lesson.rc
    for root in report["roots"]:
        assert root["wanted"], root
    return report


def roots(report):
    return {root["path"]: root["allowedBy"] for root in report["roots"]}


def again(box, report, *words, **how):
    """Runs the same with the options that were printed: nothing may be refused."""
    outcome = box.confine(*map(str, words), options=report["options"], **how)
    assert outcome.rc == 0, outcome
    assert outcome.record["denialEvidence"] == "observer"
    assert outcome.record["denials"] == []
    return outcome


def own(box, folder):
    for top, folders, files in os.walk(folder):
        box.who.own(top, *(os.path.join(top, name) for name in folders + files))


# Whole programs.


@pytest.fixture
def package(box):
    """A workspace with a dependency that npm unpacks through its cache."""
    source = box.base / "source" / "package"
    source.mkdir(parents=True)
    (source / "package.json").write_text('{"name": "dependency", "version": "1.0.0"}')
    (source / "index.js").write_text("module.exports = 1\n")
    subprocess.run(["tar", "-czf", box.base / "dependency.tgz", "-C", source.parent, "package"], check=True)
    (box.ws / "package.json").write_text('{"name": "here", "version": "1.0.0", '
                                         '"dependencies": {"dependency": "file:../dependency.tgz"}}')
    own(box, box.ws)
    return [program("npm"), "install", "--offline", "--no-audit", "--no-fund", "--no-update-notifier"]


def test_npm_install(box, package):
    cache = box.outside / "npm-cache"
    cache.mkdir()
    box.who.own(cache)
    environment = {"npm_config_cache": str(cache)}
    report = learn(box, *package, environment=environment)
    assert roots(report) == {str(cache): "write"}
    again(box, report, *package, environment=environment)
    assert (box.ws / "node_modules" / "dependency" / "index.js").exists()
    assert any(cache.rglob("*"))


def test_npm_install_for_the_first_time(box, package):
    """Without its cache npm makes it in the home directory, which is what that needs."""
    report = learn(box, *package)
    assert roots(report) == {str(box.home): "write"}
    assert {wanted["op"] for wanted in report["roots"][0]["wanted"]} == {"mkdir"}
    again(box, report, *package)
    assert (box.home / ".npm").is_dir()


CARGO = """
set -e
cargo=$HOME/.cargo
mkdir -p "$cargo/registry/index" "$cargo/registry/cache"
: >"$cargo/.package-cache"
chmod 644 "$cargo/.package-cache"
echo crate >"$cargo/registry/cache/.a.crate.tmp"
mv "$cargo/registry/cache/.a.crate.tmp" "$cargo/registry/cache/a.crate"
ln "$cargo/registry/cache/a.crate" "$cargo/registry/cache/b.crate"
touch "$cargo/registry/index/.last-updated"
mkdir -p target/debug
cp "$cargo/registry/cache/a.crate" target/debug/
"""


def test_a_build_with_a_cache_like_cargo(box):
    cargo = box.home / ".cargo"
    (cargo / "bin").mkdir(parents=True)
    own(box, box.home)
    report = learn(box, "sh", "-c", CARGO)
    assert report["exitStatus"] != 0
    assert roots(report) == {str(cargo): "write"}
    again(box, report, "sh", "-c", CARGO)
    assert (box.ws / "target/debug/a.crate").exists()


PIP = """
import os, sys, tempfile
cache = os.path.expanduser('~/.cache/pip')
for name in ('http', 'wheels', 'selfcheck'):
    try:
        folder = os.path.join(cache, name)
        os.makedirs(folder, exist_ok=True)
        fd, path = tempfile.mkstemp(dir=folder)
        os.write(fd, b'x'); os.fchmod(fd, 0o644); os.close(fd)
        os.replace(path, os.path.join(folder, 'entry'))
        os.utime(os.path.join(folder, 'entry'))
    except OSError as error:
        print('WARNING: the cache is disabled:', error, file=sys.stderr)
os.makedirs('site/package', exist_ok=True)
open('site/package/__init__.py', 'w').close()
"""


def test_an_installer_that_only_warns_like_pip(box):
    """It succeeds in any case; what was refused is told all the same."""
    cache = box.home / ".cache" / "pip"
    cache.mkdir(parents=True)
    own(box, box.home)
    report = learn(box, PYTHON, "-c", PIP)
    assert report["exitStatus"] == 0
    assert roots(report) == {str(cache): "write"}
    assert [wanted["path"] for wanted in report["roots"][0]["wanted"]] == [
        f"{cache}/{name}" for name in ("http", "wheels", "selfcheck")]
    outcome = again(box, report, PYTHON, "-c", PIP)
    assert outcome.err == b""
    assert (cache / "wheels" / "entry").exists()


MAKEFILE = """
install:
\tinstall -d $(PREFIX)/bin $(PREFIX)/share/man
\tinstall -m 755 tool $(PREFIX)/bin/tool
\tinstall -m 644 tool.1 $(PREFIX)/share/man/
\tln -sf tool $(PREFIX)/bin/tool-link
"""


def test_make_install(box):
    make, prefix = program("make"), box.outside / "prefix"
    prefix.mkdir()
    for name, text in ("Makefile", MAKEFILE), ("tool", "#!/bin/sh\n"), ("tool.1", ".TH\n"):
        (box.ws / name).write_text(text)
    own(box, box.ws)
    box.who.own(prefix)
    words = (make, "install", f"PREFIX={prefix}")
    report = learn(box, *words)
    assert report["exitStatus"] == 2
    assert roots(report) == {str(prefix): "write"}
    again(box, report, *words)
    again(box, report, *words)  # over what is there
    assert stat.S_IMODE((prefix / "bin" / "tool").stat().st_mode) == 0o755


# What is advised.


def test_a_file_is_not_widened_to_its_directory(box):
    for name in ("a", "b", "c"):
        (box.outside / name).write_text("v\n")
    own(box, box.outside)
    script = 'cd "$1"; echo x >a; truncate -s 0 b; chmod 600 c; touch -d 2001-01-01 c; true'
    report = learn(box, "sh", "-c", script, "sh", box.outside)
    assert roots(report) == {f"{box.outside}/{name}": "write" for name in ("a", "b", "c")}
    assert {root["kind"] for root in report["roots"]} == {"file"}
    again(box, report, "sh", "-c", script, "sh", box.outside)
    assert (box.outside / "a").read_text() == "x\n"


def test_paths_come_together_only_where_the_directory_is_needed(box):
    for name in ("one", "two", "two/deep", "three"):
        (box.outside / name).mkdir()
    (box.outside / "three" / "f").write_text("v\n")
    own(box, box.outside)
    script = 'cd "$1"; echo >one/new; echo >two/deep/new; mkdir two/made; echo x >three/f; true'
    report = learn(box, "sh", "-c", script, "sh", box.outside)
    assert roots(report) == {f"{box.outside}/{name}": "write" for name in ("one", "two", "three/f")}
    by_path = {root["path"]: {wanted["path"] for wanted in root["wanted"]} for root in report["roots"]}
    assert by_path[f"{box.outside}/two"] == {f"{box.outside}/two/deep/new", f"{box.outside}/two/made"}
    again(box, report, "sh", "-c", script, "sh", box.outside)


def test_every_operation_on_a_name_needs_its_directory(box):
    for name in ("f", "g", "h"):
        (box.outside / name).write_text("v\n")
    (box.outside / "d").mkdir()
    own(box, box.outside)
    scripts = ["rm f", "mv g g.new", "ln h h.new", "ln -s x l", "mkfifo p", "rmdir d",
               f"{PYTHON} -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"s\")'",
               f"{PYTHON} -c 'import os; os.open(\".\", os.O_TMPFILE | os.O_RDWR)'"]
    for script in scripts:
        script = f'cd "$1" && {script}'
        report = learn(box, "sh", "-c", script, "sh", box.outside)
        assert roots(report) == {str(box.outside): "write"}, script
        again(box, report, "sh", "-c", script, "sh", box.outside)


def test_what_no_option_allows(box):
    paths = ["/proc/self/oom_score_adj", "/confine-test-new"]
    if box.who.uid != 0:
        paths = paths[:1]
    report = learn(box, "sh", "-c", 'for path do echo 500 2>/dev/null >"$path"; done; true', "sh", *paths)
    assert (report["roots"], report["options"], report["configuration"]) == ([], [], "")
    assert len(report["notAllowable"]) == len(paths)
    for refused in report["notAllowable"]:
        assert "is refused: " in refused["why"], refused
    lesson = Lesson(box, ["sh", "-c", 'echo 500 2>/dev/null >/proc/self/oom_score_adj'])
    assert b"No option allows:\n" in lesson.out and b"Options that allow it" not in lesson.out


def test_what_would_expose_the_configuration(box):
    """The library's own refusal is the reason."""
    config = box.outside / "confine.yaml"
    config.write_text("mode: workspace-write\n")
    box.who.own(config)
    report = learn(box, "sh", "-c", 'echo >"$1/new"; echo x >"$1/victim"', "sh", box.outside, options=("--config", str(config)))
    assert roots(report) == {str(box.victim): "write"}
    (refused,) = report["notAllowable"]
    assert refused["path"] == f"{box.outside}/new" and str(config) in refused["why"]


def test_read_only_mode(box):
    script = 'touch here "$1/new"; echo x >"$1/victim"; true'
    report = learn(box, "sh", "-c", script, "sh", box.outside, options=("--mode", "read-only"))
    assert roots(report) == {str(box.ws): "mode", str(box.outside): "write"}
    assert report["options"] == ["--mode", "workspace-write", "--write", str(box.outside)]
    assert report["configuration"].startswith("mode: workspace-write\n")
    again(box, report, "sh", "-c", script, "sh", box.outside)


def test_the_temporary_area_in_read_only_mode(box):
    report = learn(box, "sh", "-c", "echo x >/tmp/confine-learn-test; true", options=("--mode", "read-only"))
    assert roots(report) == {"/tmp": "mode"}
    assert report["options"] == ["--mode", "workspace-write"]
    again(box, report, "sh", "-c", "rm -f /tmp/confine-learn-test; echo x >/tmp/confine-learn-test && rm /tmp/confine-learn-test")


ODD = ["with space", "quote's", 'double"', "new\nline", "$(id)", "back\\slash", "*", "esc\x1b[31m", "ü", "c1\x85x", "-x:#y",
       "line \u2028 end", "mark\ufeff", "none\uffff", os.fsdecode(b"bytes\xff\xfe")]


def test_odd_names_for_a_shell_and_for_yaml(box):
    """The printed options line is given to a shell, the printed lines to --config, as they are."""
    folders = [box.outside / name for name in ODD]
    for folder in folders:
        folder.mkdir()
    own(box, box.outside)
    script = 'for folder do mkdir "$folder/made" 2>/dev/null; rmdir "$folder/made" 2>/dev/null; done; true'
    words = ["sh", "-c", script, "sh", *(os.fsencode(folder) for folder in folders)]
    start = [box.programs.confine, "learn", "--runner", box.runner, "--", *words]
    process = box.spawn(start)
    out, err = process.communicate(timeout=HANG)
    assert err == b""
    assert not set(out) - {*range(32, 127), 10, *"ü\u2028\ufeff\uffff".encode()}, "fit for a terminal"
    options = out.split(b"Options that allow it:\n", 1)[1].split(b"\n\n", 1)[0]
    report = box.report_path()
    line = b'exec "$0" run --runner "$1" --report "$2" ' + options + b' -- "${@:3}"'
    process = box.spawn(["bash", "-c", line, box.programs.confine, box.runner, report, *words])
    process.communicate(timeout=HANG)
    assert json.loads(report.read_text())["denials"] == []

    config = box.base / "learned.yaml"
    config.write_bytes(out.split(b"confine-policy(5):\n", 1)[1])
    assert b"# Not here: 1 whose names are not UTF-8" in config.read_bytes()
    outcome = box.confine(*words, options=("--config", str(config)))
    assert [entry["path"] for entry in outcome.record["denials"]] == [{"bytes": outcome.record["denials"][0]["path"]["bytes"]}]


def test_json_options_of_a_name_that_is_not_utf8(any_box):
    folder = os.fsencode(any_box.outside) + b"/\xff"
    os.mkdir(folder)
    any_box.who.own(folder)
    process = any_box.spawn([any_box.programs.confine, "learn", "--json", "--", "mkdir", folder + b"/x"])
    out, _ = process.communicate(timeout=HANG)
    report = json.loads(out)
    assert report["options"][0] == "--write" and set(report["options"][1]) == {"bytes"}


# As run does.


@pytest.mark.parametrize("script, status", [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("exit 125", 125)])
def test_the_exit_status_is_the_commands(box, script, status):
    lesson = Lesson(box, ["sh", "-c", f"echo out; echo err >&2; {script}"])
    assert (lesson.rc, lesson.err) == (status, b"err\n")
    assert lesson.out == b"out\n\nconfine learn: no write was refused\n"


def test_a_command_that_is_not_there(any_box):
    lesson = Lesson(any_box, ["no-such-command"])
    assert (lesson.rc, lesson.out, lesson.err) == (127, b"", b"confine: no-such-command: command not found\n")
    assert learn(any_box, "no-such-command")["exitStatus"] == 127


def test_a_time_limit(any_box):
    report = learn(any_box, "sleep", "60", options=("--timeout", "0.2"))
    assert report["exitStatus"] == 124


def test_the_record_is_written_too(box):
    record = box.report_path()
    report = learn(box, "touch", box.outside / "new", options=("--report", str(record)))
    written = json.loads(record.read_text())
    assert [entry["path"] for entry in written["denials"]] == [f"{box.outside}/new"]
    assert roots(report) == {str(box.outside): "write"}
    box.assert_untouched()


@pytest.mark.parametrize("options, why", [
    (("--no-observe",), b"--no-observe was given"),
    (("--mode", "danger-full-access"), b"nothing is refused in mode danger-full-access"),
])
def test_it_says_that_nobody_watched(any_box, options, why):
    lesson = Lesson(any_box, ["true"], options)
    assert lesson.out == b"\nconfine learn: what was refused is not known: " + why + b"\n"
    assert learn(any_box, "true", options=options)["denialEvidence"] == "none"


def test_it_says_that_no_observer_can_be_had(box):
    """Inside another sandbox that holds the only listener."""
    outcome = box.confine(box.programs.confine, "learn", "--", "touch", box.outside / "new")
    assert b"what was refused is not known: no observer can be had here" in outcome.out


def test_it_says_how_many_were_not_kept(box):
    script = ("import os, sys\nfor i in range(300):\n    try: os.mkdir('%s/%d' % (sys.argv[1], i))\n"
              "    except OSError: pass\n")
    lesson = Lesson(box, [PYTHON, "-c", script, box.outside])
    assert b"\n44 further refusals are not listed: allow these, and learn again\n" in lesson.out
    report = learn(box, PYTHON, "-c", script, box.outside)
    assert (report["denialsDropped"], len(report["roots"][0]["wanted"])) == (44, 256)


def test_nothing_is_allowed_for_the_sake_of_learning(box):
    lesson = Lesson(box, ["sh", "-c", 'rm -rf "$1"/*; echo x >"$1/new"', "sh", box.outside])
    assert lesson.rc != 0
    box.assert_untouched()


def test_output_that_cannot_be_written(any_box):
    with open("/dev/full", "w") as full:
        process = any_box.spawn([any_box.programs.confine, "learn", "--", "true"], stdout=full)
        _, err = process.communicate(timeout=HANG)
    assert (process.returncode, err) == (125, b"confine: standard output: No space left on device\n")


def test_refused_options(any_box):
    for command in ("run", "wrap"):
        process = any_box.spawn([any_box.programs.confine, command, "--json", "--", "true"])
        _, err = process.communicate(timeout=HANG)
        assert process.returncode == 125 and b"unknown option --json" in err
    lesson = Lesson(any_box, ["touch", any_box.ws / "ran"], ("--workspace", "/"))
    assert (lesson.rc, lesson.out) == (125, b"")
    assert not (any_box.ws / "ran").exists()
