"""The second question (clarification): which option did a model mean by words nobody can read?

Off unless `--clarify` says who is asked: the same model, or another one. Each answer that is there
and was not read gets one short request, in words only, with the question, its options and what was
written; the reply counts only in a strict place. It is journalled, priced and stored beside the
first answer, never instead of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from string import ascii_uppercase
from typing import TYPE_CHECKING

from fieldmark.chat import Answer, Form, Option, Parsed, Request, parse_text, question_text, user
from fieldmark.protocols.ask.answers import ParsedAnswer

if TYPE_CHECKING:
    from fieldmark.chat import ChatModel, LocalModel, TaxonNames
    from fieldmark.protocols.ask.sending import AskOptions, Sending
    from fieldmark.protocols.ask.sheets import Sheet

SAME = "same"
HOW = "clarified"
_MARK = "?"
"""ends the id of a second question"""
_MOST_CHARACTERS = 6_000
"""of what was written; of a longer text the end, where the answer stands"""
_RULES: dict[Form, str] = {
    "choice": "the {by} of the option that was meant and nothing else, or with none",
    "yes_no": "the {by} of the option that was meant and nothing else, or with none",
    "labels": "the {by}s of all options that were said to hold, separated by commas, and nothing "
    "else; with none if none of them was; with unclear if that cannot be told",
    "count": "the whole number that was meant and nothing else, or with unclear",
    "open": "the scientific name of the species that was meant and nothing else, or with none",
}


def clarifier(options: AskOptions) -> ChatModel | LocalModel | None:
    """The model that second questions are put to; None = none, or the one that was asked. What is
    wrong with it shows before the first questions are paid for.
    """
    name = options.settings.clarify
    if not name or name == SAME:
        return None
    from fieldmark.models import load_chat_model

    model: ChatModel | LocalModel = load_chat_model(name, send_key=options.send_key)
    options.budget.check(options.settings.priced(model).card)
    return model


def clarify(
    sheets: Sequence[Sheet],
    sending: Sending,
    options: AskOptions,
    model: ChatModel | LocalModel | None,
) -> None:
    """Asks once more about the unread answers of the sheets, and puts what was read in their
    place.
    """
    unread = [
        (sheet, place)
        for sheet in sheets
        for place, answer in enumerate(sheet.answers)
        if _is_unread(answer)
    ]
    if not options.settings.clarify or not unread:
        return
    places = {(id(sheet), *sheet.answers[place].place()): (sheet, place) for sheet, place in unread}

    def keep(request: Request, answer: Answer) -> None:
        asked, item, built, repeat = request.info
        sheet, place = places[id(asked), item.id, repeat, built.rotation]
        sheet.answers[place] = with_second(sheet.answers[place], answer)

    with _line(model, sending, options) as line:
        requests = (second_request(sheet, sheet.answers[n], line) for sheet, n in unread)
        line.send(f"{sheets[0].inquiry.task.task}, second questions", requests, keep)


def needs_no_second(sheet: Sheet) -> bool:
    return not (sheet.inquiry.settings.clarify and any(map(_is_unread, sheet.answers)))


def _is_unread(answer: ParsedAnswer) -> bool:
    return answer.outcome == "unparsed" and bool(answer.answer.text.strip())


@contextmanager
def _line(
    model: ChatModel | LocalModel | None, sending: Sending, options: AskOptions
) -> Iterator[Sending]:
    if model is None:
        yield sending
        return
    from fieldmark.protocols.ask.sending import open_sending

    with open_sending(model, options, sending.progress, outcome_of=second_outcome) as line:
        yield line


def is_second(request: Request) -> bool:
    return request.id.endswith(_MARK)


def second_outcome(request: Request, answer: Answer) -> str:
    """What became of a second question."""
    built = request.info[2]
    options, is_cut = built.taxa or built.options, answer.outcome == "length"
    parsed = read_second(answer.text, options, built.form, is_cut=is_cut)
    return answer.outcome if parsed is not None or not answer.is_answer else "unparsed"


def second_request(sheet: Sheet, unread: ParsedAnswer, line: Sending) -> Request:
    """What was asked, what was written, and the question what was meant."""
    inquiry, built = sheet.inquiry, unread.built
    built = replace(built, options=lettered(built.options))
    question = question_text(sheet.asked.question)
    text = second_text(question, built.form, built.options, unread.answer.text)
    seed = inquiry.draw.seed + unread.repeat
    settings = line.model.settings(inquiry.settings.sending(seed, None, line.model))
    info = (sheet, unread.item, built, unread.repeat)
    return Request(
        f"{unread.item.id}#{built.rotation}{_MARK}", (user(text),), settings, unread.repeat, info
    )


def second_text(question: str, form: Form, options: Sequence[Option], written: str) -> str:
    shown = lettered(options)
    marks = [f"{option.letter}." if option.letter else "-" for option in shown]
    listed = [f"{mark} {option.name}" for mark, option in zip(marks, shown, strict=True)]
    by = "letter" if shown and shown[0].letter else "name"
    parts = [
        f"A model was asked about a picture: {question}",
        *(["Options:", *listed] if listed else []),
        f'It wrote:\n"""\n{written.strip()[-_MOST_CHARACTERS:]}\n"""',
        f"Reply with {_RULES[form].format(by=by)}.",
    ]
    return "\n".join(parts)


def lettered(options: Sequence[Option]) -> tuple[Option, ...]:
    """The options with letters, their own or in the order shown; beyond 26 as they are."""
    if len(options) > len(ascii_uppercase) or any(option.letter for option in options):
        return tuple(options)
    letters = ascii_uppercase[: len(options)]
    return tuple(
        replace(option, letter=letter) for option, letter in zip(options, letters, strict=True)
    )


def with_second(first: ParsedAnswer, second: Answer) -> ParsedAnswer:
    """The answer with its second one beside it, and as read by that."""
    if not second.is_answer:
        return replace(first, second=second)
    built, is_cut = first.built, second.outcome == "length"
    parsed = read_second(second.text, built.taxa or built.options, built.form, is_cut=is_cut)
    return replace(first, second=second, parsed=parsed or first.parsed)


def read_second(
    text: str, options: Sequence[Option] | TaxonNames, form: Form, *, is_cut: bool = False
) -> Parsed | None:
    """What was meant, if that stands in a strict place."""
    offered = lettered(options) if isinstance(options, Sequence) else options
    parsed = parse_text(text, offered, form, is_cut=is_cut)
    return None if parsed.label is None or parsed.is_loose else replace(parsed, how=HOW)
