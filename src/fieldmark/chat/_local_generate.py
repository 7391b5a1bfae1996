"""What does a local model answer?"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from transformers import LogitsProcessorList, StoppingCriteriaList

from fieldmark.chat._local_engine import Engine, Unfit
from fieldmark.chat._local_files import first_line
from fieldmark.chat._local_pick import Picker, StopStrings, choose_taste
from fieldmark.chat._local_prompt import Prompt
from fieldmark.chat._messages import Settings, TokenChance
from fieldmark.chat._stops import cut
from fieldmark.devices import arithmetic


@dataclass(frozen=True, slots=True)
class Written:
    text: str
    is_ended: bool
    """by the model or a stop string; False = it ran out of tokens"""
    tokens_in: int
    tokens_out: int
    """the token that ended it included"""
    logprobs: tuple[TokenChance, ...] = ()


def write(
    engine: Engine,
    prompts: Sequence[Prompt],
    settings: Settings,
    seeds: Sequence[str],
    room: int | None,
) -> list[Written]:
    """Answers of a batch with the same settings; `room` is the context, `seeds` one per prompt."""
    inputs = engine.encode(prompts, "left")
    tokens_in = [int(each) for each in inputs["attention_mask"].sum(1)]
    if room is not None and max(tokens_in) + settings.max_output_tokens > room:
        raise Unfit(
            f"a prompt of {max(tokens_in):,} tokens and {settings.max_output_tokens:,} for the "
            f"answer exceed the context of {room:,}"
        )
    inputs = engine.place(inputs)
    taste = choose_taste(settings, engine.network.generation_config)
    picker = None if taste.is_plain else Picker(taste, inputs["attention_mask"], seeds)
    width = inputs["input_ids"].shape[1]
    stops = [each for each in settings.stop if each]
    stopper = StopStrings(engine.tokeniser, stops, width, len(prompts)) if stops else None
    made = _generate(engine, inputs, settings.max_output_tokens, (picker, stopper))
    return [
        _written(engine, ids, tokens_in[row], row, (picker, stopper))
        for row, ids in enumerate(made[:, width:].tolist())
    ]


def _generate(engine: Engine, inputs: Any, n_new: int, parts: tuple[Any, Any]) -> Any:
    config = copy.deepcopy(engine.network.generation_config)
    # Neutral values: `Picker` does all choosing, and generate takes the likeliest of what it left.
    neutral = {
        "do_sample": False, "num_beams": 1, "temperature": 1.0, "top_p": 1.0, "top_k": 50,
        "repetition_penalty": 1.0, "max_new_tokens": n_new, "max_length": None, "min_length": 0,
        "pad_token_id": engine.pad_id, "eos_token_id": engine.end_ids, "use_cache": True,
    }  # fmt: skip
    for name, value in neutral.items():
        setattr(config, name, value)
    picker, stopper = parts
    with arithmetic(engine.device):
        try:
            return engine.network.generate(
                **inputs,
                generation_config=config,
                logits_processor=LogitsProcessorList([picker] if picker else []),
                stopping_criteria=StoppingCriteriaList([stopper] if stopper else []),
            )
        except ValueError as error:
            raise Unfit(f"the model refuses this prompt: {first_line(error)}") from error


def _written(
    engine: Engine, ids: list[int], tokens_in: int, row: int, parts: tuple[Any, Any]
) -> Written:
    picker, stopper = parts
    ended = next((n for n, each in enumerate(ids) if each in engine.end_ids), len(ids))
    stopped = (stopper.ends[row] if stopper else None) or len(ids) + 1
    n_text = min(ended, stopped)
    text = engine.tokeniser.decode(
        ids[:n_text], skip_special_tokens=True, clean_up_tokenization_spaces=False
    )
    return Written(
        cut(text, stopper.strings if stopper else ()).strip(),
        is_ended=n_text < len(ids) or stopped <= len(ids),
        tokens_in=tokens_in,
        tokens_out=n_text + (ended < min(stopped, len(ids))),
        logprobs=picker.chances(row, n_text, engine.tokeniser) if picker else (),
    )
