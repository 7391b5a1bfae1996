"""On which file system a path lies, and whether others may share it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fieldmark.files import FileSystem, filesystem_of, find_mount

MOUNTS = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
40 22 0:35 / /home rw - nfs4 server:/home rw
41 40 0:36 / /home/me/scratch rw - lustre mds:/scratch rw
42 22 0:37 / /mnt/with\\040space rw shared:1 - fuse.sshfs host: rw
43 22 0:38 / /data rw - nfs server:/data rw
44 43 8:1 / /data rw - xfs /dev/sda1 rw
45 22 0:40 / /gpfs rw shared:2 master:3 - gpfs gpfs0 rw
a line that is cut -
"""


@pytest.mark.parametrize(
    ("path", "kind", "is_shared", "mount"),
    [
        ("/tmp/a.db", "ext4", False, "/"),
        ("/home/me/a.db", "nfs4", True, "/home"),
        ("/home", "nfs4", True, "/home"),
        ("/home/me/scratch/x/a.db", "lustre", True, "/home/me/scratch"),
        ("/homely/a.db", "ext4", False, "/"),
        ("/mnt/with space/a.db", "fuse.sshfs", True, "/mnt/with space"),
        ("/data/a.db", "xfs", False, "/data"),
        ("/gpfs/projects/x", "gpfs", True, "/gpfs"),
    ],
)
def test_the_file_system_of_a_path(path, kind, is_shared, mount):
    assert find_mount(Path(path), MOUNTS) == FileSystem(kind, is_shared, Path(mount))


def test_without_a_mount_table_every_folder_is_local():
    assert find_mount(Path("/home/me"), "") == FileSystem("", False, Path("/"))


def test_a_folder_that_is_not_there_yet_lies_on_that_of_its_parent(tmp_path):
    assert filesystem_of(tmp_path / "no" / "such.db") == filesystem_of(tmp_path)


def test_links_are_followed(tmp_path):
    (tmp_path / "link").symlink_to("/proc")
    assert filesystem_of(tmp_path / "link" / "x").kind in ("proc", "")
