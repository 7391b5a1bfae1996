"""How are prompts put before a transformers image-text model?

The processor (tokeniser, pictures, chat template) is loaded at once, so that what cannot be asked
is known before any work; the network when it is first needed: a run that the journal can answer
loads no weights. Always eval mode, no gradients, eager or SDPA attention as transformers chooses.
https://huggingface.co/docs/transformers/tasks/image_text_to_text
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import transformers

from fieldmark.chat._local_card import image_rule
from fieldmark.chat._local_files import first_line
from fieldmark.chat._local_pictures import Album
from fieldmark.chat._local_prompt import Prompt, find_template, render
from fieldmark.chat._messages import Message, Picture, user
from fieldmark.devices import DTYPES, arithmetic, is_out_of_memory
from fieldmark.errors import ModelError, OutOfMemory

CUDA_BATCH, OTHER_BATCH = 16, 4


@contextmanager
def _no_bars() -> Iterator[None]:
    """Progress is told by whoever asks for the model, not by the library."""
    from transformers.utils import logging

    had_bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if had_bars:
            logging.enable_progress_bar()


class Unfit(Exception):
    """A batch that the model cannot take: the prompt of one of its requests is to blame."""


class Engine:
    def __init__(self, name: str, folder: Path, device: Any, precision: str, album: Album) -> None:
        self.name, self.folder, self.album = name, folder, album
        self.device, self.precision = device, precision
        self.config = self._load(transformers.AutoConfig)
        self._refuse_other_kinds()
        self.processor = self._load(transformers.AutoProcessor)
        self.template = find_template(name, self.processor)
        self.tokeniser = self.processor.tokenizer

    @property
    def context(self) -> int | None:
        """Tokens of prompt and answer together."""
        found = getattr(self.config.get_text_config(), "max_position_embeddings", None)
        return int(found) if found else None

    @property
    def batch_size(self) -> int:
        return CUDA_BATCH if self.device.type == "cuda" else OTHER_BATCH

    @property
    def pad_id(self) -> int:
        own = self.tokeniser.pad_token_id
        return int(own) if own is not None else self.end_ids[0]

    @property
    def begin_id(self) -> int:
        """What stands before the first token of a bare text: the tokeniser's begin token, else the
        one that ends texts, as lm-evaluation-harness has it.
        """
        for own in (self.tokeniser.bos_token_id, self.tokeniser.eos_token_id):
            if own is not None:
                return int(own)
        return self.pad_id

    @cached_property
    def end_ids(self) -> list[int]:
        """Tokens that end an answer: the model's own, and the tokeniser's."""
        found = self.network.generation_config.eos_token_id
        own = found if isinstance(found, list) else [found]
        ids = [each for each in (*own, self.tokeniser.eos_token_id) if each is not None]
        return sorted(set(ids))

    @cached_property
    def network(self) -> Any:
        # Before transformers 4.56 the argument had another name.
        is_new = tuple(map(int, transformers.__version__.split(".")[:2])) >= (4, 56)
        dtype = {"dtype" if is_new else "torch_dtype": DTYPES[self.precision]}
        network, about = self._load(
            transformers.AutoModelForImageTextToText, output_loading_info=True, **dtype
        )
        missing = sorted(str(key) for key in about["missing_keys"])
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise ModelError(
                f"model {self.name!r}: its files hold no weights for {missing[0]}{more}, "
                "which would stay random."
            )
        try:
            return network.eval().requires_grad_(False).to(self.device)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            raise OutOfMemory(
                f"model {self.name!r}: {self.device} has too little memory for its weights in "
                f"{self.precision}: use another device, a smaller model or precision."
            ) from error

    @cached_property
    def can_trim_logits(self) -> bool:
        return "logits_to_keep" in inspect.signature(self.network.forward).parameters

    @cached_property
    def image_rule(self) -> dict[str, Any]:
        """About how many tokens a picture takes, for planning."""

        def count(picture: Picture | None) -> int:
            return self.count([user("A bird.", *([picture] if picture else []))])

        return image_rule(count)

    def count(self, messages: Sequence[Message]) -> int:
        """Tokens of a prompt, pictures included."""
        return int(self.encode([self.render(messages)], "left")["attention_mask"].sum())

    def render(self, messages: Sequence[Message]) -> Prompt:
        return render(self.processor, self.template, messages)

    def encode(self, prompts: Sequence[Prompt], side: Literal["left", "right"]) -> Any:
        """The processor's tensors for a batch, on the CPU. Either all or none have pictures."""
        texts = [prompt.text for prompt in prompts]
        images = [[self.album.open(each) for each in prompt.pictures] for prompt in prompts]
        begin = self.tokeniser.bos_token
        has_begin = bool(begin) and texts[0].startswith(begin)
        try:
            return self.processor(
                text=texts, padding=True, padding_side=side, return_tensors="pt",
                # Most templates write the begin token; the tokeniser would add a second one.
                add_special_tokens=not has_begin, **({"images": images} if images[0] else {}),
            )  # fmt: skip
        except (ValueError, IndexError, KeyError, TypeError) as error:
            raise Unfit(
                f"the model's processor refuses this prompt: {first_line(error)}"
            ) from error

    def forward(self, inputs: Any, **rest: Any) -> Any:
        """Logits of a batch that is on the device."""
        with arithmetic(self.device):
            return self.network(**inputs, use_cache=False, **rest).logits

    def place(self, inputs: Any) -> Any:
        """Onto the device, pixels in the network's own precision."""
        return inputs.to(self.device, dtype=DTYPES[self.precision])

    def _refuse_other_kinds(self) -> None:
        from transformers.models.auto import modeling_auto

        kind = self.config.model_type
        if kind not in modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES:
            raise ModelError(
                f"model {self.name!r} is of type {kind!r}, expected one that reads images and text "
                "(AutoModelForImageTextToText of transformers): choose another checkpoint."
            )

    def _load(self, kind: Any, **rest: Any) -> Any:
        """`from_pretrained` on the folder, its many kinds of failure as one line."""
        try:
            with _no_bars():
                return kind.from_pretrained(
                    str(self.folder), local_files_only=True, trust_remote_code=False, **rest
                )
        except (OSError, ValueError, RuntimeError, KeyError, TypeError, ImportError) as error:
            raise ModelError(
                f"model {self.name!r}: transformers says {first_line(error)}."
            ) from error
