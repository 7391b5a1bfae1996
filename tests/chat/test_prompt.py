"""The messages of each kind of question: what they show, in which order, bound to which label."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmark.chat.messages import Message, Picture, Request, Text
from fieldmark.chat.parse.answer import parse_text
from fieldmark.chat.prompt.build import Built, build, parse_answer, rotations, spread
from fieldmark.chat.prompt.options import draw_pairs
from fieldmark.chat.prompt.question import (
    Asking,
    AskRules,
    Item,
    PromptQuestion,
    Shots,
    bind_names,
    make_question,
)
from fieldmark.data.sets.newt import newt_tasks
from fieldmark.errors import DataError, UsageError


def _item(name: str, label: str | None = None, n: int = 1, **more: tuple[str, ...]) -> Item:
    pictures = tuple(Picture(f"{name}{place}".encode(), f"{name}{place}.jpg") for place in range(n))
    return Item(name, pictures, label, **more)


AGE = PromptQuestion(
    "newt/age", "choice", {"not_adult": "juvenile bald eagle", "adult": "adult bald eagle"}
)
SPECIES = [f"species {number}" for number in range(20)]
TWENTY = PromptQuestion("many", "choice", {name: name for name in SPECIES}, n_choices=8)
TRAITS = PromptQuestion(
    "fish", "traits", {"Tropical": "tropical", "salt": "saltwater", "Polar": "polar"}
)
SAME = PromptQuestion("beluga", "same", subject="whale")
COUNT = PromptQuestion("birds", "count", prompt="How many birds are there?")
QUESTIONS = [
    AGE,
    TWENTY,
    TRAITS,
    SAME,
    COUNT,
    replace(AGE, letters=False),
    replace(TRAITS, letters=False),
]
TRUTHS = {"many": "species 3", "newt/age": "adult", "beluga": "different", "birds": "4"}


def _asked(question: PromptQuestion, name: str = "x") -> Item:
    n = 2 if question.kind == "same" else 1
    if question.kind == "traits":
        return _item(name, None, n, labels=("Tropical", "salt"))
    return _item(name, TRUTHS[question.task], n)


def _text(built: Built) -> str:
    return "\n".join(message.text for message in built.messages)


def _letter_line(built: Built, label: str) -> str:
    option = next(each for each in built.options if each.label == label)
    return f"{option.letter}. {option.name}"


# --- names bound to labels ---


def test_defect_small_data_metrics_newt_names_follow_labels_not_positions() -> None:
    """All 164 tasks: the truth is shown by its readable name, whatever the order of rows."""
    for task in newt_tasks().values():
        for rows in (task.classes, task.classes[::-1]):
            question = PromptQuestion(task.name, "choice", bind_names(rows, task.name))
            for label, words in task.classes:
                built = build(question, _item("i", label))
                assert built.position_of_truth is not None
                option = built.options[built.position_of_truth]
                assert (option.label, option.name) == (label, words)
                assert f"\n{option.letter}. {words}" in _text(built)
                assert parse_answer(built, f"Answer: {option.letter}").label == label
                assert parse_answer(built, words.upper()).label == label
                assert parse_answer(built, f"The answer is **{words}**.").label == label
                assert "_" not in _text(built)


def test_defect_small_data_metrics_raw_labels_are_not_shown() -> None:
    assert "not_adult" not in _text(build(AGE, _item("i", "adult")))


BOLD = replace(
    AGE, prompt="What is this a picture of, {options}? Respond with your answer in bold.",
    letters=False,
)  # fmt: skip


@pytest.mark.parametrize("layout", ["single_turn", "multi_turn"])
def test_small_data_metrics_prompt_to_the_letter(layout: str) -> None:
    """Pictures first, then the sentence with the options in a drawn order; answers in bold."""
    shots = Shots((_item("a", "adult"), _item("b", "not_adult")), k_asked=2)
    asking = Asking(layout=layout)  # type: ignore[arg-type]
    built = build(BOLD, _item("i", "adult"), shots, asking)
    names = {"adult": "adult bald eagle", "not_adult": "juvenile bald eagle"}
    sentences, answers = [], []
    for part in (part for message in built.messages for part in message.parts):
        if isinstance(part, Text):
            sentence, _, answer = part.text.partition("\n")
            is_question = sentence.startswith("What")
            sentences += [sentence] * is_question
            answers += [answer if is_question else part.text]
    orders = [sorted(names.values(), key=sentence.index) for sentence in sentences]
    assert sentences == [
        f"What is this a picture of, '{one}' or '{other}'? Respond with your answer in bold."
        for one, other in orders
    ]
    assert [answer for answer in answers if answer] == [
        "**adult bald eagle**", "**juvenile bald eagle**",
    ]  # fmt: skip
    roles = [message.role for message in built.messages]
    turns = ["user", "assistant", "user", "assistant", "user"]
    assert roles == (["user"] if layout == "single_turn" else turns)
    assert built.messages[0].parts[0] == shots.examples[0].pictures[0]


@pytest.mark.parametrize(
    "text",
    ["**juvenile bald eagle**", "It is **adult**.", "**Juvenile** I think", "I cannot tell.", ""],
)
def test_small_data_metrics_rule_always_finds_a_name(text: str) -> None:
    """difflib's closest match of what is bold at the start, or of all of the text."""
    names = {"adult bald eagle": "adult", "juvenile bald eagle": "not_adult"}
    bold = re.compile(r"\*\*(.*)\*\*").match(text)
    [best] = difflib.get_close_matches(bold[1] if bold else text, [*names], 1, cutoff=0)
    assert parse_answer(build(BOLD, _item("i", "adult")), text).label == names[best]


