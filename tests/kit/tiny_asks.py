"""Requests for tiny models, and what they should answer: one by one, without cache or padding."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

from PIL import Image

from fieldmark.chat import (
    AnswerJournal,
    AnswerSettings,
    LocalModel,
    Message,
    Options,
    Picture,
    Request,
    Text,
    ask_now,
    assistant,
    system,
    user,
)
from fieldmark.chat.send.options import AskTotals
from kit.chat import make_jpeg


def photo(seed: int, size: tuple[int, int] = (60, 50), name: str = "") -> Picture:
    return Picture(make_jpeg(seed, size), name=name)


def shots(number: int) -> tuple[Message, ...]:
    """A system prompt, up to three examples, some with two pictures, and a question."""
    examples: list[Message] = []
    for shot in range(number % 4):
        pictures = [photo(90 + shot, (50 + 30 * shot, 60), f"shot-{shot}")] * (1 + shot % 2)
        examples += [user("Which bird?", *pictures), assistant(("wren", "robin")[shot % 2])]
    size = (40 + 17 * number, 90 - 5 * number)
    question = user(photo(number, size), "Which bird is it" + " now" * (number % 3) + "?")
    return (system("Answer with one word."), *examples, question)


def ask_tiny(n: int, settings: AnswerSettings | None = None) -> list[Request]:
    chosen = settings or AnswerSettings(max_output_tokens=10)
    return [Request(f"item-{number}", shots(number), chosen) for number in range(n)]


def plain_inputs(model: LocalModel, messages: tuple[Message, ...]) -> dict[str, Any]:
    """As transformers itself makes them of messages that hold their images."""

    def part(each: Any) -> dict[str, Any]:
        if isinstance(each, Text):
            return {"type": "text", "text": each.text}
        return {"type": "image", "image": Image.open(io.BytesIO(each.read())).convert("RGB")}

    turns = [{"role": m.role, "content": [part(each) for each in m.parts]} for m in messages]
    made = model.engine.processor.apply_chat_template(
        turns, add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt"
    )
    return dict(made.to(model.engine.device))


def plain_logprobs(model: LocalModel, inputs: dict[str, Any], ids: list[int]) -> Any:
    """Log-probabilities (1 + len(ids)) × vocabulary, of what follows the prompt and each token."""
    import torch

    n, tail = inputs["input_ids"].shape[1], torch.tensor([ids], dtype=torch.long)
    tail = tail.to(model.engine.device)
    longer = dict(inputs)
    for name, value in inputs.items():
        if value.shape == inputs["input_ids"].shape:
            fill = {"input_ids": tail, "attention_mask": torch.ones_like(tail)}
            longer[name] = torch.cat([value, fill.get(name, torch.zeros_like(tail))], dim=1)
    with torch.no_grad(), torch.backends.cudnn.flags(allow_tf32=False):
        logits = model.engine.network(**longer, use_cache=False).logits
    return logits[0, n - 1 :].float().log_softmax(-1)


def plain_answer(model: LocalModel, messages: tuple[Message, ...], most: int) -> list[int]:
    """Tokens of the likeliest next one, again and again, up to and with one that ends."""
    inputs, ids = plain_inputs(model, messages), []
    while len(ids) < most:
        ids.append(int(plain_logprobs(model, inputs, ids)[-1].argmax()))
        if ids[-1] in model.engine.end_ids:
            break
    return ids


def score_all(model: LocalModel, items: Any, batch_size: int | None = None) -> list[list[float]]:
    """Log-probabilities of the continuations of items (messages, continuations)."""
    rows = model.likelihoods(items, batch_size)
    return [[likelihood.logprob for likelihood in row] for row in rows]


def rolling(model: LocalModel, texts: Any, batch_size: int | None = None) -> list[float]:
    """Log-probabilities of texts by themselves."""
    return [row[0] for row in score_all(model, [((), (text,)) for text in texts], batch_size)]


def ask_local(
    model: LocalModel,
    requests: Iterable[Request],
    on_answer: Any = lambda *_: None,
    journal: AnswerJournal | None = None,
    batch_size: int | None = None,
) -> AskTotals:
    """Asks in batches of this size."""
    return ask_now(requests, model, Options(batch_size), journal, on_answer=on_answer)
