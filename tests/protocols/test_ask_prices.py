"""Prices on the command line: a price for what has none, families, and parts that are left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fieldmark.cli import main
from fieldmark.report import read_table
from fieldmark.report.export import choose, export
from fieldmark.settings import Settings
from fieldmark.store import Store
from kit.ask import TASK, Parrot, command
from kit.chat import running
from kit.made import make_dataset

SMALL = ("--n-test", "4")


@pytest.fixture(autouse=True)
def here(fresh_settings: Settings) -> None:
    """Each test in a folder of its own."""


@pytest.mark.slow
def test_a_cap_on_an_unpriced_model_works_with_a_price(
    world: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with running(Parrot('{"answer": "A"}')) as url:
        name = ("--model", f"chat/custom/ours?base_url={url}")
        assert main(command(world, *name, *SMALL, "--max-usd", "1")) == 2
        assert "--price IN/OUT" in capfd.readouterr().err
        assert main(command(world, *name, *SMALL, "--max-usd", "1", "--price", "200/300")) == 0
        told = capfd.readouterr().err
    assert "of $1.00" in told and "price unknown" not in told


def test_a_cap_holds_at_the_price_given(world: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with running(Parrot('{"answer": "A"}')) as url:
        name = ("--model", f"chat/custom/ours?base_url={url}", "--price", "90000/90000")
        assert main(command(world, *name, *SMALL, "--max-usd", "1")) == 4
    assert "the limit is $1.00" in capfd.readouterr().err


@pytest.mark.parametrize("price", ["0.5", "a/b", "-1/2", "1/2/3", "1e3/2"])
def test_a_price_that_is_none_is_told(
    world: Path, capfd: pytest.CaptureFixture[str], price: str
) -> None:
    assert main(command(world, "--model", "chat/mock/wren", f"--price={price}")) == 2
    assert "--price" in (err := capfd.readouterr().err) and "as 0.5/1.5" in err


def test_plan_uses_the_price_and_tells_whose_it_is(
    world: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def planned(*more: str) -> dict[str, object]:
        words = ["plan", "--task", TASK, "--data", f"world={world}", "--json", *more]
        assert main(words) == 0
        job: dict[str, object] = json.loads(capfd.readouterr().out)["jobs"][0]
        return job

    assert planned("--model", "chat/mock/wren")["usd"] == "unknown"
    assert float(str(planned("--model", "chat/mock/wren", "--price", "2/8")["usd"])) > 0
    family, dated = (
        planned("--model", f"chat/openai/{name}") for name in ("gpt-4o", "gpt-4o-2024-11-20")
    )
    assert (family["usd"], family["why"]) == (dated["usd"], "")
    assert dated["why"] == "priced as gpt-4o"


@pytest.mark.slow
def test_parts_of_newt_are_left_out_by_flags(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    make_dataset("newt", tmp_path / "newt", 700)
    base = ["plan", "--data", f"newt={tmp_path / 'newt'}", "--json", "--model", "chat/mock/wren"]

    def n_requests(*more: str) -> int:
        assert main([*base, "--n-test", "1", *more]) == 0
        requests: int = json.loads(capfd.readouterr().out)["jobs"][0]["requests"]
        return requests

    newt = ("--task", "newt")
    assert n_requests(*newt) == 164
    assert n_requests(*newt, "--exclude-clusters", "appearance", "behavior") == 164 - 132 - 16
    assert n_requests(*newt, "--exclude-subclusters", "species") == 164 - 102
    assert n_requests(*newt, "--exclude-tasks", "ml_age_*") == 164 - 12
    assert n_requests("--task", "newt/age", "--exclude-tasks", "ml_age_bald_eagle") == 13

    run = ["run", *base[1:3], *base[4:]]
    assert main([*run, *newt, "--exclude-subclusters", "specis"]) == 2
    assert "Did you mean 'species'" in capfd.readouterr().err
    assert main([*run, "--task", "world-stage", "--exclude-clusters", "behavior"]) == 2
    assert "only `newt`" in capfd.readouterr().err
    grid = tmp_path / "grid.toml"
    grid.write_text('models = ["chat/mock/wren"]\ntasks = ["newt"]\n')
    assert main(["plan", str(grid), "--exclude-clusters", "behavior"]) == 2
    assert "--exclude-clusters and" in (err := capfd.readouterr().err) and "not both" in err


def _planned(capfd: pytest.CaptureFixture[str], *flags: str) -> tuple[int, str]:
    capfd.readouterr()
    code = main(["plan", *flags])
    return code, capfd.readouterr().err


def test_a_price_leaves_the_room_of_answers_alone(
    world: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """What `plan` calls "at most" is what `run` asks for, with a price and without."""
    server = Parrot('{"answer": "A"}')
    with running(server) as url:
        model = f"chat/custom/ours?base_url={url}"
        flags = command(world, "--model", model, *SMALL, "--price", "0.5/10")[1:]
        _, said = _planned(capfd, *flags)
        assert main(["run", *flags]) == 0
    room = {body["max_tokens"] for body in server.bodies}
    assert room == {1024} and "at most 4,096 out" in said


def test_plan_counts_what_run_will_send(world: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Defect: answers that were stored were planned again, each at the price of all its room."""
    server = Parrot('{"answer": "A"}', "It could be anything.")
    with running(server) as url:
        model = f"chat/custom/ours?base_url={url}"
        flags = command(world, "--model", model, *SMALL, "--price", "200/300")[1:]
        said = _planned(capfd, *flags)[1]
        assert "chat: 4 requests" in said
        most, likely = (float(part.split(",")[0].split(". ")[0]) for part in _money(said))
        assert likely < most / 2
        main(["run", *flags])
        more = ["9" if word == "4" else word for word in flags]
        for words in (more, [*more, "--again", "unparsed"]):
            n_before = len(server.bodies)
            capfd.readouterr()
            said = _planned(capfd, *words)[1]
            main(["run", *words])
            n_sent = len(server.bodies) - n_before
            assert 0 < n_sent < 9 and f"chat: {n_sent} requests" in said, words