def test_options_inside_a_prompt_need_names() -> None:
    with pytest.raises(UsageError, match="needs `kind: choice` and `letters: false`"):
        replace(BOLD, letters=True)


def test_names_that_two_labels_share_are_told_apart() -> None:
    names = bind_names(
        [("Passer luteus", "golden sparrow"), ("Passer euchlorus", "golden sparrow")]
    )
    assert set(names.values()) == {
        "golden sparrow (Passer luteus)",
        "golden sparrow (Passer euchlorus)",
    }
    with pytest.raises(DataError, match="'adult' is called 'grown' and 'old': expected one name"):
        bind_names([("adult", "grown"), ("adult", "old")])


# --- options ---


@given(st.integers(0, 50), st.text(max_size=5))
def test_options_hold_the_truth_once_and_only_depend_on_seed_task_item(
    seed: int, name: str
) -> None:
    item = _item(name, "species 3")
    built = build(TWENTY, item, asking=Asking(seed=seed))
    labels = [each.label for each in built.options]
    assert len(set(labels)) == 8 and labels.count("species 3") == 1
    assert labels[built.position_of_truth or 0] == "species 3"
    turned = replace(TWENTY, names={name: name for name in reversed(SPECIES)})
    assert build(turned, item, asking=Asking(seed=seed)).options == built.options


def test_truth_stands_in_every_place_equally_often() -> None:
    places = Counter(
        build(TWENTY, _item(f"i{n}", "species 3")).position_of_truth for n in range(1600)
    )
    assert len(places) == 8
    assert all(140 <= n <= 260 for n in places.values())  # 200 expected, 4.5 sd = 60


def test_defect_small_data_metrics_prompts_depend_on_scheduling() -> None:
    items = [_item(f"i{n}", "species 3") for n in range(60)]
    one = [build(TWENTY, each) for each in items]
    with ThreadPoolExecutor(8) as crew:
        other = list(crew.map(lambda each: build(TWENTY, each), reversed(items)))
    assert one == other[::-1]
    assert one == [build(TWENTY, each) for each in items]


def test_rotations_put_every_option_in_every_place() -> None:
    turns = rotations(TWENTY, _item("i", "species 3"))
    assert len(turns) == 8
    assert sorted(each.position_of_truth or 0 for each in turns) == list(range(8))
    for place in range(8):
        assert len({each.options[place].label for each in turns}) == 8
    assert {frozenset(o.label for o in each.options) for each in turns} == {
        frozenset(o.label for o in turns[0].options)
    }
    assert len({_text(each) for each in turns}) == 8
    assert len(rotations(SAME, _asked(SAME))) == 1


def test_nearest_distractors_are_relatives() -> None:
    rows = [
        {"target": f"{genus} {n}", "family": family, "genus": genus, "species": str(n)}
        for family, genus in (("F", "Aus"), ("F", "Bus"), ("G", "Cus"))
        for n in range(3)
    ]
    ranks = ("family", "genus", "species")
    near = make_question("t", AskRules(choices=5, distractors="nearest", lineage=ranks), rows)
    labels = {each.label for each in build(near, _item("i", "Aus 1")).options}
    assert {"Aus 0", "Aus 1", "Aus 2"} <= labels
    assert not any(each.startswith("Cus") for each in labels)
    random = replace(near, distractors="random")
    seen = {o.label for n in range(20) for o in build(random, _item(f"i{n}", "Aus 1")).options}
    assert any(each.startswith("Cus") for each in seen)


