"""Filters (regular expressions, majority vote, …): how do raw responses become what is scored?

A filter takes the responses of all requests (a list for each) with their documents and gives as
many back. A task file names them, in pipelines, or brings its own as code: a class, a function that
gives a filter, or one of the responses and documents. Classes carry the names that task code
subclasses; what they do is written down in lmms-eval's guide. A response that is no text counts as
an empty one; an index that a match does not have counts as no match. What a model thought aloud
(`<think>…</think>`) is no answer and is taken out.
"""

from __future__ import annotations

import inspect
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from fieldmark.errors import UnknownName, UsageError, at, closest, meant
from fieldmark.files import parse_json
from fieldmark.lmms.code.call import call, takes

THINK = ("<think>", "</think>")
THINKING = ("<thinking>", "</thinking>")
ANALYSIS = ("<analysis>", "</analysis>")
DEFAULT = (THINK, ANALYSIS)
"""what is stripped before scoring where a task says nothing"""

Tags = tuple[tuple[str, str], ...]


def reasoning_tags(value: Any, default: Tags = DEFAULT) -> Tags:
    """The pairs that a task's `reasoning_tags` means; none for "none" and false."""
    if value is None:
        return default
    if value is False or value == "none":
        return ()
    pairs = _from_json(value) if isinstance(value, str) else value
    is_pairs = isinstance(pairs, list | tuple) and all(map(_is_pair, pairs))
    if not is_pairs:
        raise UsageError(
            f"reasoning_tags is {value!r}: expected pairs such as "
            f'[["{THINK[0]}", "{THINK[1]}"]], or none.'
        )
    return tuple((start, end) for start, end in pairs)