def test_likely_learns_from_the_tokens_that_were_charged(
    world: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Defect: answers' lengths were learnt, the far larger part, prompts, was guessed for ever."""
    with running(Thrifty('{"answer": "A"}')) as url:
        flags = command(world, "--model", f"chat/custom/ours?base_url={url}", "--price", "100/0")[
            1:
        ]
        assert main(["run", *flags, "--n-test", "4"]) == 0
        said = _planned(capfd, *flags, "--n-test", "8")[1]
        most, likely = (float(part.split(",")[0].split(". ")[0]) for part in _money(said))
        assert "chat: 4 requests" in said and likely == pytest.approx(4 * 50 * 1e-4, abs=0.002)
        said = _planned(capfd, *flags, "--n-test", "8", "--n-train", "1")[1]  # another question
        more, likely_more = (float(part.split(",")[0].split(". ")[0]) for part in _money(said))
    assert likely_more / more == pytest.approx(likely / most, rel=0.2) and likely < most / 2


class Thrifty(Parrot):
    """Charges for 50 tokens, whatever a prompt holds."""

    def reply(self, data: bytes, digest: str = "") -> dict[str, Any]:
        tokens = {"prompt_tokens": 50, "completion_tokens": 3, "total_tokens": 53}
        return super().reply(data, digest) | {"usage": tokens}


def _money(said: str) -> list[str]:
    return [said.split(f"{words} about $")[1] for words in ("at most", "likely")]


def test_a_limit_is_that_of_one_command_and_plan_knows_it(
    world: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with running(Parrot('{"answer": "A"}')) as url:
        model = f"chat/custom/ours?base_url={url}"
        flags = command(world, "--model", model, *SMALL, "--price", "200/300")[1:]
        flags += ["--max-output", "20"]
        assert "limit: none." in _planned(capfd, *flags)[1]
        assert "limit: $99.00, which is enough." in _planned(capfd, *flags, "--max-usd", "99")[1]
        code, said = _planned(capfd, *flags, "--max-usd", "0.2")
        assert code == 0 and "limit: $0.20 for each command. `run` stops there" in said
        spent = []
        for _ in range(2):
            main(["run", *flags, "--max-usd", "0.2"])
            said = capfd.readouterr().err
            spent.append(float(said.split("answers so far cost $")[1].split(".\n")[0]))
        assert 0 < spent[0] <= 0.2 < spent[1], said
        assert f"All answers so far cost ${spent[1]:.2f}." in _planned(capfd, *flags, "--force")[1]


def test_a_spent_budget_ends_the_command_with_one_line(
    world: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with running(server := Parrot('{"answer": "A"}')) as url:
        flags = command(world, "--model", f"chat/custom/ours?base_url={url}", "--n-train", "0", "1")
        flags += ["--n-test", "20", "--concurrency", "1", "--max-output", "20"]
        assert main([*flags, "--max-tokens", "3000"]) == 4
        n_sent, said = len(server.bodies), capfd.readouterr().err
        assert 0 < n_sent < 20 and "run 2 of 2" not in said and "failed" not in said
        assert said.count("the budget is used up") == 1
        last = said.splitlines()[-1]
        assert last.startswith("fieldmark: 2 of 2 runs are not finished: the budget is used up (")
        assert f"). {n_sent} new answers are kept. Run the same command to continue: " in last
        assert main(["runs", "ls", "--json"]) == 0
        assert [run["state"] for run in json.loads(capfd.readouterr().out)] == ["killed"]
        assert main(flags) == 0
    assert len(server.bodies) == 40


def test_a_limit_below_one_question_says_what_one_may_cost(
    world: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with running(Parrot('{"answer": "A"}')) as url:
        name = ("--model", f"chat/custom/ours?base_url={url}", "--price", "1/1")
        assert main(command(world, *name, *SMALL, "--max-usd", "0.00001")) == 4
    said = capfd.readouterr().err
    assert "one question may cost up to $0.0" in said and "the limit is $0.00001" in said
    assert said.rstrip().endswith("Raise the limit.")


def test_plan_refuses_what_run_refuses(world: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A limit in money without a price; more room for the answer than the model has."""
    flags = ("--task", TASK, "--data", f"world={world}", *SMALL)
    small = "chat/mock/wren?context=2000"
    refused = {
        "--max-usd cannot be enforced": ("--model", "chat/mock/wren", "--max-usd", "1"),
        "lower --max-output": ("--model", small, "--n-train", "1", "--max-output", "1990"),
    }
    for why, added in refused.items():
        capfd.readouterr()
        assert main(["plan", *flags, *added, "--json"]) == 0
        (job,) = json.loads(capfd.readouterr().out)["jobs"]
        assert job["status"] == "refused" and why in job["why"]
        assert main(["run", *flags, *added]) == 2 and why in capfd.readouterr().err


def test_an_answer_has_at_most_half_of_the_context(world: Path) -> None:
    server = Parrot('{"answer": "A"}')
    with running(server) as url:
        name = ("--model", f"chat/custom/ours?base_url={url}&context=8000")
        assert main(command(world, *name, *SMALL, "--n-train", "3", "--effort", "low")) == 0
    assert {body["max_tokens"] for body in server.bodies} == {4000}


def test_fewer_examples_than_asked_for_are_said_everywhere(
    world: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    row = '[[chat_models]]\nprovider = "mock"\nid = "wren"\nmax_images = 3\n'
    Path("fieldmark.toml").write_text(row)
    words = "2 of the 5 examples asked for are shown: the model takes no more images (max_images)"
    flags = command(world, "--model", "chat/mock/wren", *SMALL, "--n-train", "5")[1:]
    assert main(["plan", *flags, "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["jobs"][0]["why"] == words
    assert main(["run", *flags]) == 0 and f"    {words}" in capfd.readouterr().err
    with Store.open(Path("results") / "fieldmark.db") as store:
        table = read_table(store)
        assert any(note.endswith(f"{words}.") for note in table.notes)
        (prompt,) = store.predictions(1)["info"].str.json_path_match("$.prompt").head(1)
        for form in ("csv", "json", "card", "lmms-eval"):
            content = b"".join(b"".join(chunks) for _, chunks in export(form, choose(store)))
            assert words.encode() in content, form
    assert prompt.startswith("Which") and prompt.count("Example:") == 2


def test_what_was_paid_and_answered_is_in_the_json_and_the_long_table(
    world: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with running(Parrot('{"answer": "A"}', "I would rather not say.")) as url:
        name = ("--model", f"chat/custom/ours?base_url={url}", "--price", "200/300")
        assert main(command(world, *name, *SMALL, "--concurrency", "1")) == 5
    capfd.readouterr()
    assert main(["table", "--json"]) == 0
    (row,) = json.loads(capfd.readouterr().out)
    assert (row["parse_success_rate"], row["refusal_rate"], row["failure_rate"]) == (0.5, 0.0, 0.0)
    assert row["usd_per_answer"] > 0
    assert main(["table", "--long"]) == 0
    whole = f"cost ${4 * row['usd_per_answer']:.2f} for 4 answers"
    assert whole in " ".join(capfd.readouterr().out.split())


def test_models_lists_limits_and_prices(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "chat/openai/gpt-4o-2024-11-20"]) == 0
    head, row = capfd.readouterr().out.splitlines()
    assert head.split() == ["model", "context", "output", "images", "$", "in", "/", "out"]
    assert row.split()[1:] == ["128,000", "16,384", "-", "2.5", "/", "10"]
    assert main(["models", "chat/", "--json"]) == 0
    rows = json.loads(capfd.readouterr().out)
    assert any(row["context"] and row["price"] and row["max_output"] for row in rows)