def test_more_options_than_letters_are_listed_by_name() -> None:
    names = {f"class {n}": f"class {n}" for n in range(30)}
    built = build(PromptQuestion("t", "choice", names), _item("i", "class 7"))
    assert all(not each.letter for each in built.options)
    assert "\n- class 7" in _text(built)
    assert parse_answer(built, "Answer: class 7").label == "class 7"
    assert parse_answer(built, "class 29").label == "class 29"


# --- messages ---


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("asking", [Asking(), Asking(cot=True), Asking(is_json=True)])
@pytest.mark.parametrize("layout", ["single_turn", "multi_turn"])
def test_examples_are_answered_in_the_form_the_parser_reads_strictly(
    question: PromptQuestion, asking: Asking, layout: str
) -> None:
    """What the examples show, said back, is the truth of the item."""
    item = _asked(question, "same")
    asking = replace(asking, layout=layout)  # type: ignore[arg-type]
    # an example with the item's own id has the item's own options
    built = build(question, item, Shots((item,), 1), asking)
    parts = [part for message in built.messages for part in message.parts]
    said = [
        p.text for p in parts if isinstance(p, Text) and p.text.startswith(("Answer: ", '{"an'))
    ]
    assert len(said) == 1
    parsed = parse_answer(built, f"{said[0]}\nAnd so on", is_cut=True)
    truth = "; ".join(o.label for o in built.options if o.label in item.labels)
    assert parsed.label == (item.label or truth)
    assert parsed.how in ("answer line", "json")


def test_system_prompt_is_sent() -> None:
    built = build(AGE, _item("i", "adult"), asking=Asking(system="You know birds."))
    assert built.messages[0] == Message("system", (Text("You know birds."),))
    assert [each.role for each in build(AGE, _item("i", "adult")).messages] == ["user"]


def test_reasons_come_first_and_the_answer_last() -> None:
    text = _text(build(AGE, _item("i", "adult"), asking=Asking(cot=True)))
    assert "First say" in text and text.index("First say") < text.index("Answer: X")
    assert "First say" not in _text(build(AGE, _item("i", "adult")))
    keys = build(AGE, _item("i", "adult"), asking=Asking(cot=True, is_json=True)).schema
    assert keys is not None and list(keys["properties"]) == ["reasons", "answer"]


def test_schema_holds_what_is_offered() -> None:
    def answer(question: PromptQuestion) -> object:
        schema = build(question, _asked(question), asking=Asking(is_json=True)).schema
        return schema and schema["properties"]["answer"]

    assert answer(AGE) == {"type": "string", "enum": ["A", "B"]}
    assert answer(SAME) == {"type": "string", "enum": ["yes", "no"]}
    assert answer(COUNT) == {"type": "integer", "minimum": 0}
    assert build(AGE, _item("i", "adult")).schema is None


def test_layouts_show_the_same_in_one_message_or_in_turns() -> None:
    examples = tuple(_item(f"e{n}", label) for n, label in enumerate(["adult", "not_adult"]))
    shots = Shots(examples, 2)
    one = build(AGE, _item("i", "adult"), shots)
    many = build(AGE, _item("i", "adult"), shots, Asking(layout="multi_turn"))
    assert [each.role for each in one.messages] == ["user"]
    assert [each.role for each in many.messages] == ["user", "assistant"] * 2 + ["user"]
    for built in (one, many):
        shown = [p.name for m in built.messages for p in m.parts if isinstance(p, Picture)]
        assert shown == ["e00.jpg", "e10.jpg", "i0.jpg"]
        assert built.examples == ("e0", "e1") and built.k_used == 2
    assert many.messages[1].text.startswith("Answer: ")


def test_a_pair_is_two_pictures_with_their_names() -> None:
    built = build(SAME, _item("pair", "same", 2))
    kinds = [part.text if isinstance(part, Text) else part.name for part in built.messages[0].parts]
    assert kinds[1:] == ["Picture 1:", "pair0.jpg", "Picture 2:", "pair1.jpg"]
    assert parse_answer(built, "Yes").label == "same"
    assert parse_answer(built, "They are not the same individual.").label == "different"


def test_a_clip_is_some_frames_evenly_spread() -> None:
    clip = _item("clip", "Walk", 16)
    question = PromptQuestion("kabr", "choice", {each: each for each in ("Walk", "Run", "Graze")})
    for n, n_shown in ((4, 4), (0, 16), (99, 16)):
        request = Request("x", build(question, clip, asking=Asking(n_frames=n)).messages)
        assert len(request.pictures) == n_shown
    assert [each.name for each in spread(clip.pictures, 4)] == [
        f"clip{n}.jpg" for n in (2, 6, 10, 14)
    ]
    assert "4 frames of one clip" in _text(build(question, clip, asking=Asking(n_frames=4)))


