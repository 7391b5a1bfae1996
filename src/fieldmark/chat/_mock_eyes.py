"""What does the mock model see in a picture, and which answer does it choose?

It knows pictures by the SHA-256 of their bytes and what is true of each; it looks for those truths
among the options it is offered and chooses the right one with a set probability, another one
otherwise. So whole experiments mean something without a network.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fieldmark import draws
from fieldmark.chat._mock_script import MockScript

Option = tuple[str, str]
"""letter ("" = none) and name"""

_BLOCK = re.compile(r"(?:options|choices)[^:\n]{0,40}:[ \t]*\n", re.IGNORECASE)
_LETTERED = re.compile(r"^\s*\(?([A-Z]|\d{1,2})[.):]\s+(.+?)\s*$", re.MULTILINE)
_DASHED = re.compile(r"^\s*[-*•]\s+(.+?)\s*$", re.MULTILINE)
_LISTED = re.compile(r"(?:options|choices|one of|classes)\b[^:\n]{0,40}:[ \t]*(\S.*)", re.I)
_MANY = re.compile(r"all (?:options )?that (?:hold|apply)|any number of them", re.IGNORECASE)
_COUNT = re.compile(r"how many|whole number", re.IGNORECASE)
_WIDE = 2000
"""vocabularies up to this size are looked for in a prompt that lists no options"""


@dataclass(frozen=True, slots=True)
class Sight:
    """What of a request matters to an answer."""

    pictures: tuple[str, ...]
    """SHA-256 of every picture, in order"""
    text: str
    """of the last user message"""
    before: str = ""
    """of the earlier ones"""
    schema: Mapping[str, Any] | None = None

    @property
    def words(self) -> str:
        return f"{self.before}\n{self.text}"

    @property
    def target(self) -> tuple[str, Mapping[str, Any]]:
        """The key of the JSON answer that decides, and its type; ("", {}) without a schema."""
        every = dict((self.schema or {}).get("properties") or {})
        if not every:
            return "", {}
        name = "answer" if "answer" in every else next(
            (key for key, kind in every.items() if "enum" in kind), [*every][-1]
        )  # fmt: skip
        return name, every[name]

    @property
    def wants_many(self) -> bool:
        return self.target[1].get("type") == "array" or bool(_MANY.search(self.words))

    @property
    def wants_count(self) -> bool:
        return self.target[1].get("type") == "integer" or bool(_COUNT.search(self.words))


class Eyes:
    """Known pictures, or groups of them: hashes joined by "+" (a clip, a pair)."""

    def __init__(self, labels: Mapping[str, str | Collection[str]]) -> None:
        self.labels = labels
        sizes = {key.count("+") + 1 for key in labels}
        self._groups = tuple(sorted(sizes, reverse=True))
        words = {each for value in labels.values() for each in _all(value)}
        self._words = tuple(sorted(words, key=lambda word: (-len(word), word)))

    def truths(self, sight: Sight) -> tuple[tuple[str, ...], int]:
        """What is true of the last picture or group, and how many pictures that is."""
        for size in self._groups:
            found = self.labels.get("+".join(sight.pictures[-size:]))
            if found is not None and size <= len(sight.pictures):
                return _all(found), size
        return (), 1

    def offered(self, sight: Sight) -> list[Option]:
        """The options, from the last list in the prompt; examples may have lists of their own."""
        return (
            _listed(sight.text)
            or [("", name) for name in _enum(sight.target[1])]
            or _listed(sight.before)
            or ([("", "yes"), ("", "no")] if "yes or no" in sight.words else [])
            or [("", name) for name in self._said(sight.text)]
        )

    def choose(self, sight: Sight, script: MockScript) -> tuple[Option, ...]:
        """The answer; several where several are asked for, () when nothing can be said."""
        truths, size = self.truths(sight)
        who = "+".join(sight.pictures[-size:])
        luck = draws.number(script.seed, who, "skill") / 2**64
        knows = luck < script.skill_after(max(0, len(sight.pictures) - size))
        options = self.offered(sight)
        if not options and sight.wants_count:
            return (("", _count(truths, knows)),)
        options = options or [("", word) for word in (truths if knows else self._words)]
        folded = {_folded(truth) for truth in truths}
        right = [each for each in options if _folded(each[1]) in folded]
        wrong = [each for each in options if _folded(each[1]) not in folded]
        if sight.wants_many:
            return tuple(right) if knows else _with_a_slip(options, right, script.seed, who)
        pool = (right if knows else wrong) or options if right else options
        return (_drawn(pool, script.seed, who),) if pool else ()

    def _said(self, text: str) -> Iterator[str]:
        """Words of the vocabulary that the text holds, longest first, none inside another."""
        for word in self._words if len(self._words) <= _WIDE else ():
            whole = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)", re.IGNORECASE)
            if whole.search(text):
                yield word
                text = whole.sub(" ", text)


def _folded(name: str) -> str:
    """Names are the same whatever their case, and with or without a last full stop."""
    return name.casefold().rstrip(".")


def see(body: Mapping[str, Any]) -> Sight:
    """The pictures and words of a request's body."""
    hashes: list[str] = []
    texts = [""]
    for message in body.get("messages", ()):
        parts = message.get("content")
        parts = [{"type": "text", "text": parts}] if isinstance(parts, str) else parts or []
        hashes += [_hash(part["image_url"]["url"]) for part in parts if "image_url" in part]
        if message.get("role") == "user":
            texts.append("\n".join(part["text"] for part in parts if part.get("type") == "text"))
    form = (body.get("response_format") or {}).get("json_schema") or {}
    return Sight(tuple(hashes), texts[-1], "\n".join(texts[:-1]), form.get("schema"))


def _listed(text: str) -> list[Option]:
    starts = [match.end() for match in _BLOCK.finditer(text)]
    block = text[starts[-1] :] if starts else text
    least = 1 if starts else 2
    lettered = [(letter, _bare(name)) for letter, name in _LETTERED.findall(block)]
    if len(lettered) >= least:
        return lettered
    dashed = [("", _bare(name)) for name in _DASHED.findall(block)]
    if len(dashed) >= least:
        return dashed
    for line in reversed(_LISTED.findall(text)):
        names = [_bare(name) for name in re.split(r"[,;/]|\bor\b", line)]
        if sum(map(bool, names)) > 1:
            return [("", name) for name in names if name]
    return []


def _enum(kind: Mapping[str, Any]) -> list[str]:
    found = kind.get("enum") or (kind.get("items") or {}).get("enum") or ()
    return [str(each) for each in found]


def _drawn(pool: Sequence[Option], seed: int, who: str) -> Option:
    return min(pool, key=lambda each: draws.digest(seed, who, each[1], "choice"))


def _with_a_slip(
    options: Sequence[Option], right: Sequence[Option], seed: int, who: str
) -> tuple[Option, ...]:
    """The right ones with one too few or too many."""
    if not options:
        return ()
    slip = _drawn(options, seed, who)
    return tuple(each for each in options if (each in right) != (each == slip))


def _count(truths: Sequence[str], knows: bool) -> str:
    known = next((int(each) for each in truths if each.isdecimal()), None)
    return "1" if known is None else str(known if knows else known + 1)


def _hash(url: str) -> str:
    return hashlib.sha256(base64.b64decode(url.partition(",")[2])).hexdigest()


def _all(value: str | Collection[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _bare(name: str) -> str:
    return name.strip().strip("*\"'`.").strip()
