"""Other sandboxes from npm, to measure beside ours: installed for one run of the benches and removed after it."""
import atexit
import json
import shutil
import subprocess
import tempfile
from pathlib import Path

from measure import LIMIT

PACKAGES = ["@anthropic-ai/sandbox-runtime", "@openai/codex", "@deepseek-ai/node-addon-landlock-run"]
_place = None


def _install(bench):
    """The folder with the packages, or None."""
    global _place
    if _place is None:
        _place = Path(tempfile.mkdtemp(prefix="confine-peers.", dir="/var/tmp"))
        atexit.register(shutil.rmtree, _place, ignore_errors=True)
        _place.chmod(0o755)
        if not shutil.which("npm"):
            bench.note("peers: npm is not installed")
            return _place
        done = subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", str(_place), *PACKAGES],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT,
                              check=False)
        if done.returncode != 0:
            bench.note(f"peers: npm install ended with {done.returncode}: {done.stdout.decode(errors='replace')[-200:]}")
    return _place


def _version(place, package):
    manifest = place / "node_modules" / package / "package.json"
    return json.loads(manifest.read_text())["version"] if manifest.exists() else None


def _sandbox_runtime(place):
    def prefix(folder):
        settings = place / f"srt-{folder.name}.json"
        settings.write_text(json.dumps({"network": {"allowedDomains": [], "deniedDomains": []},
                                        "filesystem": {"denyRead": [], "allowWrite": [str(folder)], "denyWrite": []}}))
        return [str(place / "node_modules/.bin/srt"), "--settings", str(settings), "--"]
    return prefix


def _codex(place, who):
    home = place / f"home-{who.name}"
    home.mkdir(exist_ok=True)
    who.give(home)
    return lambda folder: ["env", f"HOME={home}", str(place / "node_modules/.bin/codex"), "sandbox", "-c",
                           'sandbox_mode="workspace-write"', "--"]


def _reference_launcher(place):
    found = next(place.glob("node_modules/@deepseek-ai/node-addon-landlock-run-linux-*/bin/landlock-run"), None)
    if not found:
        return None
    return lambda folder: [str(found), "--ro", "/", "--rw", "/dev/null", "--rw", "/tmp", "--rw", str(folder), "--"]


def prefixes(bench, who):
    """{name: function of the folder, giving the words before a command} of those that run here."""
    place = _install(bench)
    folder = bench.folder(who, "peers")
    missing = [name for name in ("rg", "socat", "bwrap") if not shutil.which(name)]
    known = {"reference launcher": (PACKAGES[2], _reference_launcher(place)),
             "codex": (PACKAGES[1], _codex(place, who)), "sandbox-runtime": (PACKAGES[0], _sandbox_runtime(place))}
    found = {}
    for name, (package, prefix) in known.items():
        version = _version(place, package)
        if not version or not prefix:
            bench.note(f"peers: {package} could not be installed")
        elif name == "sandbox-runtime" and missing:
            bench.note(f"peers: sandbox-runtime {version} needs {', '.join(missing)} (Debian: ripgrep, socat, bubblewrap)")
        elif bench.usable(who, folder, prefix(folder) + ["/bin/true"]):
            found[name] = prefix
            bench.note(f"peers: {name} is {package} {version}")
    return found