def _from_json(text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError:
        return text


def _is_pair(pair: Any) -> bool:
    is_two = isinstance(pair, list | tuple) and len(pair) == 2
    return is_two and all(isinstance(tag, str) and tag for tag in pair)


def strip_reasoning(text: str, pairs: Sequence[Sequence[str]]) -> str:
    """The text without the blocks between the tags, stripped.

    Where a prompt ended with the opening tag the response has only the closing one: what follows
    the last of them is the answer. A block that never ends stays.
    """
    for start, end in pairs:
        text = _without_blocks(text, start, end)
        if end in text and start not in text:
            text = text.rpartition(end)[2]
    return text.strip()


def strip_response(response: Any, pairs: Sequence[Sequence[str]]) -> Any:
    """`strip_reasoning` of a text, or of the texts in a list; anything else stays."""
    if isinstance(response, str):
        return strip_reasoning(response, pairs)
    if isinstance(response, list):
        return [strip_reasoning(x, pairs) if isinstance(x, str) else x for x in response]
    return response


def _without_blocks(text: str, start: str, end: str) -> str:
    while True:
        begin = text.find(start)
        last = text.find(end, begin) if begin >= 0 else -1
        if last < 0:
            return text
        text = text[:begin] + text[last + len(end) :]


NUMBER_AFTER_HASHES = r"#### (\-?[0-9\.\,]+)"
INVALID = "[invalid]"


class ResponseFilter:
    """The identity; task code derives its own from it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Options stand in the task file; the identity has none."""

    def apply(self, resps: Any, docs: Any) -> Any:  # noqa: ARG002
        """`resps`: a list for each request; `docs`: the document of each."""
        return resps


class _EachFilter(ResponseFilter):
    """Changes every response by itself; without options where it names none."""

    def __init__(self) -> None: ...

    def change(self, response: Any) -> Any:
        return response

    def apply(self, resps: Any, docs: Any) -> Any:  # noqa: ARG002
        return [[self.change(response) for response in responses] for responses in resps]


class TakeFirstFilter(ResponseFilter):
    """The first response; "" where there is none. What is one text already stays so."""

    def __init__(self) -> None: ...

    def apply(self, resps: Any, docs: Any) -> Any:  # noqa: ARG002
        return [
            response if isinstance(response, str) else (response[0] if response else "")
            for response in resps
        ]


class TakeKFilter(ResponseFilter):
    """The first k responses."""

    def __init__(self, k: int) -> None:
        self.k = k

    def apply(self, resps: Any, docs: Any) -> Any:  # noqa: ARG002
        resps = list(resps)
        fewest = min(map(len, resps), default=self.k)
        if fewest < self.k:
            raise UsageError(
                f"take_first_k needs {self.k} responses of a document, found {fewest}: "
                f"expected repeats: {self.k} or more in the task."
            )
        return [response[: self.k] for response in resps]


class MajorityVoteFilter(ResponseFilter):
    """The most frequent response, in a list of one; of equals the one that came first."""

    def __init__(self) -> None: ...

    def apply(self, resps: Any, docs: Any) -> Any:  # noqa: ARG002
        return [_most_frequent(response) for response in resps]


def _most_frequent(responses: Sequence[Any]) -> list[Any]:
    if not responses:
        return []
    keys = [response if isinstance(response, str) else repr(response) for response in responses]
    return [responses[keys.index(Counter(keys).most_common(1)[0][0])]]


class WhitespaceFilter(_EachFilter):
    """One leading space less."""

    def change(self, response: Any) -> Any:
        return _text(response).removeprefix(" ")


class LowercaseFilter(_EachFilter):
    def change(self, response: Any) -> Any:
        return _text(response).lower()


class UppercaseFilter(_EachFilter):
    def change(self, response: Any) -> Any:
        return _text(response).upper()


class MapFilter(_EachFilter):
    """What the mapping has for the response, else the default."""

    def __init__(
        self, mapping_dict: Mapping[Any, Any] | None = None, default_value: Any = None
    ) -> None:
        if not isinstance(mapping_dict, Mapping | None):
            raise UsageError(
                f"map: mapping_dict is a {type(mapping_dict).__name__}: expected a mapping from "
                "responses to values."
            )
        self.mapping_dict = dict(mapping_dict or {})
        self.default_value = default_value

    def change(self, response: Any) -> Any:
        return self.mapping_dict.get(response, self.default_value)


class StripThinkingFilter(_EachFilter):
    """Without what stands between tags of thought."""

    def __init__(self, tag_pairs: Sequence[Sequence[str]] | None = None) -> None:
        self.tag_pairs = tag_pairs or [list(THINK), list(THINKING)]

    def change(self, response: Any) -> Any:
        is_text = isinstance(response, str)
        return strip_reasoning(response, self.tag_pairs) if is_text else response


class CustomFilter(ResponseFilter):
    """A function of the responses and the documents."""

    def __init__(self, filter_fn: Callable[[Any, Any], Any]) -> None:
        self.filter_fn = filter_fn

    def apply(self, resps: Any, docs: Any) -> Any:
        return self.filter_fn(resps, docs)


class RegexFilter(_EachFilter):
    """One of the matches of a pattern (of its groups the first that is not empty), stripped."""

    def __init__(
        self,
        regex_pattern: str = NUMBER_AFTER_HASHES,
        group_select: int = 0,
        fallback: str = INVALID,
    ) -> None:
        self.regex_pattern = regex_pattern
        self.regex = compiled(regex_pattern)
        self.group_select = group_select
        self.fallback = fallback

    def change(self, response: Any) -> Any:
        match = _select(self.regex, _text(response), self.group_select)
        return self.fallback if match is None else match


class ExtendedRegexFilter(RegexFilter):
    """What filters that read choices have in common."""

    def __init__(
        self,
        regex_pattern: str = NUMBER_AFTER_HASHES,
        group_select: int = 0,
        fallback: str = INVALID,
        ignore_case: bool = False,
        ignore_punctuation: bool = False,
        regexes_to_ignore: Sequence[str] | None = None,
    ) -> None:
        super().__init__(regex_pattern, group_select, fallback)
        self.ignore_case = ignore_case
        self.ignore_punctuation = ignore_punctuation
        self.regexes_to_ignore = regexes_to_ignore

    @property
    def punct_tbl(self) -> dict[int, None]:
        """For `str.translate`: without the punctuation of any script."""
        return _punctuation()

    def filter_ignores(self, st: str) -> str:
        """The text without what does not count."""
        for pattern in self.regexes_to_ignore or ():
            st = compiled(pattern).sub("", st)
        if self.ignore_case:
            st = st.lower()
        return st.translate(_punctuation()) if self.ignore_punctuation else st

    def find_match(
        self, regex: re.Pattern[str], resp: str, convert_dict: Mapping[str, str] | None = None
    ) -> str:
        """The match that is asked for, converted where it can be; "" for none."""
        match = _select(regex, resp, self.group_select) or ""
        return (convert_dict or {}).get(match, match)


class MultiChoiceRegexFilter(ExtendedRegexFilter):
    """The letter "(B)": by the pattern, else by the choice's own text, else by a letter after ":".

    Documents have the column `choices`.
    """

    def apply(self, resps: Any, docs: Any) -> Any:
        return [
            [self._letter(_text(response), doc["choices"]) for response in responses]
            for responses, doc in zip(resps, _with_choices(docs), strict=True)
        ]

    def _letter(self, response: str, choices: Sequence[str]) -> str:
        letters = [chr(ord("A") + number) for number in range(len(choices))]
        text_of = [self.filter_ignores(choice.strip()) for choice in choices]
        to_letter = {
            text: f"({letter})" for text, letter in zip(text_of, letters, strict=True) if text
        }
        after_colon = f":[\\s]*({_either(letters)})"
        return (
            self.find_match(self.regex, response)
            or self._by_text(response, to_letter)
            or self.find_match(
                re.compile(after_colon), response, {letter: f"({letter})" for letter in letters}
            )
            or self.fallback
        )

    def _by_text(self, response: str, to_letter: Mapping[str, str]) -> str:
        if not to_letter:
            return ""
        pattern = re.compile(_either(to_letter))
        return self.find_match(pattern, self.filter_ignores(response), to_letter)


class SimpleMultiChoiceRegexFilter(ExtendedRegexFilter):
    """The letter of the option ("B. a wren", in the question) whose text is in the response, else
    the response without punctuation; one text for each request."""

    _OPTION = re.compile(r"\b([A-Z])\.\s+([^\n]*)")

    def apply(self, resps: Any, docs: Any) -> Any:
        return [
            self._letter(_text(responses[0]) if responses else "", doc["question"])
            for responses, doc in zip(resps, docs, strict=True)
        ]

    def _letter(self, response: str, question: str) -> str:
        texts = [text.strip() for _, text in self._OPTION.findall(question)]
        plain = re.sub(r"[^\w\s]", "", response).strip()
        match = re.search(_either(texts), plain) if texts else None
        letter_of = {text: chr(ord("A") + number) for number, text in enumerate(texts)}
        return letter_of.get(match.group(), plain) if match else plain


def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern, or one line that says what is wrong with it."""
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UsageError(f"pattern {pattern!r} is not a regular expression: {error}.") from error


def _select(regex: re.Pattern[str], response: str, index: int) -> str | None:
    matches = regex.findall(response)
    if not -len(matches) <= index < len(matches):
        return None
    match = matches[index]
    if isinstance(match, tuple):
        match = next(filter(None, match), None)
    return match if match is None else match.strip()


def _text(response: Any) -> str:
    return response if isinstance(response, str) else ""


def _either(texts: Iterable[str]) -> str:
    return "|".join(map(re.escape, texts))


def _with_choices(docs: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    for doc in docs:
        if "choices" not in doc:
            near = closest("choices", doc)
            raise UsageError(
                "multi_choice_regex needs the column 'choices', which the documents do not have"
                + (f": {near[0]!r} is nearest." if near else ".")
            )
    return docs


@lru_cache(maxsize=1)
def _punctuation() -> dict[int, None]:
    every = range(sys.maxunicode)
    return dict.fromkeys(code for code in every if unicodedata.category(chr(code))[0] == "P")


FILTERS: dict[str, type[ResponseFilter]] = {
    "custom": CustomFilter,
    "lowercase": LowercaseFilter,
    "majority_vote": MajorityVoteFilter,
    "map": MapFilter,
    "multi_choice_regex": MultiChoiceRegexFilter,
    "regex": RegexFilter,
    "remove_whitespace": WhitespaceFilter,
    "strip_thinking": StripThinkingFilter,
    "take_first": TakeFirstFilter,
    "take_first_k": TakeKFilter,
    "uppercase": UppercaseFilter,
}
"""what a task file may name"""


def register_filter(name: str, filter_class: type[ResponseFilter]) -> None:
    """Makes a class known under a name, for this process."""
    if name in FILTERS:
        raise UsageError(f"filter {name!r} already exists: choose another name.")
    FILTERS[name] = filter_class


def make_filter(
    function: str | Callable[..., Any], options: Mapping[str, Any] | None = None, where: str = ""
) -> Any:
    """The filter of a step: by name, a class, a function that gives one, or one of responses.

    `where` stands before a message, as `file:line`.
    """
    options = dict(options or {})
    if isinstance(function, str) and function not in FILTERS:
        raise UnknownName("filter", function, FILTERS, where=where)
    made = FILTERS[function] if isinstance(function, str) else function
    if not inspect.isclass(made) and takes(made, None, None, **options):
        return CustomFilter(lambda resps, docs: made(resps, docs, **options))
    if not takes(made, **options):
        raise UsageError(at(where, None, _wrong_options(function, made, options)))
    return _called(lambda: made(**options), where, getattr(made, "__name__", "filter"))


def run_pipeline(
    filters: Iterable[Any], resps: Sequence[Any], docs: Sequence[Any], where: str = ""
) -> list[Any]:
    """What all filters, one after the other, make of the responses; one entry for each request."""
    responses = list(resps)
    for step in filters:
        n, name = len(responses), type(step).__name__
        responses = _called(partial(_applied, step, responses, docs), where, name)
        if len(responses) != n:
            text = f"filter {name} gave {len(responses)} for {n} requests: expected one for each."
            raise UsageError(at(where, None, text))
    return responses


def _applied(step: Any, resps: list[Any], docs: Sequence[Any]) -> list[Any]:
    """A list at once: what is lazy would fail elsewhere."""
    return list(step.apply(resps, docs))


def _called(function: Callable[[], Any], where: str, name: str) -> Any:
    """Mistakes of the user's code are told in one line, as are those that filters tell."""

    def run() -> Any:
        try:
            return function()
        except UsageError as error:
            return error

    run.__name__ = name
    result = call(run, where=where or "filter_list")
    if isinstance(result, UsageError):
        raise UsageError(at(where, None, str(result))) from result
    return result


def _wrong_options(
    function: str | Callable[..., Any], made: Callable[..., Any], options: Mapping[str, Any]
) -> str:
    name = function if isinstance(function, str) else getattr(function, "__name__", "filter")
    parameters = inspect.signature(made).parameters
    wrong = [option for option in options if option not in parameters]
    hint = meant(wrong[0], parameters) if wrong else ""
    what = f"the option {wrong[0]!r}" if wrong else f"{', '.join(options) or 'no option'}"
    return f"filter {name!r} has {what}: expected {', '.join(parameters) or 'none'}.{hint}"
