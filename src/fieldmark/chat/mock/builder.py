"""Mock builder: what does the mock model say when it is asked for descriptions and captions?

So that `describe` and `caption` can be rehearsed from names to shards without a network. It knows
two prompts. By a schema with `spans`: numbered sentences, of which it quotes those that name a part
or a colour; `skill` is the share it decides so, the others it decides wrongly. By a line
`Species: NAME` and no schema: a photo, about which it says one sentence made of the name and of
words that stand below it. `p_invent` of its answers are not what was asked for: a quote that stands
in no sentence, a caption without the name, or one that is too long. All is drawn from the prompt,
so that it is the same in any order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fieldmark import draws
from fieldmark.chat.mock.answers import MockScript, PromptView

SPECIES = "Species: "
_SPECIES = re.compile(rf"^{SPECIES}(.+)$", re.MULTILINE)
_NUMBERED = re.compile(r"^(\d+)\. (.+)$", re.MULTILINE)
_SENTENCES = "Sentences:\n"
_COLOURS = (
    "black|white|grey|gray|brown|red|pink|orange|yellow|green|blue|violet|purple|olive|dark|pale"
)
_PARTS = (
    "head|crest|eyes?|ears?|bill|beak|neck|throat|breast|back|belly|wings?|tail|legs?|fins?|shell|"
    "abdomen|antennae|coat|fur|plumage|skin|horns?|leaf|leaves|stems?|bark|flowers?|petals|fruits?|"
    "cap|gills|body|spots|stripes|bands|scales|spines"
)
_LOOK = re.compile(rf"\b(?:{_COLOURS}|{_PARTS})\b", re.IGNORECASE)
_MARK = re.compile(rf"\b(?:{_COLOURS}|long|short|broad|round|pointed) (?:{_PARTS})\b", re.I)
_INVENTED = "The wings shimmer in seven colours."
_PLAIN = ("with a slender outline", "with a rounded outline", "with an upright outline")


def may_be_builder(settings: Mapping[str, Any], data: bytes) -> bool:
    """Could this body be a prompt of the builder? `settings` is what stands beside its messages."""
    schema = _schema(settings)
    return "spans" in (schema.get("properties") or {}) or (not schema and SPECIES.encode() in data)


def _schema(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    form = (settings.get("response_format") or {}).get("json_schema") or {}
    return form.get("schema") or {}


def build_answer(view: PromptView, script: MockScript, who: str) -> str | None:
    """The answer to a prompt of the builder, None to others; `who` stands for its pictures."""
    if "spans" in ((view.schema or {}).get("properties") or {}):
        return _quotes(view, script)
    names = _SPECIES.findall(view.words)
    if view.schema is not None or not names:
        return None
    below = view.words[view.words.rindex(f"{SPECIES}{names[-1]}") :]
    return _caption(names[-1].strip(), below, script, who)


def _luck(script: MockScript, *parts: object) -> float:
    return draws.number(script.seed, *parts) / 2**64


def _quotes(view: PromptView, script: MockScript) -> str:
    """The sentences that name a part or a colour."""
    block = view.words.rpartition(_SENTENCES)[2].partition("\n\n")[0]
    sentences = _NUMBERED.findall(block)
    spans = [
        {"sentence": int(number), "quote": sentence}
        for number, sentence in sentences
        if bool(_LOOK.search(sentence)) == (_luck(script, sentence, "keep") < script.skill)
    ]
    if _luck(script, view.words, "invent") < script.p_invent:
        spans.append({"sentence": 1, "quote": _INVENTED})
    return json.dumps({"spans": spans}, ensure_ascii=False)


def _caption(name: str, below: str, script: MockScript, who: str) -> str:
    """One sentence with the name and marks of the text below it."""
    marks = sorted({mark.lower() for mark in _MARK.findall(below)})
    chosen = draws.shuffled(marks, script.seed, who, "marks")[:3]
    words = f"with {_listed(chosen)}" if chosen else _drawn(_PLAIN, script, who)
    if _luck(script, who, below, "invent") < script.p_invent:
        return _drawn((f"An animal {words}.", f"{name} {words}, {', '.join([words] * 8)}."),
                      script, who)  # fmt: skip
    return f"{name} {words}."


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _drawn(options: Sequence[str], script: MockScript, who: str) -> str:
    return options[draws.number(script.seed, who, "builder") % len(options)]
