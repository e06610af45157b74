"""Is this checkout's environment there, complete and exactly as locked? If not, make it so.

Called by every `make` target through `tools/bootstrap`. Needs Python 3.11, and
pip or ensurepip. Packages come from the registry that the user's own pip and
uv settings name, and every one of them is checked against its locked hash. A
second run compares one digest and is done. Nothing outside the checkout is
changed, except that root on a Debian without ensurepip gets python3-venv.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
BUILD = ROOT / ".build"
TOOLS = BUILD / "tools"
STAMP = VENV / ".complete"
INTERRUPTED = 130
LOCK = ROOT / "requirements.lock"
UV_LOCK = ROOT / "tools" / "uv.lock.txt"
BUILD_LOCK = ROOT / "tools" / "build.lock.txt"

PIP_TO_UV = {
    "index-url": "UV_DEFAULT_INDEX",
    "find-links": "UV_FIND_LINKS",
    "cert": "SSL_CERT_FILE",
    "trusted-host": "UV_INSECURE_HOST",
    "proxy": "ALL_PROXY",
    "timeout": "UV_HTTP_TIMEOUT",
    "default-timeout": "UV_HTTP_TIMEOUT",
}

NO_PIP = """\
Python is here, but it has neither pip nor ensurepip, so nothing can be installed.
On Debian and Ubuntu: apt install python3-venv
Then run the same command again."""


class CannotInstall(Exception):
    """The environment cannot be made; the sentence says what to do."""


def main() -> int:
    """Make the environment if it is not complete; return the exit code."""
    wanted = digest()
    if is_complete(wanted):
        return 0
    BUILD.mkdir(exist_ok=True)
    try:
        with (BUILD / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # two makes at once: the second waits and finds it done
            if not is_complete(wanted):
                install(wanted)
    except CannotInstall as reason:
        print(reason, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        say("interrupted; the next make goes on from here")
        return INTERRUPTED
    return 0


def digest() -> str:
    """Return a digest of everything that decides what the environment holds, and where it lies."""
    summed = hashlib.sha256(f"{ROOT}\0{sys.version}\0".encode())
    for path in (LOCK, UV_LOCK, BUILD_LOCK, ROOT / "pyproject.toml", Path(__file__)):
        summed.update(path.read_bytes() + b"\0")
    return summed.hexdigest()


def is_complete(wanted: str) -> bool:
    """Return whether the environment was finished from the same locks by the same Python in this place."""
    return STAMP.is_file() and STAMP.read_text(encoding="ascii") == wanted and PYTHON.exists()


def install(wanted: str) -> None:
    """Install the locked packages and Maia itself, and leave the stamp last."""
    say("setting up .venv (a minute or two, the first time only)")
    STAMP.unlink(missing_ok=True)
    pip = find_pip()
    uv = find_uv(pip)
    if uv is None or not install_with_uv(uv, environment_for_uv(pip)):
        if pip is None:
            raise CannotInstall("the locked packages could not be installed; the messages above say why")
        say("going on with pip, which is slower")
        install_with_pip(pip)
    compile_packages()
    STAMP.write_text(wanted, encoding="ascii")
    say("ready")


# ---------------------------------------------------------------- with uv


def find_uv(pip: list[str] | None) -> list[str] | None:
    """Return the command of the pinned uv, fetched if need be, or else any uv on the path, or None."""
    pinned = TOOLS / "uv" / "bin" / "uv"
    stamp = TOOLS / "uv" / ".from"
    locked = hashlib.sha256(UV_LOCK.read_bytes()).hexdigest()
    if pip and not (pinned.exists() and stamp.is_file() and stamp.read_text(encoding="ascii") == locked):
        shutil.rmtree(TOOLS / "uv", ignore_errors=True)
        fetched = run(
            [*pip, "install", "-q", "--require-hashes", "--target", str(TOOLS / "uv"), "-r", str(UV_LOCK)]
        )
        if fetched:
            stamp.write_text(locked, encoding="ascii")
    if pinned.exists():
        return [str(pinned)]
    elsewhere = shutil.which("uv")
    return [elsewhere] if elsewhere else None


def install_with_uv(uv: list[str], environment: Mapping[str, str]) -> bool:
    """Make the environment equal to the lock. Return whether that worked."""
    fresh = ["-q", "--clear", "--python", sys.executable, str(VENV)]
    to_venv = ["--python", str(PYTHON)]
    hashed = ["--require-hashes", "--build-constraints", str(BUILD_LOCK)]
    editable = ["--no-deps", "--no-build-isolation", "--editable", str(ROOT)]
    return (
        (is_usable(PYTHON) or run([*uv, "venv", *fresh], environment))
        and run([*uv, "pip", "sync", "-q", *to_venv, *hashed, str(LOCK)], environment)
        and run([*uv, "pip", "install", "-q", *to_venv, *editable], environment)
    )


def environment_for_uv(pip: list[str] | None) -> dict[str, str]:
    """Return the environment in which uv reads from the registry that pip is set up for.

    uv does not read pip's settings, so we hand them on, unless the user has
    told uv something else. Every hash is locked, so any index may serve a file.
    """
    given = dict(os.environ)
    settings = pip_settings(pip)
    handed_on = {name: settings[option] for option, name in PIP_TO_UV.items() if option in settings}
    if "UV_INDEX_URL" in given:  # the older name for the same thing
        handed_on.pop("UV_DEFAULT_INDEX", None)
    remote = [url for url in settings.get("extra-index-url", "").split() if url.startswith("http")]
    if remote:
        handed_on |= {"UV_INDEX": " ".join(remote), "UV_INDEX_STRATEGY": "unsafe-best-match"}
    home = Path(given.get("HOME") or "/nonexistent")
    if not is_writable(Path(given.get("XDG_CACHE_HOME") or home / ".cache")):
        handed_on["UV_CACHE_DIR"] = str(BUILD / "uv-cache")
    return {**handed_on, **given}


def pip_settings(pip: list[str] | None) -> dict[str, str]:
    """Return pip's settings by option, from its files and its environment variables."""
    if pip is None:
        return {}
    listed = subprocess.run([*pip, "config", "list"], capture_output=True, text=True, check=False).stdout
    settings = {}
    for line in listed.splitlines():
        name, _, value = line.partition("=")
        # Later lines win: pip prints its files in order of rank, with the environment among them.
        settings[name.rpartition(".")[2]] = value.strip("'\"").replace("\\n", " ")
    return settings


