"""The site: its data are complete and safe, its folder whole or not there."""

from __future__ import annotations

import base64
import gzip
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fieldmark.cli import main
from fieldmark.errors import DataError
from fieldmark.report import read_table, verdict
from fieldmark.report.site import SiteOptions, build_site, build_summary, task_predictions
from fieldmark.report.site.images import choose_images
from fieldmark.report.site.pages import page_files, script_json, without_folders
from fieldmark.report.site.summary import column_name, public_table
from fieldmark.report.table.ranking import rank_rows
from fieldmark.settings import Settings
from fieldmark.store import PartResult, Predictions, RunFilter, RunSpec, Score, Store
from kit.site_results import EVIL, LABELS, OWN_MODEL, item_names, make_results, unpacked

N_ITEMS = 120


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_results(tmp_path_factory.mktemp("made"), N_ITEMS)


@pytest.fixture(scope="module")
def settings(made: Path) -> Settings:
    return Settings(results=made / "results", data_root=made / "data", threads=2)


@pytest.fixture(scope="module")
def site(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out") / "site"
    build(settings, out, SiteOptions(max_images=40))
    return out


def build(settings: Settings, out: Path, options: SiteOptions | None = None) -> Path:
    with Store.open(settings.store, read_only=True) as store:
        return build_site(store, out, settings, options)


def all_bytes(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def summary_of(site: Path) -> dict:
    text = (site / "data" / "summary.js").read_text()
    return json.loads(text.removeprefix('fieldmark.receive("summary",').removesuffix(");\n"))


def test_summary_holds_every_score_with_interval_and_tier(settings: Settings) -> None:
    with Store.open(settings.store, read_only=True) as store:
        summary = build_summary(store)
        n_runs = len(store.runs())
    assert len(summary["cells"]) == n_runs == 5 * 4 - 1
    assert len(summary["columns"]) == 3
    assert all(low <= value <= high for _, _, value, low, high, *_ in summary["cells"])
    tiers = {cell[summary["cell"].index("tier")] for cell in summary["cells"]}
    assert "A" in tiers and len(tiers) > 1
    lost = {cell[0] for cell in summary["cells"] if cell[summary["cell"].index("unanswered")]}
    names = {summary["rows"][each]["name"] for each in lost}
    assert names == {f"timm/resnet50.a1_in1k (probe{size})" for size in ("", ", n_train=10")}


def test_page_has_the_tables_verdict_order_means_and_letters(settings: Settings) -> None:
    with Store.open(settings.store, read_only=True) as store:
        summary, table = build_summary(store), public_table(read_table(store))
    assert summary["verdict"] == verdict(table) and "(3 tasks" in summary["verdict"]
    ranking = rank_rows(table)
    assert [row["name"] for row in summary["rows"]] == ranking.names
    assert summary["summed"]["texts"] == list(ranking.summary.values())
    names = [row["name"] for row in summary["rows"]]
    heads = [column["heading"] for column in summary["columns"]]
    tier = summary["cell"].index("tier")
    shown = {(names[cell[0]], heads[cell[1]]): cell[tier] for cell in summary["cells"]}
    assert shown == {(row.name, row.heading): row.tier for row in table.rows}


def test_sizes_are_a_curve(settings: Settings) -> None:
    with Store.open(settings.store, read_only=True) as store:
        summary = build_summary(store)
    assert len(summary["curves"]) == 5
    for curve in summary["curves"]:
        assert [size for size, _ in curve["points"]] == ["10", "all"]
        names = [summary["rows"][row]["name"] for _, row in curve["points"]]
        assert names == [f"{curve['name'][:-1]}, n_train=10)", curve["name"]]


def test_what_tables_know_of_models_is_told(settings: Settings) -> None:
    with Store.open(settings.store, read_only=True) as store:
        rows = {each["name"]: each for each in build_summary(store)["rows"]}
    assert rows["timm/resnet50.a1_in1k (probe)"]["params"] == 23508032
    assert rows["timm/resnet50.a1_in1k (probe)"]["family"] == "timm"
    assert rows['"my" net.py:Mine?weights=w.pt (probe)']["family"] == "own"


def test_task_page_tells_licence_and_citation(site: Path) -> None:
    task = summary_of(site)["tasks"][0]
    assert task["title"] == "Which fox is it?" and task["licence"] == "yours"
    assert task["n_images"] == 40 and len(task["samples"]) == 12


def test_predictions_survive_the_packing(settings: Settings) -> None:
    with Store.open(settings.store, read_only=True) as store:
        for column in build_summary(store)["columns"]:
            header, arrays = unpacked(task_predictions(store, column["name"]))
            for number, name in enumerate(header["models"]):
                model, _, way = name[:-1].rpartition(" (")
                n_train = 10 if way == "probe, n_train=10" else None
                (run,) = (
                    run
                    for run in store.runs(RunFilter(tasks=(column["heading"],), n_train=(n_train,)))
                    if without_folders(run.spec.model) == model
                )
                frame = store.predictions(run.id)
                names = [None, *header["labels"]]
                assert [header["ids"][at] for at in arrays["id"]] == frame["id"].to_list()
                assert [header["parts"][at] for at in arrays["part"]] == frame["part"].to_list()
                assert [names[at] for at in arrays["target"]] == frame["target"].to_list()
                said = [names[at] for at in arrays[f"answer {number}"]]
                assert said == frame["prediction"].to_list()
                low, high = header["ranges"][number]
                sure = low + (high - low) * arrays[f"sure {number}"] / 254
                assert np.abs(sure - frame["score"].to_numpy()).max() < 1 / 254


def test_same_store_same_bytes(settings: Settings, site: Path, tmp_path: Path) -> None:
    build(settings, tmp_path / "again", SiteOptions(max_images=40))
    assert all_bytes(tmp_path / "again") == all_bytes(site)


def test_no_path_of_this_machine_is_written(made: Path, site: Path) -> None:
    for name, content in all_bytes(site).items():
        for secret in (str(made), "home/ann", "/data/w.pt"):
            assert secret.encode() not in content, name
    for path in (site / "data").glob("*.js"):
        if path.stem not in ("summary", "charts") and not path.stem.startswith("compare-"):
            (text,) = re.findall(r',"([^"]+)"\);', path.read_text())
            header, _ = unpacked(base64.b64decode(text))
            assert "home/ann" not in json.dumps(header)


def test_names_cannot_break_out_of_the_page(site: Path) -> None:
    for name, content in all_bytes(site).items():
        if name.endswith((".js", ".html")) and name != "vega.js":
            assert EVIL.encode() not in content, name
    page = (site / "index.html").read_text()
    assert page.count("<script") == page.count("</script>") == 2
    assert json.loads(script_json({"a": EVIL + "\u2028"})) == {"a": EVIL + "\u2028"}
    assert "<" not in script_json(EVIL)
    with pytest.raises(ValueError):
        script_json(float("nan"))


def test_a_long_name_is_a_short_file(settings: Settings) -> None:
    with Store.open(settings.store, read_only=True) as store:
        row = read_table(store).rows[0]
    long = replace(row, run=replace(row.run, spec=replace(row.run.spec, task="x" * 300)))
    assert len(column_name(long)) < 100 and column_name(long) != column_name(row)


def test_noscript_table_has_every_model(site: Path) -> None:
    page = (site / "index.html").read_text()
    inside = page[page.index("<noscript>") : page.index("</noscript>")]
    assert inside.count("<tr>") == 11
    assert "&quot;my&quot; net.py:Mine?weights=w.pt" in inside


def test_no_images_leaves_no_photo(settings: Settings, tmp_path: Path) -> None:
    build(settings, tmp_path / "site", SiteOptions(max_images=0))
    assert not (tmp_path / "site" / "thumbs").exists()
    assert all(not task["samples"] for task in summary_of(tmp_path / "site")["tasks"])


def test_data_that_are_gone_leave_a_site_without_photos(made: Path, tmp_path: Path) -> None:
    away = Settings(results=made / "results", data_root=tmp_path / "nowhere")
    build(away, tmp_path / "site")
    assert not (tmp_path / "site" / "thumbs").exists()


def test_thumbnails_are_small_and_as_many_as_asked_for(site: Path) -> None:
    thumbs = list((site / "thumbs").rglob("*.webp"))
    assert 40 <= len(thumbs) <= 120  # three tasks share their photos
    with Image.open(thumbs[0]) as image:
        assert max(image.size) <= 320 and not image.getexif()


def test_unreadable_photo_is_left_out(made: Path, settings: Settings, tmp_path: Path) -> None:
    broken = made / "data" / "folder" / item_names(1)[0]
    kept = broken.read_bytes()
    broken.write_bytes(b"")
    try:
        build(settings, tmp_path / "site", SiteOptions(max_images=N_ITEMS))
    finally:
        broken.write_bytes(kept)
    assert len(list((tmp_path / "site" / "thumbs").rglob("*.webp"))) == N_ITEMS - 1


def test_half_of_the_photos_are_the_hardest() -> None:
    wrong = {f"{number:03d}": int(number >= 90) for number in range(100)}
    chosen = choose_images(wrong, wrong, 20, "t")
    assert len(chosen) == 20 and sum(wrong[each] for each in chosen) >= 10
    assert chosen == choose_images(dict(reversed(wrong.items())), set(wrong), 20, "t")
    assert choose_images(wrong, ["000", "gone"], 20, "t") == ["000"]


def test_foreign_folder_is_not_touched(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(DataError, match="contains other files than a fieldmark site"):
        build(settings, tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(DataError, match="is a file"):
        build(settings, tmp_path / "thesis.tex")


@pytest.mark.slow
def test_site_is_replaced_whole(settings: Settings, tmp_path: Path) -> None:
    out = tmp_path / "site"
    build(settings, out, SiteOptions(max_images=0))
    (out / "stale.txt").write_text("left behind by an older version")
    build(settings, out, SiteOptions(max_images=0))
    assert not (out / "stale.txt").exists()
    assert [each.name for each in tmp_path.iterdir()] == ["site"]


@pytest.mark.slow
def test_failure_leaves_the_old_site(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "site"
    build(settings, out, SiteOptions(max_images=0))
    before = all_bytes(out)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fieldmark.report.site.build.index_page", killed)
    with pytest.raises(KeyboardInterrupt):
        build(settings, out, SiteOptions(max_images=0))
    assert all_bytes(out) == before
    assert [each.name for each in tmp_path.iterdir()] == ["site"]


def test_site_that_a_kill_left_aside_comes_back(settings: Settings, tmp_path: Path) -> None:
    out = tmp_path / "site"
    build(settings, out, SiteOptions(max_images=0))
    out.rename(tmp_path / ".site.before")
    with pytest.raises(DataError, match="does not exist"):
        build(Settings(results=tmp_path / "empty"), out)
    assert (out / "index.html").is_file()


def test_filters_choose_models_and_tasks(settings: Settings, tmp_path: Path) -> None:
    where = RunFilter(models=("classical/*",), tasks=("foxes",))
    build(settings, tmp_path / "site", SiteOptions(where, 0))
    summary = summary_of(tmp_path / "site")
    assert {each["name"].partition(" (")[0] for each in summary["rows"]} == {
        "classical/chance",
        "classical/colour",
    }
    assert {each["heading"] for each in summary["columns"]} == {"foxes"}


def test_command_prints_the_page(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["site", str(tmp_path / "s"), "--results", str(made / "results"), "--no-images"]
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert out == f"{tmp_path / 's' / 'index.html'}\n"
    assert "Double-click it to open it" in err


def test_command_names_a_slip(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["site", str(tmp_path / "s"), "--results", str(made / "results"), "--task", "foxs"]
    assert main(words) == 2
    assert "'foxes'" in capsys.readouterr().err
    assert not (tmp_path / "s").exists()


def test_scripts_are_one_classic_script() -> None:
    code = page_files()["app.js"].decode()
    assert not re.search(r"^(import|export) ", code, re.M)
    assert "innerHTML" not in code and "fetch(" not in code and "https://" not in code


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (OWN_MODEL, '"my" net.py:Mine?weights=w.pt'),
        ("timm/local-dir:/srv/nets/vit", "timm/local-dir:vit"),
        ("hf/facebook/dinov2-base", "hf/facebook/dinov2-base"),
        (r"C:\Users\ann\net.py:Mine", "net.py:Mine"),
        ("~/nets/net.py:Mine", "net.py:Mine"),
        ("either/or", "either/or"),
    ],
)
def test_folders_are_left_out_of_names(text: str, kept: str) -> None:
    assert without_folders(text) == kept


def test_labels_of_the_maker_are_all_used(settings: Settings) -> None:
    with Store.open(settings.store, read_only=True) as store:
        header, _ = unpacked(task_predictions(store, build_summary(store)["columns"][0]["name"]))
    assert header["labels"] == sorted(LABELS)


def test_the_answer_is_in_numbers_of_photos(tmp_path: Path) -> None:
    with Store.open(tmp_path / "one.db") as store:
        for model, n_right in (("m/good", 90), ("m/poor", 40)):
            run = store.begin_run(RunSpec(model, "leaves", "probe/ridge", data="a"))
            targets = [("fox", "hare", "owl")[n % 3] for n in range(100)]
            given = [label if n < n_right else "crow" for n, label in enumerate(targets)]
            store.write_part(run, PartResult(Predictions(item_names(100), targets, given)))
            score = Score("accuracy", n_right / 100, n=100, is_primary=True, is_fraction=True)
            store.finish_run(run, [score])
        answer = build_summary(store)["answer"]
    assert answer == (
        "Use m/good: right on 90 of 100 photos, m/poor on 40. "
        "Always guessing the most common label gets 34."
    )


def test_prompts_and_replies_of_chat_models_are_there_item_by_item(tmp_path: Path) -> None:
    told = [
        json.dumps({"prompt": f"[photo]\nWhat is it? {n}", "text": f"an owl, {n}", "how": how})
        for n, how in (("a", "answer line"), ("b", "several options are named"))
    ]
    with Store.open(tmp_path / "chat.db") as store:
        for model, protocol, infos in (("chat/x/y", "ask", told), ("m/net", "probe/ridge", None)):
            run = store.begin_run(RunSpec(model, "owls", protocol, data="a"))
            given = Predictions(
                ["a.jpg", "b.jpg"], ["owl", "owl"], ["owl", None], infos=infos,
                outcomes=["ok", "unparsed"],
            )  # fmt: skip
            store.write_part(run, PartResult(given))
            store.finish_run(run, [Score("accuracy", 0.5, n=2, is_primary=True)])
        settings = Settings(results=tmp_path, data_root=tmp_path)
        build_site(store, tmp_path / "site", settings, SiteOptions(max_images=0))
        columns = [(each["name"], each["has_replies"]) for each in build_summary(store)["columns"]]
    replies = {}
    for name, has_replies in columns:
        file = tmp_path / "site" / "data" / f"{name}-replies.js"
        assert file.exists() == has_replies
        if has_replies:
            packed = file.read_text().partition(',"')[2].removesuffix('");\n')
            replies |= json.loads(gzip.decompress(base64.b64decode(packed)))
    assert list(replies.values()) == [
        [
            ["[photo]\nWhat is it? a", "an owl, a", ""],
            ["[photo]\nWhat is it? b", "an owl, b", "several options are named"],
        ]
    ]
