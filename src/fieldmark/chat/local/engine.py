"""Transformers engine: where are a local model's files, and how are prompts put before it?

Files are in a folder of the user's, or in a repository of the Hugging Face hub: its cache is looked
at first, and what is there is used without asking anyone. The fingerprint is over the bytes of
every file that decides an answer (weights, configuration, tokeniser, processor, chat template), so
that a moved folder is the same model and an edited one is not. Code that a repository brings is
neither fetched nor run.

The processor (tokeniser, pictures, chat template) is loaded at once, so that what cannot be asked
is known before any work; the network when it is first needed: a run that the journal can answer
loads no weights. Always eval mode, no gradients, eager or SDPA attention as transformers chooses.
https://huggingface.co/docs/transformers/tasks/image_text_to_text
"""

from __future__ import annotations

import fnmatch
import hashlib
import inspect
import io
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import transformers

from fieldmark import draws
from fieldmark.chat.local.prompt import (
    PixelCache,
    RenderedPrompt,
    find_template,
    first_line,
    render,
)
from fieldmark.chat.messages import Message, Picture, user
from fieldmark.chat.tokens import squares
from fieldmark.devices import DTYPES, arithmetic, is_out_of_memory
from fieldmark.errors import ModelError, OutOfMemory, UsageError
from fieldmark.files import parse_json
from fieldmark.registry import ask_nobody
from fieldmark.words import first_few

PATIENCE_S = 10.0
SETTINGS = (
    "config.json", "generation_config.json", "*processor*.json", "chat_template*", "tokenizer*",
    "special_tokens_map.json", "added_tokens.json", "vocab*", "merges.txt", "*.model",
)  # fmt: skip
SAFE = ("*.safetensors", "*.safetensors.index.json")
PICKLED = ("pytorch_model*.bin", "pytorch_model.bin.index.json")


def find_folder(name: str, source: str, offline: bool) -> Path:
    """The folder with the model's files; `source` is a folder or `ORG/NAME[@REVISION]`."""
    folder = Path(source).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise UsageError(f"model {name!r}: {folder / 'config.json'} does not exist.")
        return folder.resolve()
    if source.count("/") != 1 or source.startswith((".", "~", "/")):
        raise UsageError(
            f"model {name!r}: {source} is neither a folder here nor ORG/NAME on the hub."
        )
    repo, _, revision = source.partition("@")
    return _cached(repo, revision) or _fetched(name, repo, revision, offline)


def model_files(folder: Path) -> list[Path]:
    """The files that decide an answer, in the order of their names."""
    names = [path.name for path in folder.iterdir() if path.is_file()]
    return [folder / name for name in sorted(_chosen(names))]


def fingerprint(folder: Path) -> str:
    """32 hexadecimal digits for the bytes of all files that decide an answer."""
    parts = [f"{path.name} {_sha256(path)}" for path in model_files(folder)]
    return draws.digest("hf-chat 1", *parts).hex()


def _chosen(names: list[str]) -> list[str]:
    has_safe = any(name.endswith(".safetensors") for name in names)
    patterns = (*SETTINGS, *(SAFE if has_safe else PICKLED))
    return [
        name for name in names if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    ]


def _sha256(path: Path) -> str:
    """The hub's cache names large files by their SHA-256, so that they need not be read."""
    real = path.resolve()
    if real.parent.name == "blobs" and re.fullmatch(r"[0-9a-f]{64}", real.name):
        return real.name
    with real.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _cached(repo: str, revision: str) -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(repo, "config.json", revision=revision or None)
    folder = Path(config).parent if isinstance(config, str) else None
    return folder if folder is not None and _is_whole(folder) else None


def _is_whole(folder: Path) -> bool:
    """Are all weights here? A broken download leaves some of the shards."""
    names = {path.name for path in folder.iterdir()}
    indices = [name for name in names if name.endswith(".index.json")]
    for name in indices:
        shards = parse_json((folder / name).read_text(encoding="utf-8"))["weight_map"].values()
        if names.issuperset(shards):
            return True
    single = {"model.safetensors", "pytorch_model.bin"} & names
    return bool(single) and any(name.startswith("tokenizer") for name in names)


def _fetched(name: str, repo: str, revision: str, offline: bool) -> Path:
    from huggingface_hub import HfApi, constants

    address = f"{constants.ENDPOINT.partition('://')[2]}/{repo}"
    if offline or constants.HF_HUB_OFFLINE:
        raise ModelError(
            f"model {name!r}: its files from {address} are not in the local cache and fetching is "
            "switched off: load it once with a connection, or name a folder that contains them."
        )
    hub, chosen_revision = HfApi(), revision or None
    try:
        info = hub.model_info(repo, revision=chosen_revision, timeout=PATIENCE_S)
        chosen = _chosen([file.rfilename for file in info.siblings or ()])
        return Path(hub.snapshot_download(repo, revision=info.sha, allow_patterns=chosen))
    except Exception as error:
        kind = type(error).__name__
        if kind == "GatedRepoError":
            text = f"{address} needs permission: accept its terms there, then run `hf auth login`"
        elif kind in ("RepositoryNotFoundError", "RevisionNotFoundError"):
            text = f"{address} does not exist or is private: check the name, or run `hf auth login`"
        else:
            text = f"its files could not be fetched from {address} ({first_line(error)}): try again"
        raise ModelError(f"model {name!r}: {text}.") from error


