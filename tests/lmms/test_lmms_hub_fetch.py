"""`--fetch` of a dataset of the hub, end to end against a hub on loopback.

In a process of its own: the libraries fix the hub's address when they are imported.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("datasets")

CARD = b"""---
configs:
- config_name: songs
  data_files: [{split: test, path: songs/test-*}]
- config_name: calls
  data_files: [{split: test, path: calls/test-*}]
---
"""
SCRIPT = """
import json, os, socket, sys
from pathlib import Path
from kit.hub import FakeHub

folder = Path(sys.argv[1])
names = json.loads((folder / "files.json").read_text())
hub = FakeHub("acme/birds", {name: (folder / "repo" / name).read_bytes() for name in names})
os.environ["HF_ENDPOINT"] = hub.address
outside = []
ask, connect = socket.getaddrinfo, socket.socket.connect

def only_here(host, *args, **more):
    if host not in ("127.0.0.1", b"127.0.0.1"):
        outside.append(str(host))
        raise socket.gaierror("off")
    return ask(host, *args, **more)

socket.getaddrinfo = only_here

from kit.documents import write_task
from fieldmark.errors import DataError
from fieldmark.lmms.data.documents import fetch_documents, open_documents, source_of

text = "dataset_path: acme/birds\\ndataset_name: {}\\ntest_split: test\\n"
text += "dataset_kwargs: {{token: true}}"
songs, calls = (write_task(folder / name, text.format(name)) for name in ("songs", "calls"))
cache = folder / "cache"

def rows(task, fetch):
    try:
        if fetch:
            fetch_documents(source_of(task), cache)
        split = open_documents(task, cache).test
    except DataError as error:
        return str(error)
    return [split.document(i) for i in range(len(split))]

told = {"before": rows(songs, False), "asked before": list(hub.asked)}
told["fetched"] = rows(songs, True)
hub.close()
told["after"], told["other"], told["outside"] = rows(songs, False), rows(calls, False), outside
print(json.dumps(told))
"""


@pytest.mark.slow
def test_a_dataset_of_the_hub_is_fetched_when_asked_and_then_kept(tmp_path: Path) -> None:
    files = {
        "README.md": CARD,
        "songs/test-00000-of-00001.jsonl": b'{"q": "owl"}\n{"q": "bat"}\n',
        "calls/test-00000-of-00001.jsonl": b'{"q": "newt"}\n',
    }
    for name, data in files.items():
        path = tmp_path / "repo" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (tmp_path / "files.json").write_text(json.dumps(list(files)))
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    kits = str(Path(__file__).parents[1])
    environment |= {"HF_HOME": str(tmp_path / "home"), "PYTHONPATH": kits}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        env=environment, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert done.stderr == ""
    assert "(songs) is not on this machine: `--fetch` downloads it." in told["before"]
    assert told["asked before"] == []
    assert told["fetched"] == told["after"] == [{"q": "owl"}, {"q": "bat"}]
    assert "(calls) is not on this machine: `--fetch` downloads it." in told["other"]
    assert "amazonaws" not in " ".join(told["outside"]), "fetches are not counted elsewhere"
