"""Generating text: what does a local model answer, which token comes next, and when is it over?

Choices that must not depend on what else is in the batch, which those of transformers' `generate`
do: it samples a batch from one generator, and counts padding as words of the text. Here every draw
comes from a hash of the request's key and the step.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import (
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
)

from fieldmark import draws
from fieldmark.chat.local.engine import Engine, PromptRefused
from fieldmark.chat.local.prompt import RenderedPrompt, first_line
from fieldmark.chat.messages import AnswerSettings, TokenChance, cut
from fieldmark.devices import arithmetic


@dataclass(frozen=True, slots=True)
class DecodingSettings:
    """How tokens are chosen."""

    temperature: float = 0.0
    """0 = always the likeliest"""
    top_p: float = 1.0
    top_k: int = 0
    """0 = all"""
    repetition_penalty: float = 1.0
    n_rivals: int | None = None
    """so many alternatives are told per token; None = no probabilities"""

    @property
    def is_plain(self) -> bool:
        return not self.temperature and self.repetition_penalty == 1.0 and self.n_rivals is None


def decoding_settings(settings: AnswerSettings, defaults: Any) -> DecodingSettings:
    """What is set; what is None is the model's own default (`defaults`, its generation config)."""
    samples = bool(defaults.do_sample)
    temperature, top_k = settings.temperature, 0
    if temperature is None:
        temperature = (defaults.temperature or 1.0) if samples else 0.0
        top_k = (defaults.top_k or 0) if samples else 0
    top_p = settings.top_p if settings.top_p is not None else (defaults.top_p if samples else None)
    penalty = defaults.repetition_penalty or 1.0
    return DecodingSettings(temperature, top_p or 1.0, top_k, penalty, settings.top_logprobs)


class TokenSampler(LogitsProcessor):  # type: ignore[misc]
    """Leaves one token per row standing, for a `generate` that takes the likeliest."""

    def __init__(self, decoding: DecodingSettings, mask: Any, seeds: Sequence[str]) -> None:
        self.decoding, self.seeds = decoding, seeds
        self.mask = mask
        """attention mask of the prompts: padding is no word of the text"""
        self.steps: list[tuple[Any, ...]] = []
        """per step: chosen ids, their log-probabilities, rivals' ids and log-probabilities"""
        self.n_steps = 0

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        liked = self._penalised(input_ids, scores.float())
        chosen = self._sampled(liked) if self.decoding.temperature else liked.argmax(-1)
        if self.decoding.n_rivals is not None:
            self._note(scores.float().log_softmax(-1), chosen, self.decoding.n_rivals)
        self.n_steps += 1
        only = torch.full_like(scores, float("-inf"))
        return only.scatter(1, chosen[:, None], 0.0)

    def _penalised(self, input_ids: Any, scores: Any) -> Any:
        penalty = self.decoding.repetition_penalty
        if penalty == 1.0:
            return scores
        n_new = input_ids.shape[1] - self.mask.shape[1]
        is_text = torch.nn.functional.pad(self.mask.bool(), (0, n_new), value=True)
        seen = torch.zeros_like(scores).scatter_add(1, input_ids, is_text.to(scores.dtype)) > 0
        return torch.where(
            seen, torch.where(scores < 0, scores * penalty, scores / penalty), scores
        )

    def _sampled(self, scores: Any) -> Any:
        """Inverse transform sampling: one uniform number per row and step, from the row's seed,
        picks the first token whose cumulative probability exceeds it. In float64 on the CPU, so
        that the choice is the same on every device.
        """
        rows = scores.double().cpu() / self.decoding.temperature
        if 0 < self.decoding.top_k < rows.shape[1]:
            least = rows.topk(self.decoding.top_k).values[:, -1:]
            rows = rows.masked_fill(rows < least, float("-inf"))
        probability = rows.softmax(-1)
        if self.decoding.top_p < 1:
            ordered, index = probability.sort(descending=True, stable=True)
            is_beyond = ordered.cumsum(-1) - ordered >= self.decoding.top_p
            probability = probability.masked_fill(is_beyond.gather(1, index.argsort(1)), 0.0)
        summed = probability.cumsum(-1)
        shares = [draws.number("token", seed, self.n_steps) / 2**64 for seed in self.seeds]
        drawn = torch.tensor(shares, dtype=torch.float64)[:, None] * summed[:, -1:]
        return torch.searchsorted(summed, drawn, right=True)[:, 0].to(scores.device)

    def _note(self, logprobs: Any, chosen: Any, n_rivals: int) -> None:
        top = logprobs.topk(min(n_rivals, logprobs.shape[1]))
        chosen_logprob = logprobs.gather(1, chosen[:, None])[:, 0]
        step = (chosen, chosen_logprob, top.indices, top.values)
        self.steps.append(tuple(part.cpu() for part in step))

    def chances(self, row: int, n_tokens: int, tokeniser: Any) -> tuple[TokenChance, ...]:
        """The probabilities of an answer's first tokens."""
        return tuple(
            TokenChance(
                tokeniser.decode([int(ids[row])]),
                float(chosen_logprob[row]),
                tuple(
                    (tokeniser.decode([rival]), value)
                    for rival, value in zip(rivals[row].tolist(), values[row].tolist(), strict=True)
                ),
            )
            for ids, chosen_logprob, rivals, values in self.steps[:n_tokens]
        )


