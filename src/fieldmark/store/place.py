"""Where does a file lie, and which process is this?

WAL needs memory that all processes share, which network file systems do not have. A process
number means something only within one boot and namespace, and it is given again after its process
ended.
"""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

NETWORK = {
    *("9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "drvfs", "gfs", "gfs2", "glusterfs"),
    *("gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "prl_fs", "pvfs2"),
    *("smb2", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs", "wekafs"),
}


def is_on_network(path: Path) -> bool:
    """Is this a file system that several machines may share? (Known on Linux only.)"""
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    kind = file_system(path.resolve(), mounts)
    return kind in NETWORK or kind.startswith("fuse.")


def file_system(path: Path, mounts: str) -> str:
    """The type of the file system a path lies on, from the text of /proc/self/mountinfo."""
    best, kind = -1, ""
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        if len(left.split()) < 5 or not right:
            continue
        point = Path(_unescape(left.split()[4]))
        # >=: a later mount on the same point hides the earlier one
        if path.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), right.split()[0]
    return kind


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def host() -> str:
    return platform.node() or "unknown"


def this_place() -> str:
    """Equal for two processes exactly when each can see if the other lives; "" if unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return host() if os.name == "posix" else ""


def boot_of(place: str) -> str:
    """Which start of its machine a place belongs to; "" if unknown."""
    boot, slash, _ = place.partition("/")
    return boot if slash else ""


def birth(pid: int) -> str:
    """When a process started, in the kernel's own count; "" if it ended or cannot be seen."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]


def is_alive(pid: int, born: str) -> bool:
    """Does the process that started at `born` still run? Only for processes of this place."""
    now = birth(pid)
    if now:
        return now == born
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return not Path("/proc/self/stat").exists()
