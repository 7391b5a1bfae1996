"""How do raw responses become what is scored?

Pipelines of filters, which a task file names (`_filter_kinds` says what each does) or brings as
code: a class, a function that gives a filter, or one of the responses and documents.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from fieldmark.errors import UnknownName, UsageError, meant
from fieldmark.lmms.code.call import call
from fieldmark.lmms.score.filter_kinds import (
    CustomFilter,
    ExtendedRegexFilter,
    Filter,
    LowercaseFilter,
    MajorityVoteFilter,
    MapFilter,
    MultiChoiceRegexFilter,
    RegexFilter,
    SimpleMultiChoiceRegexFilter,
    StripThinkingFilter,
    TakeFirstFilter,
    TakeKFilter,
    UppercaseFilter,
    WhitespaceFilter,
)
from fieldmark.lmms.score.reasoning import reasoning_tags, strip_reasoning, strip_response

__all__ = [
    "FILTERS",
    "CustomFilter",
    "ExtendedRegexFilter",
    "Filter",
    "LowercaseFilter",
    "MajorityVoteFilter",
    "MapFilter",
    "MultiChoiceRegexFilter",
    "RegexFilter",
    "SimpleMultiChoiceRegexFilter",
    "StripThinkingFilter",
    "TakeFirstFilter",
    "TakeKFilter",
    "UppercaseFilter",
    "WhitespaceFilter",
    "make_filter",
    "reasoning_tags",
    "register_filter",
    "run_pipeline",
    "strip_reasoning",
    "strip_response",
]

FILTERS: dict[str, type[Filter]] = {
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


def register_filter(name: str, filter_class: type[Filter]) -> None:
    """Makes a class known under a name, for this process."""
    if name in FILTERS:
        raise UsageError(f"filter {name!r} exists already: choose another name.")
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
    if not inspect.isclass(made) and _takes(made, None, None, **options):
        return CustomFilter(lambda resps, docs: made(resps, docs, **options))
    if not _takes(made, **options):
        raise UsageError(_at(where, _wrong_options(function, made, options)))
    return _called(lambda: made(**options), where, getattr(made, "__name__", "filter"))


def run_pipeline(
    filters: Iterable[Any], resps: Sequence[Any], docs: Sequence[Any], where: str = ""
) -> list[Any]:
    """What all filters, one after the other, make of the responses; one entry for each request."""
    found = list(resps)
    for each in filters:
        n, name = len(found), type(each).__name__
        found = _called(partial(_applied, each, found, docs), where, name)
        if len(found) != n:
            text = f"filter {name} gave {len(found)} for {n} requests: expected one for each."
            raise UsageError(_at(where, text))
    return found


def _applied(each: Any, resps: list[Any], docs: Sequence[Any]) -> list[Any]:
    """A list at once: what is lazy would fail elsewhere."""
    return list(each.apply(resps, docs))


def _called(function: Callable[[], Any], where: str, name: str) -> Any:
    """Mistakes of the user's code are told in one line, as are those that filters tell."""

    def run() -> Any:
        try:
            return function()
        except UsageError as error:
            return error

    run.__name__ = name
    found = call(run, where=where or "filter_list")
    if isinstance(found, UsageError):
        raise UsageError(_at(where, str(found))) from found
    return found


def _takes(function: Callable[..., Any], *args: Any, **options: Any) -> bool:
    try:
        inspect.signature(function).bind(*args, **options)
    except (TypeError, ValueError):
        return False
    return True


def _wrong_options(
    function: str | Callable[..., Any], made: Callable[..., Any], options: Mapping[str, Any]
) -> str:
    name = function if isinstance(function, str) else getattr(function, "__name__", "filter")
    known = inspect.signature(made).parameters
    wrong = [each for each in options if each not in known]
    hint = meant(wrong[0], known) if wrong else ""
    found = f"the option {wrong[0]!r}" if wrong else f"{', '.join(options) or 'no option'}"
    return f"filter {name!r} has {found}: expected {', '.join(known) or 'none'}.{hint}"


def _at(where: str, text: str) -> str:
    return f"{where}  {text}" if where else text