def is_writable(folder: Path) -> bool:
    """Return whether we may write into `folder`, or could make it."""
    existing = folder
    while not existing.exists():
        existing = existing.parent
    return os.access(existing, os.W_OK)


# ---------------------------------------------------------------- with pip


def find_pip() -> list[str] | None:
    """Return a command that runs pip, in a private environment if this Python has none, or None."""
    private = TOOLS / "pip" / "bin" / "python"
    if not has_pip(private) and has("ensurepip"):
        shutil.rmtree(TOOLS / "pip", ignore_errors=True)
        run([sys.executable, "-m", "venv", str(TOOLS / "pip")])
    if has_pip(private):
        return [str(private), "-m", "pip"]
    if has("pip"):
        return [sys.executable, "-m", "pip"]
    if os.geteuid() == 0 and shutil.which("apt-get") and not has("ensurepip"):
        say("this Python has no ensurepip; installing Debian's python3-venv")
        run(["apt-get", "install", "-y", "-qq", "python3-venv"])
        importlib.invalidate_caches()
        if has("ensurepip"):
            return find_pip()
    if shutil.which("uv"):
        return None
    raise CannotInstall(NO_PIP)


def install_with_pip(pip: list[str]) -> None:
    """Make the environment from the lock with pip alone."""
    if not is_usable(PYTHON):
        shutil.rmtree(VENV, ignore_errors=True)
        run([sys.executable, "-m", "venv", "--without-pip", str(VENV)])
    into = [*pip, "--python", str(PYTHON), "install", "-q"]
    editable = ["--no-deps", "--no-build-isolation", "--editable", str(ROOT)]
    if not (run([*into, "--require-hashes", "-r", str(LOCK)]) and run([*into, *editable])):
        raise CannotInstall("the locked packages could not be installed; the messages above say why")


# ---------------------------------------------------------------- small steps


def compile_packages() -> None:
    """Compile what was installed and our own modules, once and for all.

    uv leaves that to the processes that import it, and where the environment
    tells those not to write (PYTHONDONTWRITEBYTECODE), each would compile
    pandas again. What does not compile is nothing that we import. Ours are
    compiled so that the first `make demo` is as quick as the second.
    """
    run([str(PYTHON), "-m", "compileall", "-qq", "-j", "0", str(VENV / "lib"), str(ROOT / "src")])


def has(module: str) -> bool:
    """Return whether this Python has `module`; an empty folder of that name does not count."""
    found = importlib.util.find_spec(module)
    return found is not None and found.origin is not None


def is_usable(python: Path) -> bool:
    """Return whether `python` runs and is of our own version."""
    if not python.exists():
        return False
    asked = [str(python), "-c", "import sys; print(sys.version)"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip() == sys.version


def has_pip(python: Path) -> bool:
    """Return whether `python` has pip; one whose making was interrupted runs, and has none."""
    asked = [str(python), "-m", "pip", "--version"]
    return is_usable(python) and not subprocess.run(asked, capture_output=True, check=False).returncode


def run(command: list[str], environment: Mapping[str, str] | None = None) -> bool:
    """Run `command` without input, its messages on our stderr. Return whether it succeeded."""
    done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, stdout=sys.stderr, env=environment)
    return done.returncode == 0


def say(what: str) -> None:
    """Tell the person who waits."""
    print(f"maia: {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
