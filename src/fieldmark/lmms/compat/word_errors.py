"""Word error rate (`lmms_eval.tasks.asr_wer_utils`): which part of a transcript is wrong?"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Sequence
from typing import Any

from fieldmark.lmms.metrics.text import levenshtein

TOKENIZERS = {
    "none": ("tokenizer_none", "NoneTokenizer"),
    "13a": ("tokenizer_13a", "Tokenizer13a"),
    "intl": ("tokenizer_intl", "TokenizerV14International"),
    "zh": ("tokenizer_zh", "TokenizerZh"),
    "ja-mecab": ("tokenizer_ja_mecab", "TokenizerJaMecab"),
    "char": ("tokenizer_char", "TokenizerChar"),
}
"""type → sacrebleu's module and class"""


def remove_sp(
    text: str,
    language: str,
    *,
    puncs: str = "!,.?;:",
    no_space_languages: Collection[str] = (),
) -> str:
    """The text without special tokens such as <|en|>, without spaces before punctuation."""
    text = re.sub(r"<\|.*?\|>", " ", text)
    text = re.sub(rf" ?([{puncs}])", r"\1", re.sub(r"\s+", " ", text)).lstrip(" ")
    return re.sub(r"\s+", "", text) if language in no_space_languages else text


class EvaluationTokenizer:
    """sacrebleu's tokenizers, and what is done to their tokens after."""

    SPACE = " "
    SPACE_ESCAPE = "▁"

    def __init__(
        self,
        tokenizer_type: str = "13a",
        lowercase: bool = False,
        punctuation_removal: bool = False,
        character_tokenization: bool = False,
    ) -> None:
        import importlib

        if tokenizer_type not in TOKENIZERS:
            raise ValueError(f"tokenizer {tokenizer_type!r} is none of {', '.join(TOKENIZERS)}")
        module, name = TOKENIZERS[tokenizer_type]
        home = importlib.import_module(f"sacrebleu.tokenizers.{module}")
        self.tokenizer: Callable[[], Callable[[str], str]] = getattr(home, name)
        self.lowercase = lowercase
        self.punctuation_removal = punctuation_removal
        self.character_tokenization = character_tokenization

    @classmethod
    def remove_punctuation(cls, sent: str) -> str:
        """The sentence without tokens that are punctuation and nothing else."""
        return cls.SPACE.join(word for word in sent.split(cls.SPACE) if not _is_punctuation(word))

    def tokenize(self, sent: str) -> str:
        text = self.tokenizer()(sent)
        if self.punctuation_removal:
            text = self.remove_punctuation(text)
        if self.character_tokenization:
            text = self.SPACE.join(text.replace(self.SPACE, self.SPACE_ESCAPE))
        return text.lower() if self.lowercase else text


def _is_punctuation(token: str) -> bool:
    return all(unicodedata.category(character).startswith("P") for character in token)


def compute_wer(refs: Sequence[str], hyps: Sequence[str], language: str, **options: Any) -> float:
    """Edits between references and hypotheses, over the references' words (or characters).

    Options: `yue_languages`, `english_languages`, `chinese_languages`, `char_languages`, and the
    functions `yue_converter`, `english_normalizer`, `chinese_normalizer`, `basic_normalizer`.
    """
    tokenizer = EvaluationTokenizer("none", lowercase=True, punctuation_removal=True)
    by_character = language in options.get("char_languages", ())
    n_edits = n_items = 0
    for texts in zip(refs, hyps, strict=False):
        plain = (tokenizer.tokenize(_normalised(text, language, options)) for text in texts)
        words = [sentence.split() for sentence in plain]
        wanted, heard = (list("".join(word)) for word in words) if by_character else words
        n_edits += levenshtein(wanted, heard)
        n_items += len(wanted)
    return n_edits / n_items


def _normalised(text: str, language: str, options: dict[str, Any]) -> str:
    def of(kind: str, function: str) -> Callable[..., str] | None:
        normaliser: Callable[..., str] | None = options.get(function)
        return normaliser if language in options.get(f"{kind}_languages", ()) else None

    if convert := of("yue", "yue_converter"):
        text = convert(text, "zh-cn")
    if english := of("english", "english_normalizer"):
        text = english(text)
    last = of("chinese", "chinese_normalizer") or options.get("basic_normalizer")
    return last(text) if last else text


def zhconv_convert(text: str, target: str) -> str:
    import importlib

    converted: str = importlib.import_module("zhconv").convert(text, target)
    return converted
