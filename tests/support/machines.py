"""Processes as on a machine of their own: another account, another `/tmp`, and folders that are shared."""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import stat
import subprocess
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

__all__ = ["ACCOUNT", "apart", "why_not_apart"]

ACCOUNT = "nobody"
_STASH = "/mnt"


@cache
def why_not_apart() -> str:
    """Return why this process cannot start others so; nothing, if it can."""
    if os.geteuid() != 0:
        return "only root gives a process an account and a mount namespace of its own"
    if any(shutil.which(one) is None for one in ("unshare", "setpriv", "mount")):
        return "unshare, setpriv or mount is not installed"
    tried = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", _STASH], check=False)
    return "" if tried.returncode == 0 else "this system lets root make no mount namespace"


def apart(words: Sequence[str], *, shared: Iterable[Path]) -> list[str]:
    """Return a command that runs another with nothing of this machine's `/tmp` but what is shared."""
    seen = sorted({one.resolve() for one in shared})
    covered = {Path("/tmp"), *(closed for one in seen for closed in _closed(one))}  # noqa: S108
    hidden = {one for one in covered if covered.isdisjoint(one.parents)}
    lines = ["set -e", f"mount -t tmpfs none {_STASH}"]
    for number, one in enumerate(seen):
        lines += [f"mkdir {_STASH}/{number}", f"mount --rbind {shlex.quote(str(one))} {_STASH}/{number}"]
    for one in sorted(hidden):
        mode = "1777" if one == Path("/tmp") else "755"  # noqa: S108
        lines.append(f"mount -t tmpfs -o mode={mode} none {shlex.quote(str(one))}")
    for number, one in enumerate(seen):
        if not hidden.isdisjoint(one.parents):
            place = shlex.quote(str(one))
            lines += [f"mkdir -p {place}", f"mount --rbind {_STASH}/{number} {place}"]
    account = pwd.getpwnam(ACCOUNT)
    lines.append(
        f"exec setpriv --reuid {account.pw_uid} --regid {account.pw_gid} --clear-groups {shlex.join(words)}"
    )
    return ["unshare", "-m", "--propagation", "private", "sh", "-c", "umask 022\n" + "\n".join(lines)]


def _closed(path: Path) -> list[Path]:
    """Return the outermost folder on the way that other accounts cannot enter, if there is one."""
    return [one for one in reversed(path.parents) if not one.stat().st_mode & stat.S_IXOTH][:1]
