"""Local chat model: which model on this machine does a name mean, and how is it asked?

    hf-chat/Qwen/Qwen2.5-VL-7B-Instruct            a repository of the Hugging Face hub
    hf-chat/llava-hf/llava-1.5-7b-hf@a272c74       one revision of it
    hf-chat/models/mine?context=8192               a folder

Any image-text model that transformers has code for and that brings a chat template. In float32 an
answer depends neither on batch size nor on order; in bf16 and fp16 the batch decides which kernels
run, and with them the last digits: a greedy answer can turn where two tokens are all but equally
likely. Importing this file loads no torch; making a model does.

How likely given answers are (`Request.continuations`), only a model on this machine can say; a
model behind an address is asked lettered questions instead (`prompt/letters.py`).
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fieldmark import draws
from fieldmark.chat.messages import (
    DEFAULT_SETTINGS,
    Answer,
    AnswerSettings,
    Likelihood,
    Message,
)
from fieldmark.chat.send.options import (
    check_options,
    whole_number,
)
from fieldmark.errors import MissingExtra, UsageError
from fieldmark.files import canonical_json
from fieldmark.registry import split_options

if TYPE_CHECKING:
    from fieldmark.chat.budget import Budget
    from fieldmark.chat.journal import AnswerJournal
    from fieldmark.chat.local.engine import Engine
    from fieldmark.chat.local.prompt import RenderedPrompt
    from fieldmark.chat.local.run import LocalLine
    from fieldmark.chat.prices import Card, Lack
    from fieldmark.chat.send.options import Options
    from fieldmark.chat.send.pictures import PictureLimits

FAMILY = "hf-chat"
OPTIONS = {
    "context": "tokens of prompt and answer together; else what the model's configuration says",
    "max_tokens": "room for the answer",
    "max_image_px": "longest side: larger pictures are shrunk before the model's own processor",
}


@dataclass(frozen=True, slots=True, eq=False)
class LocalModel:
    """An image-text model of transformers on this machine."""

    name: str
    """as the user wrote it"""
    id: str
    """the name without family and options"""
    engine: Engine
    files: str
    """a hash over the bytes of weights, configuration, tokeniser, processor and template"""
    context: int | None
    """tokens of prompt and answer together"""
    max_tokens: int | None = None
    max_image_px: int | None = None
    lacks: ClassVar[tuple[Lack, ...]] = ("schema", "reasoning_effort")
    is_mock: ClassVar[bool] = False

    @property
    def address(self) -> dict[str, str]:
        """What the journal's key knows the model by: not where its files lie."""
        fields = {"provider": FAMILY, "model": self.files, "precision": self.engine.precision}
        px = self.max_image_px
        return fields if px is None else {**fields, "max_image_px": str(px)}

    @property
    def fingerprint(self) -> str:
        """Stands for the model in a store."""
        return draws.digest(canonical_json(self.address)).hex()

    @property
    def backend(self) -> str:
        """What ran it, for the record."""
        import torch
        import transformers

        versions = f"transformers {transformers.__version__}, torch {torch.__version__}"
        return f"{self.engine.precision} on {self.engine.device.type}, {versions}"

    @property
    def picture_limits(self) -> PictureLimits:
        from fieldmark.chat.send.pictures import PictureLimits

        return PictureLimits(self.max_image_px)

    @property
    def card(self) -> Card:
        """For those who plan: context, tokens of a picture, prices, which are known to be 0."""
        from fieldmark.chat.prices import Card

        return Card(
            provider=FAMILY, id=self.id, title=self.id, context=self.context,
            max_image_px=self.max_image_px, image_tokens=self.engine.image_rule,
            usd_in=0.0, usd_out=0.0, lacks=self.lacks,
        )  # fmt: skip

    def limit(self, name: str) -> int | None:
        """As a model behind an address has them; memory is the only other limit here."""
        return {"max_image_px": self.max_image_px}.get(name)

    def settings(self, settings: AnswerSettings) -> AnswerSettings:
        """The settings with the room for the answer that the name asks for."""
        return settings.with_room(self.max_tokens)

    def line(self, options: Options, journal: AnswerJournal | None, budget: Budget) -> LocalLine:
        """What a session asks the model through."""
        from fieldmark.chat.local.run import LocalLine

        return LocalLine(self, options, journal, budget)

    def answer(
        self, messages: Iterable[Message], settings: AnswerSettings = DEFAULT_SETTINGS
    ) -> Answer:
        """Asks one question now; for many, `ask_now` is faster and keeps a journal."""
        from fieldmark.chat.session import answer_now

        return answer_now(self, messages, settings)

    def score(self, messages: Sequence[Message], continuations: Sequence[str]) -> list[float]:
        """Summed log-probability of each continuation as the answer to the messages.

        A continuation is split into tokens by itself: models whose answers begin with a space want
        it given with one. Divide by its length to compare long with short ones.
        """
        return [
            likelihood.logprob for likelihood in self.likelihoods([(messages, continuations)])[0]
        ]

    def likelihoods(
        self,
        items: Iterable[tuple[Sequence[Message], Sequence[str]]],
        batch_size: int | None = None,
    ) -> list[list[Likelihood]]:
        """Of each item's continuations; also whether the model would write just this.

        Without messages a continuation is a text by itself, without chat template; one longer than
        the context is read in windows, and every token counts once. For many items, use
        `ask_now` and `Request.continuations`, which keep a journal.
        """
        from fieldmark.chat.local.score import Batches, score_items

        prompts = [(self.prompt(messages), tuple(texts)) for messages, texts in items]
        size = self.engine.batch_size if batch_size is None else batch_size
        batches, rows = Batches(size, self.engine.device), dict[int, list[Likelihood]]()
        for number, scored in score_items(self.engine, batches, prompts, self.context):
            if scored.error is not None:
                raise scored.error
            rows[number] = scored.likelihoods
        return [rows[number] for number in range(len(prompts))]

    def prompt(self, messages: Sequence[Message]) -> RenderedPrompt | None:
        """What is read before an answer; None = nothing but the token that begins a text."""
        return self.engine.render(messages) if messages else None


def local_model(
    name: str, device: str = "auto", precision: str = "auto", offline: bool = False
) -> LocalModel:
    """The model a name means, ready to be asked; its weights are read when they are first needed.

    `device`: auto (cuda, else mps, else cpu), cpu, cuda, cuda:1, mps. `precision`: auto (bf16 on
    cuda, float32 elsewhere), float32, bf16, fp16. `offline` forbids fetching files.
    """
    base, options = split_options(name)
    family, _, source = base.partition("/")
    if family != FAMILY or not source:
        raise UsageError(
            f"model {name!r} cannot be read: expected {FAMILY}/REPO_OR_FOLDER, "
            f"for example {FAMILY}/Qwen/Qwen2.5-VL-7B-Instruct."
        )
    check_options(name, options, OPTIONS)
    for package in ("torch", "transformers"):
        try:
            importlib.import_module(package)
        except ImportError as error:
            raise MissingExtra(f"model {name!r}", "vision", package) from error
    from fieldmark.chat.local.engine import Engine, find_folder, fingerprint
    from fieldmark.chat.local.prompt import PixelCache
    from fieldmark.devices import choose_device, choose_precision

    chosen = choose_device(device)
    context, room, long_px = (whole_number(name, key, options) for key in OPTIONS)
    folder = find_folder(name, source, offline)
    engine = Engine(name, folder, chosen, choose_precision(precision, chosen), PixelCache(long_px))
    return LocalModel(
        name, source, engine, fingerprint(folder), context or engine.context, room, long_px
    )