def test_traits_are_read_as_a_set() -> None:
    built = build(TRAITS, _asked(TRAITS))
    by_label = {each.label: each.letter for each in built.options}
    parsed = parse_answer(built, f"Answer: {by_label['Polar']}, {by_label['salt']}")
    assert set(parsed.labels) == {"Polar", "salt"}
    assert parse_answer(built, "Answer: none").labels == ()
    assert parse_answer(built, "Answer: none").outcome == "parsed"


def test_open_answers_are_matched_to_taxa() -> None:
    rows = [{"target": "robin", "s": "Turdus migratorius"}, {"target": "b", "s": "Turdus merula"}]
    question = make_question("t", AskRules(kind="open", scientific="s"), rows)
    built = build(question, _item("i", "robin"))
    assert built.options == () and built.position_of_truth is None
    assert parse_answer(built, "Answer: Turdus migratorus").label == "robin"
    assert parse_answer(built, "Turdus").why == "genus only"


def test_yes_no_binds_yes_to_the_true_label() -> None:
    for names in ({"true": "", "false": ""}, {"false": "", "true": ""}, {}):
        built = build(
            PromptQuestion("fish/Polar", "yes_no", names, "Does it live in polar waters?"),
            _item("i", "true"),
        )
        assert parse_answer(built, "Yes.").label == "true"
        assert parse_answer(built, "Answer: no").label == "false"


def test_impossible_questions_are_refused_in_one_line() -> None:
    with pytest.raises(UsageError, match="needs at least 2 labels, found 1"):
        PromptQuestion("t", "choice", {"a": "a"})
    with pytest.raises(UsageError, match="choices is 1: expected 0"):
        PromptQuestion("t", "choice", {"a": "a", "b": "b"}, n_choices=1)
    with pytest.raises(UsageError, match="distractors: random"):
        PromptQuestion("t", "choice", {"a": "a", "b": "b"}, n_choices=2, distractors="nearest")
    with pytest.raises(UsageError, match="yes or no needs a prompt"):
        PromptQuestion("t", "yes_no")
    with pytest.raises(UsageError, match="names to be matched with"):
        PromptQuestion("t", "open")


# --- pairs ---


def test_pairs_are_balanced_and_drawn_per_query() -> None:
    gallery = {f"g{n}": f"whale {n % 40}" for n in range(200)}
    queries = {f"q{n}": f"whale {n % 40}" for n in range(1000)}
    pairs = draw_pairs(queries, gallery, 0, "beluga")
    assert len(pairs) == 1000
    for pair in pairs:
        same = queries[pair.query] == gallery[pair.other]
        assert pair.label == ("same" if same else "different")
    assert 430 <= sum(pair.label == "same" for pair in pairs) <= 570
    some = dict(list(queries.items())[::-7])
    drawn = {pair.query: pair for pair in pairs}
    assert all(pair == drawn[pair.query] for pair in draw_pairs(some, gallery, 0, "beluga"))


def test_a_picture_is_never_paired_with_itself_nor_asked_without_a_mate() -> None:
    whales = {"a1": "a", "a2": "a", "b1": "b", "b2": "b", "alone": "c"}
    for seed in range(30):
        pairs = draw_pairs(whales, whales, seed)
        assert {pair.query for pair in pairs} == {"a1", "a2", "b1", "b2"}
        assert all(pair.query != pair.other for pair in pairs)
    assert draw_pairs({"a1": "a"}, {"a2": "a"}, 0) == []


def test_the_last_line_decides_over_an_echo_of_the_prompt() -> None:
    built = build(AGE, _item("i", "adult"))
    echo = _text(built)
    truth = built.options[built.position_of_truth or 0]
    assert parse_text(f"{echo}\nAnswer: {truth.letter}", built.options).label == "adult"
    assert parse_answer(built, echo).label is None


def test_of_a_long_prompt_both_ends_are_kept() -> None:
    """The question stands first, what is asked about last; ten examples are kept whole."""
    examples = tuple(_item(f"e{n}", SPECIES[n % 20]) for n in range(100))
    ten = build(TWENTY, _asked(TWENTY), Shots(examples[:10], 10)).info["prompt"]
    assert ten.count("Example:") == 10 and "left out" not in ten
    long = build(TWENTY, _asked(TWENTY), Shots(examples, 100)).info["prompt"]
    assert long.startswith("Which of the options") and "letters left out …]" in long
    assert long.rindex("Now the one to answer:") > long.index("left out")