Count = Callable[[Picture | None], int]
"""tokens of a prompt with this picture, or with none"""

SIZES = ((16, 16), (64, 48), (128, 96), (256, 192), (512, 384), (1024, 768), (2048, 1536))
_PX = range(4, 129)
_MARKS = 8
"""most tokens around a picture that tell where it begins and ends, plus one"""


def image_rule(count: Count) -> dict[str, Any]:
    """The rule that is nearest to what was counted."""
    bare = count(None)
    tokens_of = {size: count(_blank(size)) - bare for size in SIZES}
    least, most = min(tokens_of.values()), max(tokens_of.values())
    if least == most:
        return {"rule": "fixed", "tokens": most}

    def error(fit: tuple[int, int]) -> int:
        marks, px = fit
        guesses = (squares(*size, px, least - marks, most - marks, marks) for size in SIZES)
        return sum(abs(guess - n) for guess, n in zip(guesses, tokens_of.values(), strict=True))

    marks, px = min(itertools.product(range(min(least, _MARKS)), _PX), key=error)
    limits = {"px": px, "least": least - marks, "most": most - marks, "ends": marks}
    return {"rule": "squares", **limits}


def _blank(size: tuple[int, int]) -> Picture:
    from PIL import Image

    target = io.BytesIO()
    Image.new("RGB", size).save(target, "PNG")
    return Picture(target.getvalue())


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


class PromptRefused(Exception):
    """A batch that the model cannot take: the prompt of one of its requests is to blame."""


class Engine:
    def __init__(
        self, name: str, folder: Path, device: Any, precision: str, album: PixelCache
    ) -> None:
        self.name, self.folder, self.album = name, folder, album
        self.device, self.precision = device, precision
        ask_nobody()  # a processor loads its parts without being told who is trusted
        self.config = self._load(transformers.AutoConfig)
        from transformers.models.auto import modeling_auto

        kind = self.config.model_type
        if kind not in modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES:
            raise ModelError(
                f"model {self.name!r} is of type {kind!r}, expected one that reads images and text "
                "(AutoModelForImageTextToText of transformers): choose another checkpoint."
            )
        self.processor = self._load(transformers.AutoProcessor)
        self.template = find_template(name, self.processor)
        self.tokeniser = self.processor.tokenizer

    @property
    def context(self) -> int | None:
        """Tokens of prompt and answer together."""
        most = getattr(self.config.get_text_config(), "max_position_embeddings", None)
        return int(most) if most else None

    @property
    def batch_size(self) -> int:
        return CUDA_BATCH if self.device.type == "cuda" else OTHER_BATCH

    @property
    def pad_id(self) -> int:
        token = self.tokeniser.pad_token_id
        return int(token) if token is not None else self.end_ids[0]

    @property
    def begin_id(self) -> int:
        """What stands before the first token of a bare text: the tokeniser's begin token, else the
        one that ends texts, as lm-evaluation-harness has it.
        """
        for token in (self.tokeniser.bos_token_id, self.tokeniser.eos_token_id):
            if token is not None:
                return int(token)
        return self.pad_id

    @cached_property
    def end_ids(self) -> list[int]:
        """Tokens that end an answer: the model's own, and the tokeniser's."""
        ends = self.network.generation_config.eos_token_id
        listed = ends if isinstance(ends, list) else [ends]
        ids = [end for end in (*listed, self.tokeniser.eos_token_id) if end is not None]
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
            raise ModelError(
                f"model {self.name!r}: its files have no weights for {first_few(missing, 1)}, "
                "which would then be random."
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

    def render(self, messages: Sequence[Message]) -> RenderedPrompt:
        return render(self.processor, self.template, messages)

    def encode(self, prompts: Sequence[RenderedPrompt], side: Literal["left", "right"]) -> Any:
        """The processor's tensors for a batch, on the CPU. Either all or none have pictures."""
        texts = [prompt.text for prompt in prompts]
        images = [[self.album.open(picture) for picture in prompt.pictures] for prompt in prompts]
        begin = self.tokeniser.bos_token
        has_begin = bool(begin) and texts[0].startswith(begin)
        try:
            return self.processor(
                text=texts, padding=True, padding_side=side, return_tensors="pt",
                # Most templates write the begin token; the tokeniser would add a second one.
                add_special_tokens=not has_begin, **({"images": images} if images[0] else {}),
            )  # fmt: skip
        except (ValueError, IndexError, KeyError, TypeError) as error:
            raise PromptRefused(
                f"the model's processor refuses this prompt: {first_line(error)}"
            ) from error

    def forward(self, inputs: Any, **rest: Any) -> Any:
        """Logits of a batch that is on the device."""
        with arithmetic(self.device):
            return self.network(**inputs, use_cache=False, **rest).logits

    def to_device(self, inputs: Any) -> Any:
        """Onto the device, pixels in the network's own precision."""
        return inputs.to(self.device, dtype=DTYPES[self.precision])

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