class StopStrings(StoppingCriteria):  # type: ignore[misc]
    """Ends a row once one of the strings stands in its answer; the prompt does not count."""

    def __init__(self, tokeniser: Any, strings: Sequence[str], n_prompt: int, n_rows: int) -> None:
        self.tokeniser, self.strings, self.n_prompt = tokeniser, strings, n_prompt
        self.ends: list[int | None] = [None] * n_rows
        """tokens of each answer up to the end of its stop string"""
        # A token is at least one byte, except for a few that are none: some more are looked at.
        self.window = max(len(stop.encode()) for stop in strings) + 8

    def __call__(self, input_ids: Any, scores: Any, **rest: Any) -> Any:  # noqa: ARG002
        n_new = input_ids.shape[1] - self.n_prompt
        recent = input_ids[:, max(self.n_prompt, input_ids.shape[1] - self.window) :].tolist()
        for row, ids in enumerate(recent):
            if self.ends[row] is None and self._has_stop(ids):
                self.ends[row] = n_new
        return torch.tensor([end is not None for end in self.ends], device=input_ids.device)

    def _has_stop(self, ids: list[int]) -> bool:
        text = self.tokeniser.decode(ids, skip_special_tokens=True)
        return any(string in text for string in self.strings)


@dataclass(frozen=True, slots=True)
class GeneratedText:
    text: str
    is_ended: bool
    """by the model or a stop string; False = it ran out of tokens"""
    tokens_in: int
    tokens_out: int
    """the token that ended it included"""
    logprobs: tuple[TokenChance, ...] = ()


def generate(
    engine: Engine,
    prompts: Sequence[RenderedPrompt],
    settings: AnswerSettings,
    seeds: Sequence[str],
    room: int | None,
) -> list[GeneratedText]:
    """Answers of a batch with the same settings; `room` is the context, `seeds` one per prompt."""
    inputs = engine.encode(prompts, "left")
    tokens_in = inputs["attention_mask"].sum(1).tolist()
    if room is not None and max(tokens_in) + settings.max_output_tokens > room:
        raise PromptRefused(
            f"a prompt of {max(tokens_in):,} tokens and {settings.max_output_tokens:,} for the "
            f"answer exceed the context of {room:,}"
        )
    inputs = engine.to_device(inputs)
    decoding = decoding_settings(settings, engine.network.generation_config)
    sampler = None if decoding.is_plain else TokenSampler(decoding, inputs["attention_mask"], seeds)
    width = inputs["input_ids"].shape[1]
    stops = [stop for stop in settings.stop if stop]
    stopper = StopStrings(engine.tokeniser, stops, width, len(prompts)) if stops else None
    made = _run_network(engine, inputs, settings.max_output_tokens, (sampler, stopper))
    return [
        _decoded(engine, ids, tokens_in[row], row, (sampler, stopper))
        for row, ids in enumerate(made[:, width:].tolist())
    ]


def _run_network(engine: Engine, inputs: Any, n_new: int, parts: tuple[Any, Any]) -> Any:
    config = copy.deepcopy(engine.network.generation_config)
    # Neutral values: `TokenSampler` does all choosing, `generate` takes the one token it left.
    neutral = {
        "do_sample": False, "num_beams": 1, "temperature": 1.0, "top_p": 1.0, "top_k": 50,
        "repetition_penalty": 1.0, "max_new_tokens": n_new, "max_length": None, "min_length": 0,
        "pad_token_id": engine.pad_id, "eos_token_id": engine.end_ids, "use_cache": True,
    }  # fmt: skip
    for name, value in neutral.items():
        setattr(config, name, value)
    sampler, stopper = parts
    with arithmetic(engine.device):
        try:
            return engine.network.generate(
                **inputs,
                generation_config=config,
                logits_processor=LogitsProcessorList([sampler] if sampler else []),
                stopping_criteria=StoppingCriteriaList([stopper] if stopper else []),
            )
        except ValueError as error:
            raise PromptRefused(f"the model refuses this prompt: {first_line(error)}") from error


def _decoded(
    engine: Engine, ids: list[int], tokens_in: int, row: int, parts: tuple[Any, Any]
) -> GeneratedText:
    sampler, stopper = parts
    ended = next((n for n, token in enumerate(ids) if token in engine.end_ids), len(ids))
    stopped = (stopper.ends[row] if stopper else None) or len(ids) + 1
    n_text = min(ended, stopped)
    text = engine.tokeniser.decode(
        ids[:n_text], skip_special_tokens=True, clean_up_tokenization_spaces=False
    )
    return GeneratedText(
        cut(text, stopper.strings if stopper else ()).strip(),
        is_ended=n_text < len(ids) or stopped <= len(ids),
        tokens_in=tokens_in,
        tokens_out=n_text + (ended < min(stopped, len(ids))),
        logprobs=sampler.chances(row, n_text, engine.tokeniser) if sampler else (),
    )
