"""Templates: lmms-eval's rules, a sandbox, and one line for each mistake."""

from __future__ import annotations

import pytest

from fieldmark.errors import UsageError
from fieldmark.lmms.ask.fields import compile_template, render


def test_columns_are_variables_and_one_newline_at_the_end_goes() -> None:
    assert render("Q: {{question}}\n\n", {"question": "Which?"}) == "Q: Which?\n"
    assert render("{{a}}{{b}}", {"a": 1, "b": [2, "x"]}) == "1[2, 'x']"
    assert render("plain words", {}) == "plain words"


def test_html_is_not_escaped() -> None:
    assert render("{{a}}", {"a": "<b> & 'c'"}) == "<b> & 'c'"


def test_regex_replace_takes_a_count() -> None:
    assert render("{{a|regex_replace('a', 'o')}}", {"a": "banana"}) == "bonono"
    assert render("{{a|regex_replace('a', 'o', 1)}}", {"a": "banana"}) == "bonana"
    assert render(r"{{a|regex_replace('(n)(a)', '\\2\\1')}}", {"a": "na"}) == "an"


def test_methods_of_values_and_loops_work() -> None:
    template = "{% for each in names %}{{loop.index}}. {{each.strip().title()}} {% endfor %}"
    assert render(template, {"names": [" owl", "bat "]}) == "1. Owl 2. Bat "


def test_a_column_called_like_an_argument_is_a_column() -> None:
    assert render("{{self}} {{doc}} {{template}}", {"self": 1, "doc": 2, "template": 3})


@pytest.mark.parametrize(
    ("template", "doc", "line"),
    [
        ("{{qestion}}", {"question": "x"},
         "a template uses 'qestion', which is not a column. Did you mean 'question'?"),
        ("{{zzz}}", {"a": 1, "b": 2},
         "a template uses 'zzz', which is not a column: the document has a, b."),
        ("{{zzz}}", {}, "a template uses 'zzz', which is not a column: the document has none."),
        ("{{a.b}}", {"a": {"c": 1}},
         "a template uses something that does not exist: 'dict object' has no attribute 'b'."),
        ("{{a[5]}}", {"a": [1]},
         "a template uses something that does not exist: list object has no element 5."),
        ("{{a + 1}}", {"a": "x"},
         "the template '{{a + 1}}' failed: can only concatenate str (not \"int\") to str."),
        ("{{1 / 0}}", {}, "the template '{{1 / 0}}' failed: division by zero."),
        ("{{a|regex_replace('(', '')}}", {"a": "x"},
         "the template \"{{a|regex_replace('(', '')}}\" failed: missing ), unterminated subpattern "
         "at position 0."),
    ],
)  # fmt: skip
def test_mistakes_in_rendering_are_one_line(template: str, doc: dict, line: str) -> None:
    with pytest.raises(UsageError) as caught:
        render(template, doc)
    assert str(caught.value) == line


def test_the_place_stands_first() -> None:
    with pytest.raises(UsageError, match=r"^t\.yaml:3  a template uses 'a'"):
        render("{{a}}", {}, "t.yaml:3")


@pytest.mark.parametrize("template", ["{{ open", "{% for x in %}", "{{a|no_such_filter}}"])
def test_what_is_no_jinja_is_one_line(template: str) -> None:
    with pytest.raises(UsageError, match="is not valid Jinja") as caught:
        compile_template(template)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "template",
    [
        "{{a.__class__.__mro__[1].__subclasses__()}}",
        "{{''.__class__}}",
        "{{'{0.__class__}'.format(a)}}",
        "{{cycler.__init__.__globals__}}",
    ],
)
def test_templates_reach_nothing_behind_the_values(template: str) -> None:
    with pytest.raises(UsageError) as caught:
        render(template, {"a": "x"})
    assert "\n" not in str(caught.value)
