"""doc_to_*: every form of every field, and one line for what fits none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from fieldmark.errors import UsageError
from fieldmark.lmms.ask.fields import Fields
from fieldmark.lmms.ask.settings import prompt_kwargs
from kit.documents import write_task

DOC = {"question": "Which?", "answer": "owl", "number": 2, "options": ["bat", "owl"], "n": "1"}


def _fields(
    folder: Path, text: str, code: str = "", kwargs: Any = None, target: Any = None
) -> Fields:
    task = write_task(folder, text, code)
    return Fields(task, kwargs, target, (*DOC, "image"))


class TestText:
    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            ("question", "Which?"),
            ("number", 2),
            ('"Q: {{question}}\\nA:"', "Q: Which?\nA:"),
            ('"{{n}}"', "1"),
            ("1", 1),
            ('""', ""),
            ("no column", "no column"),
        ],
    )
    def test_forms(self, tmp_path: Path, value: str, expected: Any) -> None:
        got = _fields(tmp_path, f"doc_to_text: {value}").text(DOC)
        assert (got, type(got)) == (expected, type(expected))

    @pytest.mark.parametrize("name", ["image", "images"])
    def test_templates_and_texts_see_no_pictures(self, tmp_path: Path, name: str) -> None:
        """The prompt is the same at every start, and no template can write a file."""
        picture = Image.new("RGB", (4, 4))
        doc = {**DOC, "image": picture, "images": [picture]}
        out = tmp_path / "drawn.png"
        for template in (f"{{{{ {name} }}}}", f"{{{{ {name}.save('{out}') }}}}"):
            with pytest.raises(UsageError, match=f"uses '{name}', which is not a column"):
                _fields(tmp_path, f'doc_to_text: "{template}"').text(doc)
        assert not out.exists()
        fields = Fields(write_task(tmp_path, f"doc_to_text: {name}"), None, None, tuple(doc))
        with pytest.raises(UsageError, match="a column of media"):
            fields.text(doc)

    def test_digits_are_a_number_only_where_there_are_choices(self, tmp_path: Path) -> None:
        text = 'doc_to_text: "{{n}}"\ndoc_to_choice: [a, b]'
        assert _fields(tmp_path, text).text(DOC) == 1
        text = "doc_to_text: n\ndoc_to_choice: [a, b]"
        assert _fields(tmp_path, text).text(DOC) == "1", "a column is given as it is"

    def test_a_function_gets_kwargs_only_where_the_task_has_them(self, tmp_path: Path) -> None:
        code = "def ask(*args):\n    return repr(args[1:])"
        text = "doc_to_text: !function utils.ask"
        assert _fields(tmp_path, text, code).text(DOC) == "()"
        assert _fields(tmp_path, text, code, {"a": 1}).text(DOC) == "({'a': 1},)"
        assert _fields(tmp_path, text, code, {}).text(DOC) == "({},)"

    def test_code_that_changes_its_kwargs_changes_no_other_document(self, tmp_path: Path) -> None:
        code = """
            def ask(doc, kwargs):
                kwargs["seen"].append(doc["n"])
                return len(kwargs["seen"])
        """
        task = write_task(
            tmp_path,
            "doc_to_text: !function utils.ask\nlmms_eval_specific_kwargs: {default: {seen: []}}",
            code,
        )
        fields = Fields(task, prompt_kwargs(task, []), None, tuple(DOC))
        assert [fields.text(DOC), fields.text(DOC)] == [1, 1]

    def test_code_among_the_kwargs_is_code(self, tmp_path: Path) -> None:
        code = """
            def ask(doc, kwargs):
                return kwargs["how"][0](doc["answer"])
            def loud(text):
                return text.upper()
        """
        text = """
            doc_to_text: !function utils.ask
            lmms_eval_specific_kwargs: {default: {how: [!function utils.loud]}}
        """
        task = write_task(tmp_path, text, code)
        assert Fields(task, prompt_kwargs(task, []), None, tuple(DOC)).text(DOC) == "OWL"

    def test_errors_of_code_name_place_and_document(self, tmp_path: Path) -> None:
        code = "def ask(doc):\n    return doc['nothing']"
        fields = _fields(tmp_path, "doc_to_text: !function utils.ask", code)
        with pytest.raises(UsageError) as caught:
            fields.text(DOC, 7)
        line = str(caught.value)
        assert line.startswith(f"{tmp_path}/task.yaml:2  document 7: ask failed: ")
        assert "utils.py:2 KeyError: 'nothing'" in line

    def test_errors_of_templates_too(self, tmp_path: Path) -> None:
        fields = _fields(tmp_path, 'doc_to_text: "{{qestion}}"')
        with pytest.raises(UsageError) as caught:
            fields.text(DOC, 7)
        assert str(caught.value) == (
            f"{tmp_path}/task.yaml:2  document 7: doc_to_text: a template uses 'qestion', "
            "which is not a column. Did you mean 'question'?"
        )

    @pytest.mark.parametrize("value", [["a", "b"], 1.5, True, {"a": "b"}, None])
    def test_other_values_are_refused(self, tmp_path: Path, value: Any) -> None:
        task = write_task(tmp_path, "doc_to_text: a").model_copy(update={"doc_to_text": value})
        with pytest.raises(UsageError, match="expected text, a column, a template or a !function"):
            Fields(task, None, None, ()).text(DOC)

    def test_a_column_of_pictures_is_no_text(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="'image', a column of media"):
            _fields(tmp_path, "doc_to_text: image").text(DOC)


class TestTarget:
    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            ("answer", "owl"),
            ("options", ["bat", "owl"]),
            ("3", 3),
            ("[a, b]", ["a", "b"]),
            ('""', ""),
            ('"{{answer}}!"', "owl!"),
            ('"{{options}}"', ["bat", "owl"]),
            ('"[not a list]"', "[not a list]"),
            ('"["', "["),
            ('"{{n}}"', "1"),
        ],
    )
    def test_forms(self, tmp_path: Path, value: str, expected: Any) -> None:
        assert _fields(tmp_path, f"doc_to_target: {value}").target(DOC) == expected

    def test_digits_are_a_number_where_there_are_choices(self, tmp_path: Path) -> None:
        text = 'doc_to_target: "{{n}}"\ndoc_to_choice: options'
        assert _fields(tmp_path, text).target(DOC) == 1

    def test_a_function_gets_the_models_target_kwargs(self, tmp_path: Path) -> None:
        code = "def answer(*args):\n    return repr(args[1:])"
        text = "doc_to_target: !function utils.answer"
        assert _fields(tmp_path, text, code, {"prompt": 1}).target(DOC) == "()"
        assert _fields(tmp_path, text, code, None, "gen").target(DOC) == "('gen',)"

    def test_a_list_of_the_file_cannot_be_changed_by_a_caller(self, tmp_path: Path) -> None:
        fields = _fields(tmp_path, "doc_to_target: [a]")
        fields.target(DOC).append("b")
        assert fields.target(DOC) == ["a"]


class TestChoices:
    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            ("options", ["bat", "owl"]),
            ("[no, newt]", [False, "newt"]),
            ("{b: first, a: second}", ["first", "second"]),
            ('"{{options + [answer]}}"', ["bat", "owl", "owl"]),
            ("\"['x', 'y']\"", ["x", "y"]),
        ],
    )
    def test_forms(self, tmp_path: Path, value: str, expected: list[Any]) -> None:
        fields = _fields(tmp_path, f"doc_to_choice: {value}")
        assert fields.has_choices
        assert fields.choices(DOC) == expected

    def test_a_function_gets_the_document_alone(self, tmp_path: Path) -> None:
        code = "def choose(*args):\n    return ('a', len(args))"
        fields = _fields(
            tmp_path, "doc_to_choice: !function utils.choose", code, {"x": 1}, {"y": 1}
        )
        assert fields.choices(DOC) == ["a", 1]

    @pytest.mark.parametrize("value", ["answer", '"{{answer}}"', '"no literal ("', "[]"])
    def test_what_gives_no_list_is_refused(self, tmp_path: Path, value: str) -> None:
        with pytest.raises(UsageError, match=r"task.yaml:2  document 3: doc_to_choice gave .*list"):
            _fields(tmp_path, f"doc_to_choice: {value}").choices(DOC, 3)


class TestVisuals:
    def test_none_shows_nothing(self, tmp_path: Path) -> None:
        fields = _fields(tmp_path, "doc_to_text: a")
        assert not fields.has_visuals
        assert fields.visuals(DOC) == []

    @pytest.mark.parametrize(
        ("cell", "expected"),
        [(b"a", [b"a"]), ([b"a", b"b"], [b"a", b"b"]), (None, []), ([None, b"a"], [b"a"])],
    )
    def test_a_column_of_one_or_several_or_none(
        self, tmp_path: Path, cell: Any, expected: list[Any]
    ) -> None:
        fields = _fields(tmp_path, "doc_to_visual: image")
        assert fields.visuals({**DOC, "image": cell}) == expected

    def test_a_function_gets_kwargs_only_if_it_takes_two(self, tmp_path: Path) -> None:
        text = "doc_to_visual: !function utils.show"
        one, two = "def show(doc):\n    return [b'1']", "def show(doc, k):\n    return [k['a']]"
        three = "def show(doc, k=5, l=6):\n    return [k]"
        assert _fields(tmp_path / "1", text, one, {"a": b"2"}).visuals(DOC) == [b"1"]
        assert _fields(tmp_path / "2", text, two, {"a": b"2"}).visuals(DOC) == [b"2"]
        assert _fields(tmp_path / "3", text, three, {"a": b"2"}).visuals(DOC) == [5]

    def test_files_are_found_from_the_tasks_folder(self, tmp_path: Path) -> None:
        (tmp_path / "photos").mkdir()
        (tmp_path / "photos" / "owl.jpg").write_bytes(b"")
        fields = _fields(tmp_path, "doc_to_visual: image")
        doc = {**DOC, "image": ["photos/owl.jpg", "photos/none.jpg", "https://x.org/a.jpg"]}
        found = [f"{tmp_path}/photos/owl.jpg", "photos/none.jpg", "https://x.org/a.jpg"]
        assert fields.visuals(doc) == found

    def test_a_name_that_is_no_column_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="doc_to_visual = 'picture': expected a column"):
            _fields(tmp_path, "doc_to_visual: picture").visuals(DOC)


class TestMessages:
    @pytest.mark.parametrize(
        ("signature", "gets"),
        [
            ("doc", None),
            ("doc, lmms_eval_specific_kwargs=None", {"a": 1}),
            ("doc, kwargs", {"a": 1}),
            ("doc, x=0, lmms_eval_specific_kwargs=None", {"a": 1}),
            ("doc, x=None, y=None", None),
        ],
    )
    def test_the_tasks_own_gets_kwargs_if_it_takes_them(
        self, tmp_path: Path, signature: str, gets: Any
    ) -> None:
        last = signature.rpartition(",")[2].partition("=")[0].strip()
        code = f"def say({signature}):\n    return {last if last != 'doc' else None}"
        fields = _fields(tmp_path, "doc_to_messages: !function utils.say", code, {"a": 1})
        assert fields.messages(DOC) == gets

    def test_any_keyword_will_do(self, tmp_path: Path) -> None:
        code = "def say(doc, **options):\n    return options"
        fields = _fields(tmp_path, "doc_to_messages: !function utils.say", code, {"a": 1})
        assert fields.messages(DOC) == {"lmms_eval_specific_kwargs": {"a": 1}}

    def test_files_of_its_pictures_are_found(self, tmp_path: Path) -> None:
        (tmp_path / "owl.jpg").write_bytes(b"")
        code = """
            def say(doc):
                pieces = [{"type": "image", "url": "owl.jpg"}, {"type": "text", "text": "owl.jpg"}]
                return [{"role": "user", "content": pieces}]
        """
        made = _fields(tmp_path, "doc_to_messages: !function utils.say", code).messages(DOC)
        assert made[0]["content"][0]["url"] == f"{tmp_path}/owl.jpg"
        assert made[0]["content"][1]["text"] == "owl.jpg"


class TestRounds:
    def test_text_is_asked_again_with_what_was_said(self, tmp_path: Path) -> None:
        code = """
            def ask(doc, kwargs=None, previous_output=None, round_idx=None,
                    previous_round_info=None):
                if round_idx == 2:
                    return None, None, True, previous_output, previous_round_info
                return [b"p"], f"round {round_idx}", False, previous_output, {"k": kwargs}
        """
        fields = _fields(tmp_path, "doc_to_text: !function utils.ask", code)
        assert fields.next_round(DOC, 1, ["a"], None) == (
            [b"p"], "round 1", False, ["a"], {"k": None},
        )  # fmt: skip
        assert fields.next_round(DOC, 2, ["a", "b"], 5) == ([], None, True, ["a", "b"], 5)

    def test_kwargs_come_by_name(self, tmp_path: Path) -> None:
        code = """
            def ask(doc, lmms_eval_specific_kwargs=None, round_idx=None):
                return f"{lmms_eval_specific_kwargs} {round_idx}"
        """
        fields = _fields(tmp_path, "doc_to_text: !function utils.ask", code, {"a": 1})
        assert fields.next_round(DOC, 1, ["x"], None) == "{'a': 1} 1"

    def test_kwargs_that_must_be_given_are_given(self, tmp_path: Path) -> None:
        code = "def ask(doc, lmms_eval_specific_kwargs, round_idx=0):\n    return str(round_idx)"
        fields = _fields(tmp_path, "doc_to_text: !function utils.ask", code)
        assert fields.next_round(DOC, 1, ["x"], None) == "1"

    def test_messages_of_a_round(self, tmp_path: Path) -> None:
        code = """
            def say(doc, round_idx=0, previous_output=None, previous_round_info=None):
                return [{"role": "user", "content": str(round_idx)}], False, previous_output, 1
        """
        fields = _fields(tmp_path, "doc_to_messages: !function utils.say", code)
        turn = [{"role": "user", "content": "3"}]
        assert fields.next_round(DOC, 3, ["x"], None) == (turn, False, ["x"], 1)


def test_the_description_is_rendered(tmp_path: Path) -> None:
    fields = _fields(tmp_path, 'description: "About {{answer}}s.\\n\\n"')
    assert fields.description(DOC) == "About owls.\n"
    assert _fields(tmp_path, "").description(DOC) == ""
