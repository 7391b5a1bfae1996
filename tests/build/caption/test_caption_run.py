"""Does every sample of every shard end in exactly one outcome, and is nothing asked twice?"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from fieldmark.build.caption import CaptionOptions, SpeciesWords, caption_shards
from fieldmark.chat import MockScript, MockServer, Options, chat_model
from fieldmark.errors import DataError, RunsFailed, UsageError
from kit.captions import describe, make_samples, make_shards, stubborn, write_shard
from kit.chat import running

FAST = Options(8, backoff_s=0.01, timeout_s=10)


@pytest.fixture
def server() -> Iterator[MockServer]:
    server = MockServer(MockScript(), answers=stubborn)
    server.is_recording = True
    with running(server) as url:
        server.url = url  # type: ignore[attr-defined]
        yield server


def caption(server: Any, shards: list[Path], out: Path, **options: Any) -> Any:
    model = chat_model(f"chat/vllm/seer?base_url={server.url}")
    words = options.pop("words", SpeciesWords())
    return caption_shards(shards, model, words, out, CaptionOptions(**{"sending": FAST, **options}))


def rows(out: Path, name: str) -> pl.DataFrame:
    return pl.read_parquet(out / "captions" / f"{name}.parquet")


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_every_sample_has_one_outcome_in_the_shards_order(server: Any, tmp_path: Path) -> None:
    shards = make_shards(tmp_path / "in", 2, 30)
    before = [digest(path) for path in shards]
    totals = caption(server, shards, tmp_path / "out")
    first = rows(tmp_path / "out", "s-000")
    assert first["key"].to_list() == [f"{number:06}" for number in range(30)]
    assert first["shard"].unique().to_list() == ["s-000.tar"]
    by_attempt = [(row["status"], row["attempts"]) for row in first.iter_rows(named=True)]
    assert by_attempt[:3] == [("ok", 1), ("ok", 2), ("rejected", 3)]
    assert totals.counts == {"ok": 40, "rejected": 20}
    assert first["reason"][2].startswith("guess: ") and first["caption"][2] == ""
    assert [digest(path) for path in shards] == before, "shards are never touched"


def test_a_finished_shard_is_skipped_and_another_word_makes_it_new(
    server: Any, tmp_path: Path
) -> None:
    shards = make_shards(tmp_path / "in", 2, 12)
    caption(server, shards, tmp_path / "out")
    n = server.counts.n_requests
    whole = digest(tmp_path / "out/captions/s-000.parquet")
    assert caption(server, shards, tmp_path / "out").n_skipped == 2
    assert server.counts.n_requests == n
    assert caption(server, shards, tmp_path / "out", tries=2).n_skipped == 0
    assert server.counts.n_requests == n, "answers that were paid for come from the journal"
    caption(server, shards, tmp_path / "out")
    assert digest(tmp_path / "out/captions/s-000.parquet") == whole
    assert caption(server, shards, tmp_path / "out", max_words=19).n_skipped == 0
    assert server.counts.n_requests > n


def test_one_changed_image_is_asked_for_alone(server: Any, tmp_path: Path) -> None:
    samples = make_samples(9)
    shard = write_shard(tmp_path / "a.tar", samples)
    caption(server, [shard], tmp_path / "out")
    n = server.counts.n_requests
    samples[0] = ("000000", {**samples[0][1], "jpg": make_samples(1, 99)[0][1]["jpg"]})
    write_shard(shard, samples)
    assert caption(server, [shard], tmp_path / "out").n_skipped == 0
    assert server.counts.n_requests == n + 1


def test_samples_that_cannot_be_asked_about_are_errors(server: Any, tmp_path: Path) -> None:
    samples = make_samples(6)
    samples[0] = ("000000", {"json": samples[0][1]["json"]})
    samples[1] = ("000001", {"jpg": samples[1][1]["jpg"]})
    samples[2] = ("000002", {**samples[2][1], "jpg": b"no photo"})
    samples[3] = ("000003", {**samples[3][1], "jpg": b""})
    caption(server, [write_shard(tmp_path / "a.tar", samples)], tmp_path / "out")
    table = rows(tmp_path / "out", "a")
    assert table["status"].to_list()[:4] == ["error"] * 4
    kinds = [reason.partition(":")[0] for reason in table["reason"][:4]]
    assert kinds == ["no_image", "no_taxon", "bad_image", "bad_image"]
    assert table["status"][4] == "ok"


def test_many_bad_images_in_a_row_do_not_end_the_run(server: Any, tmp_path: Path) -> None:
    samples = [
        (key, {**members, "jpg": b"none"} if number < 40 else members)
        for number, (key, members) in enumerate(make_samples(46))
    ]
    totals = caption(server, [write_shard(tmp_path / "a.tar", samples)], tmp_path / "out")
    assert totals.counts["error"] == 40 and totals.counts["ok"] == 4


def test_a_cut_shard_is_refused_by_name_and_the_others_are_done(
    server: Any, tmp_path: Path
) -> None:
    shards = make_shards(tmp_path / "in", 3, 6)
    data = shards[1].read_bytes()
    shards[1].write_bytes(data[: data.index(b"000009.jpg")])  # between two members
    with pytest.raises(RunsFailed, match=r"s-001\.tar .*end mark"):
        caption(server, shards, tmp_path / "out")
    done = sorted(path.name for path in (tmp_path / "out/captions").glob("*.parquet"))
    assert done == ["s-000.parquet", "s-002.parquet"]
    with pytest.raises(DataError, match="s-001"):
        caption(server, shards[1:2], tmp_path / "out")


def test_shards_of_one_name_are_refused(server: Any, tmp_path: Path) -> None:
    shards = [write_shard(tmp_path / folder / "a.tar", make_samples(1)) for folder in "xy"]
    with pytest.raises(UsageError, match="has the name of"):
        caption(server, shards, tmp_path / "out")


def test_the_manifest_reconciles(server: Any, tmp_path: Path) -> None:
    shard = write_shard(tmp_path / "a.tar", make_samples(7))
    caption(server, [shard], tmp_path / "out")
    manifest = json.loads((tmp_path / "out/captions/a.json").read_text())
    assert sum(manifest["counts"].values()) == manifest["made_from"]["input"]["n_samples"] == 7
    assert manifest["made_from"]["input"]["sha256"] == digest(shard)
    assert manifest["captions_sha256"] == digest(tmp_path / "out/captions/a.parquet")


def test_an_empty_shard_has_no_rows(server: Any, tmp_path: Path) -> None:
    caption(server, [write_shard(tmp_path / "a.tar", [])], tmp_path / "out")
    assert rows(tmp_path / "out", "a").height == 0


def test_captions_damaged_later_are_made_again(server: Any, tmp_path: Path) -> None:
    shard = write_shard(tmp_path / "a.tar", make_samples(5))
    caption(server, [shard], tmp_path / "out")
    path = tmp_path / "out/captions/a.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert caption(server, [shard], tmp_path / "out").n_skipped == 0
    assert path.read_bytes() == whole
    assert describe
