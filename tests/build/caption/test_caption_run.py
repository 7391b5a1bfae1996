"""Does every sample of every shard end in exactly one outcome, and is nothing asked twice?"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from fieldmark.build.caption import CaptionOptions, CaptionRun, SpeciesWords
from fieldmark.build.caption.shard import ShardJob
from fieldmark.chat import Budget, MockScript, Options, chat_model
from fieldmark.chat.mock.answers import read_prompt
from fieldmark.errors import DataError, ModelError, StoreError, UsageError
from fieldmark.files import part_of
from fieldmark.leases import LeaseFolder
from fieldmark.progress import Silent
from fieldmark.taxa import Taxon
from kit.captions import describe, make_samples, make_shards, stubborn, write_shard
from kit.chat import CountingServer, running
from kit.tiny_chat import load_tiny, save_tiny

FAST = Options(8, backoff_s=0.01, timeout_s=10)


@pytest.fixture
def server() -> Iterator[CountingServer]:
    server = CountingServer(MockScript(), answers=stubborn)
    server.is_recording = True
    with running(server) as url:
        server.url = url  # type: ignore[attr-defined]
        yield server


def caption(server: Any, shards: list[Path], out: Path, **options: Any) -> Any:
    name = options.pop("model", "seer")
    model = chat_model(f"chat/vllm/{name}?base_url={server.url}")
    words = options.pop("words", SpeciesWords())
    options = CaptionOptions(**{"sending": FAST, **options})
    return CaptionRun(shards, model, words, out, options).carry_out()


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
    assert first["reason"][2].startswith("sentences: ") and first["caption"][2] == ""
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


def test_a_model_on_this_machine_is_asked_in_the_same_way(tmp_path: Path) -> None:
    """The tiny one answers nonsense, which is rejected; bad images in a row end nothing."""
    model = load_tiny(save_tiny("llava", tmp_path / "tiny"), "?context=20000&max_tokens=8")
    samples = [
        (key, {**members, "jpg": b"none"} if number < 20 else members)
        for number, (key, members) in enumerate(make_samples(22))
    ]
    shard = write_shard(tmp_path / "a.tar", samples)
    totals = CaptionRun([shard], model, SpeciesWords(), tmp_path / "out").carry_out()
    assert totals.counts == {"rejected": 2, "error": 20}


def test_captions_are_made_inside_an_event_loop(server: Any, tmp_path: Path) -> None:
    """In a notebook, requests are drawn in one thread and answers heard in another."""

    async def notebook() -> Any:
        return caption(server, make_shards(tmp_path / "in", 4, 30), tmp_path / "out")

    totals = asyncio.run(notebook())
    assert totals.counts == {"ok": 80, "rejected": 40} and totals.n_done == 4
    assert server.answered.total() == len(server.answered)


def test_a_cut_shard_is_refused_by_name_and_the_others_are_done(
    server: Any, tmp_path: Path
) -> None:
    shards = make_shards(tmp_path / "in", 3, 6)
    data = shards[1].read_bytes()
    shards[1].write_bytes(data[: data.index(b"000009.jpg")])  # between two members
    totals = caption(server, shards, tmp_path / "out")
    assert re.search(r"s-001\.tar .*end mark", totals.refused["s-001"])
    assert totals.exit_code == 5 and totals.n_done == 2
    done = sorted(path.name for path in (tmp_path / "out/captions").glob("*.parquet"))
    assert done == ["s-000.parquet", "s-002.parquet"]
    alone = caption(server, shards[1:2], tmp_path / "out")
    assert list(alone.refused) == ["s-001"] and alone.exit_code == 3


def test_shards_of_one_name_are_refused(server: Any, tmp_path: Path) -> None:
    shards = [write_shard(tmp_path / folder / "a.tar", make_samples(1)) for folder in "xy"]
    with pytest.raises(UsageError, match="have the same file name"):
        caption(server, shards, tmp_path / "out")


def test_the_manifest_reconciles(server: Any, tmp_path: Path) -> None:
    shard = write_shard(tmp_path / "a.tar", make_samples(7))
    caption(server, [shard], tmp_path / "out")
    manifest = json.loads((tmp_path / "out/captions/a.json").read_text())
    assert sum(manifest["counts"].values()) == manifest["made_from"]["input"]["n_samples"] == 7
    assert manifest["made_from"]["input"]["sha256"] == digest(shard)
    assert manifest["captions_sha256"] == digest(tmp_path / "out/captions/a.parquet")


def test_reasons_reconcile_with_counts_in_every_run(server: Any, tmp_path: Path) -> None:
    samples = make_samples(9)
    samples[0] = ("000000", {**samples[0][1], "jpg": b"no photo"})
    samples[1] = ("000001", {"jpg": samples[1][1]["jpg"]})
    shards = [write_shard(tmp_path / "a.tar", samples), *make_shards(tmp_path / "in", 1, 6)]
    first = caption(server, shards[:1], tmp_path / "out")
    for totals in (first, caption(server, shards, tmp_path / "out")):
        for status in ("rejected", "error"):
            n = sum(n for reason, n in totals.reasons.items() if reason.startswith(status))
            assert n == totals.counts[status] > 0
    assert first.exit_code == 5, "samples with errors"
    assert caption(server, shards[1:], tmp_path / "out").exit_code == 0, "rejected ones alone"


def test_images_with_a_description_are_counted(server: Any, tmp_path: Path) -> None:
    """Starlings have one; skipped shards count as before."""
    birds = Taxon(("Animalia", "Chordata", "Aves", "", "", "Sturnus", "vulgaris"))
    words = SpeciesWords({birds.key: "It is black with pale spots."}, digest="1")
    shards = make_shards(tmp_path / "in", 2, 6)
    totals = caption(server, shards[:1], tmp_path / "out", words=words)
    assert totals.n_described == totals.summary()["n_described"] == 2
    manifest = json.loads((tmp_path / "out/captions/s-000.json").read_text())
    assert manifest["n_described"] == 2
    assert caption(server, shards, tmp_path / "out", words=words).n_described == 4


def test_the_same_server_at_another_address_finds_finished_shards(
    server: Any, tmp_path: Path
) -> None:
    shards = make_shards(tmp_path / "in", 1, 6)
    caption(server, shards, tmp_path / "out")
    moved = CountingServer(MockScript(), answers=stubborn)
    with running(moved) as url:
        moved.url = url  # type: ignore[attr-defined]
        assert caption(moved, shards, tmp_path / "out").n_skipped == 1
    assert (
        moved.counts.n_requests == 0
        and server.url not in (tmp_path / "out/captions/s-000.json").read_text()
    )


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


def test_a_full_disk_is_one_line(tmp_path: Path, server: Any, monkeypatch: Any) -> None:
    """The disk is full for whatever is written; nothing half is left behind."""
    shards = make_shards(tmp_path / "in", 2, 9)

    def full(path: Path, _data: bytes, is_durable: bool = False) -> None:
        raise DataError(f"{path}  cannot be written: {os.strerror(errno.ENOSPC)}.")

    with monkeypatch.context() as patch:
        patch.setattr("fieldmark.build.caption.shard.write_file", full)
        with pytest.raises(StoreError) as caught:
            caption(server, shards, tmp_path / "out")
    line = r"\S+/s-00\d\.parquet  cannot be written: No space left on device\."
    assert re.fullmatch(line, str(caught.value))
    caption(server, shards, tmp_path / "out")
    assert server.answered.total() == len(server.answered), "nothing is paid for twice"
    assert rows(tmp_path / "out", "s-001").height == 9


def test_a_journal_that_cannot_be_written_ends_the_run(tmp_path: Path, server: Any) -> None:
    (tmp_path / "out/state").mkdir(parents=True)
    (tmp_path / "out/state/journal").write_text("a file where a folder should be")
    with pytest.raises(StoreError, match="journal"):
        caption(server, make_shards(tmp_path / "in", 1, 3), tmp_path / "out")
    (tmp_path / "out/state/journal").unlink()
    assert caption(server, [tmp_path / "in/s-000.tar"], tmp_path / "out").counts["ok"] == 2


@pytest.mark.slow
def test_concurrency_stays_full_over_the_borders_of_shards(tmp_path: Path) -> None:
    """One stream: 64 shards of one photo each keep 16 requests in flight."""
    calm = CountingServer(MockScript(latency_s=0.15), answers=describe)
    with running(calm) as url:
        calm.url = url  # type: ignore[attr-defined]
        caption(calm, make_shards(tmp_path / "in", 64, 1), tmp_path / "out", sending=Options(16))
    assert calm.counts.max_in_flight == 16


def test_who_waits_for_others_says_so(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fieldmark.build.caption.run.WAITING_EVERY_S", 0.2)
    monkeypatch.setattr("fieldmark.build.caption.run._POLL_S", 0.05)
    shards, said = make_shards(tmp_path / "in", 2, 3), list[str]()
    other = LeaseFolder(tmp_path / "out/state/leases")
    held = other.claim("s-001")
    assert held is not None

    class Heard(Silent):
        def say(self, text: str) -> None:
            said.append(text)
            if len(said) == 2:
                other.give_up(held, is_done=False)

    model = chat_model(f"chat/vllm/seer?base_url={server.url}")
    options = CaptionOptions(sending=FAST)
    CaptionRun(shards, model, SpeciesWords(), tmp_path / "out", options, Heard()).carry_out()
    line = (
        rf"waiting for 1 of 2 shards: process {os.getpid()} on \S+ is working on s-001 \(last sign"
    )
    assert len(said) == 2 and all(re.match(line, text) for text in said)


@pytest.mark.slow
def test_memory_holds_a_bounded_number_of_samples(tmp_path: Path, server: Any) -> None:
    """Defect 8 of the released pipeline: a whole shard in memory before the first batch."""
    shard = write_shard(tmp_path / "a.tar", make_samples(300))
    ahead: list[int] = []
    read = ShardJob.next_request

    def watched(job: ShardJob) -> Any:
        ahead.append(job.n_read - len(job.rows))
        return read(job)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ShardJob, "next_request", watched)
        caption(server, [shard], tmp_path / "out")
    assert len(ahead) == 301 and max(ahead) < 8 + 64


@pytest.mark.slow
def test_a_budget_ends_the_run_and_the_next_goes_on(tmp_path: Path, server: Any) -> None:
    shards = make_shards(tmp_path / "in", 2, 30)
    with pytest.raises(ModelError, match=r"the budget is used up .*Run the same"):
        caption(server, shards, tmp_path / "out", budget=Budget(max_tokens=20_000))
    n = server.counts.n_requests
    assert 0 < n < 60
    totals = caption(server, shards, tmp_path / "out")
    assert totals.counts.total() == 60 and server.answered.total() == len(server.answered)


def test_an_endpoint_that_fails_is_not_taken_for_bad_photos(tmp_path: Path) -> None:
    broken = CountingServer(MockScript(p_500=1.0), answers=describe)
    with running(broken) as url:
        broken.url = url  # type: ignore[attr-defined]
        fast = Options(8, backoff_s=0.001, backoff_cap_s=0.002, max_attempts=2)
        with pytest.raises(ModelError, match="No answer was stored"):
            caption(broken, make_shards(tmp_path / "in", 1, 30), tmp_path / "out", sending=fast)
    assert not (tmp_path / "out/captions").exists()


def test_requests_that_failed_are_asked_again_and_alone(tmp_path: Path) -> None:
    samples = make_samples(9)
    failing = {hashlib.sha256(samples[4][1]["jpg"]).hexdigest()}

    def moody(text: str, body: Any) -> str:
        if failing & set(read_prompt(body).pictures):
            raise RuntimeError("this one kills the request")
        return describe(text, body)

    server = CountingServer(MockScript(), answers=moody)
    fast = Options(4, backoff_s=0.001, backoff_cap_s=0.002, max_attempts=2)
    with running(server) as url:
        server.url = url  # type: ignore[attr-defined]
        shard = write_shard(tmp_path / "a.tar", samples)
        assert caption(server, [shard], tmp_path / "out", sending=fast).counts["error"] == 1
        assert rows(tmp_path / "out", "a")["reason"][4].startswith("request: ")
        failing.clear()
        n = server.counts.n_requests
        totals = caption(server, [shard], tmp_path / "out")
        assert totals.counts == {"ok": 9} and server.counts.n_requests == n + 1


def test_a_shard_that_cannot_be_written_ends_the_run(server: Any, tmp_path: Path) -> None:
    shards, out = make_shards(tmp_path / "in", 3, 6), tmp_path / "out"
    (out / "captions/s-001.parquet/in the way").mkdir(parents=True)
    with pytest.raises(StoreError, match=r"s-001\.parquet  cannot be written: Is a directory"):
        caption(server, shards, out)
    n = server.answered.total()
    (out / "captions/s-001.parquet/in the way").rmdir()
    (out / "captions/s-001.parquet").rmdir()
    assert caption(server, shards, out).n_done == 3
    assert len(server.answered) == server.answered.total() >= n, "nothing is paid for twice"


@pytest.mark.slow
def test_the_same_rows_give_the_same_bytes_with_any_number_of_threads() -> None:
    code = (
        "import hashlib; from fieldmark.build.caption.shard import CaptionRow, parquet_bytes\n"
        "rows = [CaptionRow(f'{i:07}', 'ok', f'Caption {i}.') for i in range(25_000)]\n"
        "print(hashlib.sha256(parquet_bytes('a.tar', rows)).hexdigest())"
    )
    seen = set()
    for threads in ("1", "2", "5"):
        environment = {**os.environ, "POLARS_MAX_THREADS": threads}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        seen.add(done.stdout)
    assert len(seen) == 1


def test_names_of_shards_may_have_dots(server: Any, tmp_path: Path) -> None:
    shards = [write_shard(tmp_path / f"a.{n}.tar", make_samples(2)) for n in range(2)]
    caption(server, shards, tmp_path / "out")
    assert rows(tmp_path / "out", "a.1")["shard"].to_list() == ["a.1.tar"] * 2


def test_a_key_that_is_no_text_refuses_its_shard(server: Any, tmp_path: Path) -> None:
    samples = make_samples(2)
    samples[1] = ("\udcff", samples[1][1])
    totals = caption(server, [write_shard(tmp_path / "a.tar", samples)], tmp_path / "out")
    assert "is not UTF-8 text" in totals.refused["a"]


def test_what_a_killed_worker_left_is_cleared(server: Any, tmp_path: Path) -> None:
    shard, out = write_shard(tmp_path / "a.tar", make_samples(3)), tmp_path / "out"
    left = [part_of(out / "captions" / name) for name in ("a.parquet", "a.json")]
    others = [part_of(out / "captions/a.1.parquet")]
    for path in left + others:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("half")
    caption(server, [shard], out)
    assert not any(path.exists() for path in left) and all(path.exists() for path in others)


RAVEN = Taxon(("Animalia", "Chordata", "Aves", "", "", "Corvus", "corax"), "Common Raven")


@pytest.mark.parametrize(
    ("n_new", "change"),
    [
        (0, {}),
        (4, {"words": SpeciesWords({RAVEN.key: "All black."}, digest="raven")}),
        (
            12,
            {
                "words": SpeciesWords(
                    examples={"Aves": ("Parus major with a black head.",)}, digest="examples"
                )
            },
        ),
        (0, {"words": SpeciesWords({"other": "Pink."}, digest="of a species that is not here")}),
        (12, {"temperature": 0.5}),
        (12, {"top_p": 0.5}),
        (12, {"max_output": 77}),
        (12, {"max_words": 19}),
        (12, {"model": "another"}),
        (0, {"tries": 2}),
        (0, {"sending": Options(3)}),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_what_can_change_a_caption_makes_a_shard_new(
    tmp_path: Path, n_new: int, change: dict[str, Any]
) -> None:
    """And only what is asked in other words is asked again."""
    server = CountingServer(MockScript(), answers=describe)
    shard, out = write_shard(tmp_path / "a.tar", make_samples(12)), tmp_path / "out"
    with running(server) as url:
        server.url = url  # type: ignore[attr-defined]
        caption(server, [shard], out)
        again = caption(server, [shard], out, **change)
    changes_nothing = not change or "sending" in change
    assert again.n_skipped == changes_nothing
    assert server.counts.n_requests == 12 + n_new
