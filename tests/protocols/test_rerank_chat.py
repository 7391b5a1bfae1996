"""Does a language model rerank as promised: by likelihood or grade, paid once, never guessed?"""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import polars as pl
import pytest
from aiohttp import web
from sklearn.metrics import average_precision_score

from fieldmark.chat import Answer, Budget, MockScript, Options
from fieldmark.chat.messages import TokenChance
from fieldmark.errors import FieldmarkError
from fieldmark.experiments import (
    ExecuteOptions,
    evaluate,
    execute,
    make_jobs,
    make_plan,
    single_axes,
)
from fieldmark.progress import Silent
from fieldmark.protocols import AskSettings, Draw, load_protocol
from fieldmark.protocols.rerank.by_answer import judge_image
from fieldmark.settings import Settings
from fieldmark.store import Store
from fieldmark.tasks import load_own_task
from kit.ask import facts_of, journalled, texts_of, wholes
from kit.chat import CountingServer, running
from kit.made import make_dataset
from kit.pictures import mark_drawn, write_image

FILES = {
    "results.py": """
        import polars as pl
        from fieldmark.data import Info, finish_table

        class Results:
            INFO = Info(title="Results", licence="CC0", citation="none")

            @staticmethod
            def table(root):
                return finish_table(pl.read_csv(root / "results.csv"), root)

            check = make = None
        """,
    "birds.yaml": """
        task: birds
        title: Birds
        dataset: results.py:Results
        data: photos
        label: relevant
        metric: ap_at_k
        also: [ndcg_at_k, mrr]
        rerank: {groups: [kind]}
        """,
}
QUERIES = ("a wren", "a robin", "a wren that sings", "an owl at night")
N = 10
"""results of each"""
GOOD = "chat/mock/wren?skill=1"
NO_TRAIN = Draw(n_train=0)
GALLERY = {"gallery": "made-16"}
FAST = Options(backoff_s=0.001, backoff_cap_s=0.01, max_attempts=2)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four queries of ten results, some of which two queries share."""
    monkeypatch.chdir(mark_drawn(tmp_path))
    for name, text in FILES.items():
        (tmp_path / name).write_text(dedent(text))
    rows = []
    for number, query in enumerate(QUERIES):
        for result in range(N):
            image = f"{(number // 2) * N + result}.png"
            if not (tmp_path / "photos" / image).exists():
                write_image(tmp_path / "photos" / image, 7 * number + result, (16, 12))
            rows.append(
                {
                    "id": f"{number}/{result}",
                    "image": image,
                    "split": "test",
                    "label": "",
                    "query": query,
                    "query_id": f"q{number}",
                    "relevant": "yes" if (result + number) % 3 == 0 else "no",
                    "kind": "songs" if "sings" in query else "looks",
                }
            )
    with (tmp_path / "photos" / "results.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return tmp_path


def settings_at(place: Path, **changes: Any) -> Settings:
    return Settings(results=place / "results", cache=place / "cache", data_root=place, **changes)


def rerank(place: Path, model: str = GOOD, **axes: Any) -> Any:
    return evaluate(model, str(place / "birds.yaml"), settings=settings_at(place), **axes)


def notes_of(place: Path, found: Any) -> dict[str, Any]:
    with Store.open(settings_at(place).store, read_only=True) as store:
        (part,) = store.finished_parts(found.run.id)
    assert part.info is not None
    return part.info


def relevant_of(place: Path) -> dict[str, int]:
    rows = pl.read_csv(place / "photos" / "results.csv")
    return {row["id"]: int(row["relevant"] == "yes") for row in rows.iter_rows(named=True)}


class Oracle(CountingServer):
    """Says what a function of the question's words makes of it: a text, and the first token with
    its rivals where there are some; or an error of its code."""

    def __init__(self, say: Any, script: MockScript | None = None) -> None:
        super().__init__(script)
        self.say, self.keeps_bodies = say, True

    async def _answer(self, request: web.BaseRequest, data: bytes) -> web.StreamResponse:
        if isinstance(self.say(json.loads(data)), int):
            self.bodies.append(json.loads(data))
            code = self.say(json.loads(data))
            return web.json_response({"error": {"message": "no", "code": code}}, status=code)
        return await super()._answer(request, data)

    def reply(self, data: bytes, digest: str = "") -> dict[str, Any]:
        answer = super().reply(data, digest)
        text, top = self.say(json.loads(data))
        choice = answer["choices"][0]
        choice["message"]["content"] = text
        choice.pop("logprobs", None)
        if top:
            rivals = [{"token": t, "logprob": math.log(p)} for t, p in top.items()]
            choice["logprobs"] = {"content": [{**rivals[0], "top_logprobs": rivals}]}
        return answer


# -- one answer -----------------------------------------------------------------------------------


def spoken(text: str, top: dict[str, float] | None = None, outcome: Any = "ok") -> Answer:
    tokens = [(token, math.log(share)) for token, share in (top or {}).items()]
    chances = (TokenChance(*tokens[0], tuple(tokens)),) if tokens else ()
    return Answer(outcome, text, logprobs=chances)


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        (spoken("Yes", {"Yes": 0.6, " yes": 0.1, "YES": 0.05, "No": 0.2, " no": 0.05}), 0.75),
        (spoken("No", {"No": 0.9, "Maybe": 0.1}), 0.0),
        (spoken("Yes", {"Yes": 0.9, "Sure": 0.1}), 1.0),
        (spoken("**No**", {"No": 0.3, "Yes": 0.1}), 0.25),
        (spoken("Yes, it does.", {"Y": 0.9, "The": 0.1}), 1.0),
        (spoken("No."), 0.0),
        (spoken("maybe", {"maybe": 0.9, "perhaps": 0.1}), None),
        (spoken("Yes and no"), None),
        (spoken("No", {"No": 0.9}, "refused"), None),
    ],
)
def test_the_score_is_the_share_of_yes_over_all_its_spellings(
    answer: Answer, score: float | None
) -> None:
    judged = judge_image(answer, "likelihood")
    assert judged.score == (None if score is None else pytest.approx(score, abs=1e-12))
    assert (judged.outcome == "ok") == (score is not None)


def test_the_thought_before_an_answer_is_not_its_first_word() -> None:
    thought = [
        TokenChance(token, -0.1, ((token, -0.1),)) for token in ("<think>", "No", "</think>")
    ]
    last = TokenChance("Yes", math.log(0.8), (("Yes", math.log(0.8)), ("No", math.log(0.2))))
    answer = Answer("ok", "<think>No</think>Yes", logprobs=(*thought, last))
    assert judge_image(answer, "likelihood").score == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("text", "grade"),
    [
        ("7", 7), ("10", 10), ("0", 0), ("**9**", 9), ("8/10", 8), ("8 out of 10.", 8),
        ("Answer: 6", 6), ("<think>2 or 3</think>4", 4), ("11", None), ("-3", None),
        ("7.5", None), ("6-7", None), ("maybe", None), ("I see 3 birds.", None), ("", None),
        ("There are no birds.", None), ("100", None),
    ],
)  # fmt: skip
def test_a_grade_is_read_strictly(text: str, grade: int | None) -> None:
    judged = judge_image(spoken(text), "grade")
    assert judged.score == (None if grade is None else grade / 10)
    assert (judged.outcome == "ok") == (grade is not None)


# -- end to end -----------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["auto", "likelihood", "grade"])
def test_a_mock_that_sees_puts_every_relevant_image_first(place: Path, by: str) -> None:
    found = rerank(place, GOOD, rerank={"by": by})
    assert set(found.predictions["outcome"]) == {"ok"} and len(found.predictions) == len(QUERIES)
    assert found.score.metric == "ap_at_k" and found.score.value == 1.0
    rates = wholes(found.scores)
    assert rates["parse_success_rate"] == 1 and rates["failure_rate"] == rates["refusal_rate"] == 0
    assert notes_of(place, found)["by"] == ("grade" if by == "grade" else "likelihood")
    assert notes_of(place, found)["n_requests"] == N * len(QUERIES)
    assert {score.part for score in found.scores} == {"", "kind: looks", "kind: songs"}
    blind = rerank(place, "chat/mock/wren?skill=0", rerank={"by": by})
    assert blind.score.value < 0.5 < found.score.value


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        pytest.param("chat/mock/wren?skill=0.9", marks=pytest.mark.slow),
        "chat/mock/wren?skill=0.9&logprobs=0",
    ],
)
def test_the_published_task_is_asked_on_made_data(tmp_path: Path, model: str) -> None:
    make_dataset("inquire", tmp_path / "inquire", 60)
    settings = settings_at(tmp_path)
    good = evaluate(model, "inquire-rerank", settings=settings)
    poor = evaluate("chat/mock/wren?skill=0", "inquire-rerank", settings=settings)
    assert good.score.value > 2 * poor.score.value and good.score.value > 0.4
    assert any(score.part.startswith("supercategory: ") for score in good.scores)


def test_values_are_those_of_scikit_learn_for_the_stored_scores_with_ties(place: Path) -> None:
    """Grades of a poor model tie again and again."""
    found = rerank(place, "chat/mock/wren?skill=0.6", rerank={"by": "grade"})
    relevant, n_ties = relevant_of(place), 0
    for facts in facts_of(found):
        ids, scores = zip(*facts["scores"].items(), strict=True)
        n_ties += len(scores) - len(set(scores))
        truth = [relevant[result] for result in ids]
        expected = average_precision_score(truth, scores)
        assert facts["values"]["ap_at_k"] == pytest.approx(expected, abs=1e-12)
    assert n_ties > 5


def test_the_question_holds_the_query_the_picture_and_what_was_set(place: Path) -> None:
    server = Oracle(lambda body: ("Yes", {"Yes": 0.7, "No": 0.3}))
    with running(server) as url:
        rerank(
            place, f"chat/mock/wren?base_url={url}", system="You know birds.", temp=0.5,
            max_output=7, rerank={"prompt": "Is this {}? Yes or No"},
        )  # fmt: skip
    assert len(server.bodies) == N * len(QUERIES), "the trial is not asked again"
    asked = Counter(texts_of(body) for body in server.bodies)
    assert asked == {f"You know birds.\nIs this {query}? Yes or No": N for query in QUERIES}
    for body in server.bodies:
        assert json.dumps(body).count('"image_url": {') == 1
        assert (body["temperature"], body["max_tokens"], body["top_logprobs"]) == (0.5, 7, 20)


def test_repeats_are_asked_and_stored_each(place: Path) -> None:
    found = rerank(place, "chat/mock/wren?skill=0.7", rerank={"by": "grade"}, repeats=2, temp=1.0)
    assert Counter(found.predictions["repeat"]) == {0: len(QUERIES), 1: len(QUERIES)}
    assert sum(journalled(settings_at(place)).values()) == 2 * N * len(QUERIES)


# -- the way ------------------------------------------------------------------------------------


def test_an_endpoint_without_log_probabilities_is_asked_for_grades(place: Path) -> None:
    found = rerank(place, f"{GOOD}&logprobs=false")
    assert notes_of(place, found)["by"] == "grade" and found.score.value == 1.0
    scores = {score for facts in facts_of(found) for score in facts["scores"].values()}
    assert len(scores) > 2, "none was read as yes or no"


def test_one_that_is_known_to_tell_none_is_not_tried(place: Path) -> None:
    (place / "fieldmark.toml").write_text(
        '[[chat_models]]\nprovider = "mock"\nid = "wren"\nlacks = ["logprobs"]\n'
    )
    found = rerank(place)
    assert notes_of(place, found)["by"] == "grade"
    assert sum(journalled(settings_at(place)).values()) == N * len(QUERIES)
    with pytest.raises(FieldmarkError, match=r"birds.yaml:9  by: likelihood needs a model"):
        rerank(place, rerank={"by": "likelihood"})


def test_likelihood_of_an_endpoint_that_tells_none_stops_after_a_few_requests(place: Path) -> None:
    with pytest.raises(FieldmarkError, match="gives no log-probabilities") as caught:
        rerank(place, f"{GOOD}&logprobs=false", rerank={"by": "likelihood"})
    assert caught.value.exit_code == 4
    assert sum(journalled(settings_at(place)).values()) == 3


def test_an_answer_whose_first_word_is_neither_is_read_and_counted(place: Path) -> None:
    def say(body: dict[str, Any]) -> Any:
        is_odd = "robin" in texts_of(body)
        return (
            ("The answer is yes", {"The": 0.9, "We": 0.1})
            if is_odd
            else ("No", {"No": 0.8, "Yes": 0.2})
        )

    with running(Oracle(say)) as url:
        found = rerank(place, f"chat/mock/wren?base_url={url}")
    by_query = dict(zip(found.predictions["id"], facts_of(found), strict=True))
    assert set(by_query["q1"]["scores"].values()) == {1.0}
    assert list(by_query["q0"]["scores"].values()) == [pytest.approx(0.2)] * N
    (note,) = notes_of(place, found)["fit"]["notes"]
    assert note.startswith(f"{N} of {N * len(QUERIES)} answers have no log-probability")


# -- outcomes -------------------------------------------------------------------------------------


def test_a_refused_image_stands_in_the_worst_place(place: Path) -> None:
    found = rerank(place, f"{GOOD}&p_refuse=0.1")
    rows, notes = found.predictions, notes_of(place, found)
    n, rates = Counter(rows["outcome"]), wholes(found.scores)
    assert set(n) == {"ok", "refused"} and found.score.n == len(rows)
    lost = rows.filter(pl.col("outcome") != "ok")
    assert lost["prediction"].is_null().all() and (lost["score"] < 1).all()
    assert found.score.value == pytest.approx(rows["score"].mean()) and found.score.value < 1
    assert rates["among_answered"] == 1.0
    n_refused = notes["outcomes"]["refused"]
    assert rates["refusal_rate"] == n_refused / (N * len(QUERIES)) < n["refused"] / len(rows)
    bad = [facts for facts in facts_of(found) if "unscored" in facts]
    assert sum(len(facts["unscored"]) for facts in bad) == n_refused
    assert rates["answered_rate"] == 1 - n_refused / (N * len(QUERIES)), "of images, not queries"


def test_a_request_the_endpoint_cannot_take_fails_its_query_alone(place: Path) -> None:
    server = Oracle(lambda b: 400 if "owl" in texts_of(b) else ("Yes", {"Yes": 0.9, "No": 0.1}))
    with running(server) as url:
        found = rerank(place, f"chat/mock/wren?base_url={url}")
        assert dict(found.predictions.select("id", "outcome").iter_rows()) == {
            "q0": "ok", "q1": "ok", "q2": "ok", "q3": "failed",
        }  # fmt: skip
        assert wholes(found.scores)["failure_rate"] == N / (N * len(QUERIES))
        failed = facts_of(found)[3]
        assert all("400" in why for _, why in failed["unscored"].values())
    assert sum(journalled(settings_at(place)).values()) == N * (len(QUERIES) - 1)


def test_maybe_is_unparsed_by_either_way(place: Path) -> None:
    def say(body: dict[str, Any]) -> Any:
        is_asked = "sings" in texts_of(body)
        graded = "whole number" in texts_of(body)
        return ("maybe", None) if is_asked else ("5" if graded else "Yes", {"Yes": 0.9, "No": 0.1})

    with running(Oracle(say)) as url:
        for by in ("likelihood", "grade"):
            found = rerank(place, f"chat/mock/wren?base_url={url}", rerank={"by": by})
            assert Counter(found.predictions["outcome"]) == {"ok": 3, "unparsed": 1}
            assert wholes(found.scores)["parse_success_rate"] == 0.75
            assert found.score.n == 4


def test_broken_images_end_the_run_before_anything_is_paid_or_are_left_out(place: Path) -> None:
    (place / "photos" / "3.png").write_bytes(b"not a picture")
    with pytest.raises(FieldmarkError, match="Nothing was asked"):
        rerank(place)
    assert not journalled(settings_at(place))
    settings = settings_at(place, bad_images="skip")
    found = evaluate(GOOD, str(place / "birds.yaml"), settings=settings)
    assert notes_of(place, found)["n_bad_images"] == 1
    assert notes_of(place, found)["n_requests"] == N * len(QUERIES) - 2, "two queries share it"
    assert set(found.predictions["outcome"]) == {"ok"}


# -- money, kill, identity -------------------------------------------------------------------------

PRICED = '[[chat_models]]\nprovider = "mock"\nid = "wren"\nusd_in = 1.0\nusd_out = 4.0\n'


def plan_of(place: Path, model: str = GOOD, **axes: Any) -> Any:
    jobs = make_jobs([(model, "")], [(str(place / "birds.yaml"), "")], single_axes(axes))
    return make_plan(jobs, settings_at(place), may_load=True)


def test_a_plan_tells_what_it_takes_and_sends_nothing(place: Path) -> None:
    (place / "fieldmark.toml").write_text(PRICED)
    (planned,) = plan_of(place, n_test=2, repeats=3).jobs
    assert planned.cost is not None and planned.cost.n == 2 * N * 3
    assert planned.cost.tokens_out == 1024 * planned.cost.n and planned.cost.usd > 0
    assert not journalled(settings_at(place))


def test_the_cap_holds_and_the_same_command_goes_on(place: Path) -> None:
    (place / "fieldmark.toml").write_text(PRICED)
    budget = Budget(max_usd=0.006)
    how = ExecuteOptions(shared={"budget": budget, "sending": Options(concurrency=2)})
    outcome = execute(plan_of(place), settings_at(place), Silent(), how)
    (failure,) = outcome.failures
    assert "the budget is used up" in failure.error and failure.exit_code == 4
    assert budget.spent_usd <= 0.006
    n_kept = sum(journalled(settings_at(place)).values())
    assert 3 <= n_kept < N * len(QUERIES)
    found = rerank(place)
    assert set(journalled(settings_at(place)).values()) == {1}, "nothing is asked twice"
    assert sum(journalled(settings_at(place)).values()) == N * len(QUERIES)
    assert wholes(found.scores)["usd_per_answer"] > 0


def test_failures_are_asked_again_and_only_they(place: Path) -> None:
    flaky = f"{GOOD}&p_500=0.5"
    outcome = execute(
        plan_of(place, flaky),
        settings_at(place),
        Silent(),
        ExecuteOptions(shared={"sending": FAST}),
    )
    assert outcome.n_done == 1
    before = journalled(settings_at(place))
    with Store.open(settings_at(place).store) as store:
        rows = store.predictions(1)
    assert "failed" in set(rows["outcome"]) and 0 < len(before) < N * len(QUERIES)
    again = ExecuteOptions(
        shared={"sending": Options(backoff_s=0.001, backoff_cap_s=0.01)}, force=True
    )
    jobs = make_jobs([(flaky, "")], [(str(place / "birds.yaml"), "")], single_axes({}))
    plan = make_plan(jobs, settings_at(place), force=True, may_load=True)
    assert execute(plan, settings_at(place), Silent(), again).n_done == 1
    assert set(journalled(settings_at(place)).values()) == {1}
    assert len(journalled(settings_at(place))) == N * len(QUERIES)


@pytest.mark.parametrize(
    ("axes", "status"),
    [
        ({"rerank": {"prompt": "Is it {}? Yes or No."}}, "run"),
        ({"rerank": {"by": "grade"}}, "run"),
        ({"rerank": {"grade_prompt": "Grade {} from 0 to 10."}}, "run"),
        ({"temp": 0.7}, "run"),
        ({"system": "You know birds."}, "run"),
        ({"max_output": 5}, "run"),
        ({"rpm": 600.0, "concurrency": 3, "max_usd": 5.0, "tpm": 1e6}, "done"),
        ({"temp": 0.0}, "done"),
        ({"cot_enabled": True}, "refused"),
        ({"n_train": 2}, "refused"),
    ],
)
def test_what_can_change_an_answer_makes_another_run(
    place: Path, axes: dict[str, Any], status: str
) -> None:
    rerank(place)
    (planned,) = plan_of(place, **axes).jobs
    assert planned.status == status, planned.why


def test_settings_of_language_models_are_not_for_dual_encoders(place: Path) -> None:
    task, protocol = load_own_task("inquire-rerank"), load_protocol("rerank")
    dual = ("embeds_images", "embeds_texts")

    def why(settings: AskSettings, abilities: tuple[str, ...] = dual) -> str | None:
        return protocol.why_not(task, NO_TRAIN, settings, abilities)

    assert why(AskSettings()) is None
    assert why(AskSettings(temp=0.0, rpm=5.0, max_usd=1.0)) is None
    assert "temp is for language models" in str(why(AskSettings(temp=0.7)))
    assert why(AskSettings(temp=0.7), ("answers",)) is None
    assert "embeds texts" in str(why(AskSettings(), ("embeds_images",)))
    full = load_own_task("inquire-fullrank")
    full = full.model_copy(update={"rerank": full.block("rerank").model_copy(update=GALLERY)})
    assert protocol.why_not(full, NO_TRAIN, AskSettings(), dual) is None
    refused = str(protocol.why_not(full, NO_TRAIN, AskSettings(), ("answers",)))
    assert "ranked by dual encoders" in refused


# -- a model on this machine -----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["llava", "qwen2_vl"])
def test_a_local_model_is_scored_by_its_likelihoods(place: Path, kind: str) -> None:
    pytest.importorskip("transformers")
    from fieldmark.chat import Picture, user
    from kit.tiny_chat import load_tiny, save_tiny

    folder = save_tiny(kind, place / kind)
    found = rerank(place, f"hf-chat/{folder}", n_test=1)
    (facts,), (query,) = facts_of(found), found.predictions["target"]
    assert notes_of(place, found)["by"] == "likelihood" and len(facts["scores"]) == N
    assert wholes(found.scores)["usd_per_answer"] == 0
    model, rows = load_tiny(folder), pl.read_csv(place / "photos" / "results.csv")
    image = dict(rows.select("id", "image").iter_rows())
    words = f"Does this image show: {query}? Answer with one word, Yes or No, and nothing else."
    for result, score in list(facts["scores"].items())[:3]:
        asked = [user(Picture((place / "photos" / image[result]).read_bytes()), words)]
        spelt = {
            word: [
                f"{blank}{form}"
                for blank in ("", " ")
                for form in (word, word[0].upper() + word[1:], word.upper())
            ]
            for word in ("yes", "no")
        }
        yes, no = (np.exp(model.score(asked, texts)).sum() for texts in spelt.values())
        assert score == pytest.approx(yes / (yes + no), rel=1e-3)
    assert len(set(facts["scores"].values())) > 1
    graded = rerank(place, f"hf-chat/{folder}?max_tokens=4", n_test=1, rerank={"by": "grade"})
    assert set(graded.predictions["outcome"]) <= {"ok", "unparsed", "length", "refused"}
