"""Mount table (/proc/self/mountinfo): on which file system does a folder lie, and is it shared?

Shared are network and cluster file systems, which several machines write at once. They have no
memory that processes of two machines share, and their locks may be slow or missing: what SQLite
needs for several writers. Known on Linux only; elsewhere every folder counts as local.
https://man7.org/linux/man-pages/man5/proc_pid_mountinfo.5.html
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

SHARED = {
    *("9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "drvfs", "gfs", "gfs2", "glusterfs"),
    *("gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "prl_fs", "pvfs2"),
    *("smb2", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs", "wekafs"),
}
"""besides these, all that begin with `fuse.`: sshfs, s3fs, JuiceFS, clients of Gluster"""


@dataclass(frozen=True, slots=True)
class FileSystem:
    """What a path lies on."""

    kind: str
    """as the kernel calls it: "ext4", "nfs4", "lustre"; "": not known"""
    is_shared: bool
    """may several machines write it at once?"""
    mount: Path
    """where it is mounted"""


def filesystem_of(path: Path) -> FileSystem:
    """The file system of a path, or of the nearest folder above it that exists."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        mounts = ""
    return find_mount(path.resolve(), mounts)


def find_mount(path: Path, mounts: str) -> FileSystem:
    """The file system of an absolute path by the text of /proc/self/mountinfo."""
    best, kind, mount = -1, "", Path("/")
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        if len(left.split()) < 5 or not right.split():
            continue
        point = Path(_unescape(left.split()[4]))
        # >=: a later mount on the same point hides the earlier one
        if path.is_relative_to(point) and len(point.parts) >= best:
            best, kind, mount = len(point.parts), right.split()[0], point
    return FileSystem(kind, kind in SHARED or kind.startswith("fuse."), mount)


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
