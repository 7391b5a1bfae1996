"""vLLM offline: hundreds of prompts a batch on this machine's GPUs, without a server.

    vllm/OpenGVLab/InternVL3-38B-AWQ?context=2048&tiles=1&trust_remote_code=true
    vllm/Qwen/Qwen2.5-VL-7B-Instruct@REVISION

vLLM schedules whatever it is given, so whole batches go in at once. Prefix caching is on (prompts
of one class begin alike), the cache of processed images off: each is seen once. `tiles=1` tells
InternVL not to cut a photo of 224 px into up to twelve. vLLM is no dependency of this package, but
used where it is installed (written for 0.32).
https://docs.vllm.ai/en/latest/api/vllm/entrypoints/llm.html
"""

from __future__ import annotations

import base64
import importlib.util
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fieldmark import draws
from fieldmark.build.caption.offline import OfflineModel
from fieldmark.chat import Answer, Message, Picture, Request, Usage
from fieldmark.chat.send.options import check_options, whole_number
from fieldmark.errors import ModelError, UsageError
from fieldmark.registry import split_options

FAMILY, _CODE, _PATIENCE_S = "vllm", "trust_remote_code", 10.0
OPTIONS = {
    "context": "tokens of prompt and answer together [the model's own]",
    "max_tokens": "room for the answer",
    "gpus": "GPUs that hold the model together [1]",
    "tiles": "most tiles a photo is cut into, for InternVL [the model's own]",
    "batch": "prompts handed over at a time [256]",
    "hang_s": "seconds without an answer after which the engine counts as hung [300]",
    _CODE: "true: run code that the repository brings [false]",
}


def vllm_model(name: str) -> OfflineModel:
    """The model that a name means; loads nothing."""
    base, options = split_options(name)
    family, _, place = base.partition("/")
    if family != FAMILY or not place:
        raise UsageError(f"model {name!r} cannot be read: expected vllm/REPO_OR_FOLDER.")
    check_options(name, options, OPTIONS)
    if options.get(_CODE, "false") not in ("true", "false"):
        raise UsageError(f"model {name!r}: trust_remote_code, expected true or false.")
    if importlib.util.find_spec("vllm") is None:
        raise ModelError(
            f"model {name!r} needs the package 'vllm', which is not installed: `pip install vllm` "
            "on a machine with a GPU, or ask a vLLM server (chat/vllm/REPO?base_url=…)."
        )
    numbers = {key: whole_number(name, key, options) for key in OPTIONS if key != _CODE}
    repo, _, revision = place.partition("@")
    revision = revision or _newest_revision(repo)
    arguments = {
        "model": repo,
        "revision": revision or None,
        "tensor_parallel_size": numbers["gpus"] or 1,
        "max_model_len": numbers["context"],
        "trust_remote_code": options.get(_CODE) == "true",
        "limit_mm_per_prompt": {"image": 1},
        "enable_prefix_caching": True,
        "mm_processor_cache_gb": 0,
    }
    if numbers["tiles"]:
        arguments["mm_processor_kwargs"] = {"max_dynamic_patch": numbers["tiles"]}
    how = {"batch_size": numbers["batch"], "hang_s": numbers["hang_s"]}
    return OfflineModel(
        name,
        place,
        vllm_engine,
        (arguments,),
        _address(repo, revision, numbers["tiles"]),
        numbers["max_tokens"],
        **{key: value for key, value in how.items() if value},  # type: ignore[arg-type]
    )


def _address(repo: str, revision: str, tiles: int | None) -> dict[str, str]:
    """A folder is known by its bytes, a repository by its revision."""
    folder = Path(repo).expanduser()
    facts = {"provider": FAMILY, "model": repo, "revision": revision}
    if folder.is_dir():
        from fieldmark.chat.local.engine import fingerprint

        facts = {"provider": FAMILY, "model": fingerprint(folder)}
    return {**facts, "tiles": str(tiles)} if tiles else facts


def _newest_revision(repo: str) -> str:
    """The commit that is in the local cache, else the newest; "" where nobody can say."""
    from huggingface_hub import HfApi, try_to_load_from_cache

    if Path(repo).expanduser().is_dir():
        return ""
    config = try_to_load_from_cache(repo, "config.json")
    if isinstance(config, str):
        return Path(config).parent.name
    try:
        return HfApi().model_info(repo, timeout=_PATIENCE_S).sha or ""
    except Exception:  # noqa: BLE001 - without a network: vLLM itself says what it lacks
        return ""


def vllm_engine(arguments: Mapping[str, Any]) -> VllmEngine:
    """Called in the engine's own process."""
    from vllm import LLM, SamplingParams

    known = {key: value for key, value in arguments.items() if value is not None}
    return VllmEngine(LLM(**known), SamplingParams, str(arguments["model"]))


class VllmEngine:
    def __init__(self, llm: Any, sampling: Callable[..., Any], name: str) -> None:
        self._llm, self._sampling, self._name = llm, sampling, name

    def answer_batch(self, requests: Sequence[Request], tell: Callable[[], None]) -> list[Answer]:
        outputs = self._llm.chat(
            [[_wire(message) for message in request.messages] for request in requests],
            [self._sampling(**_sampling_facts(request)) for request in requests],
            use_tqdm=lambda *args, **_: Ticker(tell, *args),
        )
        return [self._answer(output) for output in outputs]

    def _answer(self, output: Any) -> Answer:
        written = output.outputs[0]
        return Answer(
            "length" if written.finish_reason == "length" else "ok",
            text=written.text,
            finish_reason=written.finish_reason or "",
            usage=Usage(len(output.prompt_token_ids or ()), len(written.token_ids)),
            usd=0.0,
            model=self._name,
        )


def _sampling_facts(request: Request) -> dict[str, Any]:
    """The seed is the request's own: a batch of other requests beside it changes nothing."""
    own = request.settings
    facts = {
        "temperature": own.temperature,
        "top_p": own.top_p,
        "max_tokens": own.max_output_tokens,
        "stop": list(own.stop) or None,
        "seed": draws.number(request.id, request.repeat) >> 33 if own.temperature else None,
    }
    return {key: value for key, value in facts.items() if value is not None}


def _wire(message: Message) -> dict[str, Any]:
    """A message as OpenAI's API has it, which `LLM.chat` takes too."""
    parts: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, Picture):
            data = base64.b64encode(part.read()).decode()
            kind = "png" if part.read().startswith(b"\x89PNG") else "jpeg"
            url = f"data:image/{kind};base64,{data}"
            parts.append({"type": "image_url", "image_url": {"url": url}})
        else:
            parts.append({"type": "text", "text": part.text})
    if len(parts) == 1 and "text" in parts[0]:
        return {"role": message.role, "content": parts[0]["text"]}
    return {"role": message.role, "content": parts}


class Ticker:
    """Stands in for vLLM's progress bar (tqdm's methods): each step is a sign of life."""

    def __init__(self, tell: Callable[[], None], items: Iterable[Any] = ()) -> None:
        self._tell, self._items, self._began = tell, items, time.monotonic()
        self.n, self.postfix = 0, ""

    @property
    def format_dict(self) -> dict[str, float]:
        return {"elapsed": max(time.monotonic() - self._began, 1e-6)}

    def __iter__(self) -> Iterator[Any]:
        for item in self._items:
            self.update()
            yield item

    def __len__(self) -> int:
        return len(self._items)  # type: ignore[arg-type]  # a sequence, as vLLM gives it

    def update(self, n: int = 1) -> None:
        self.n += n
        self._tell()

    def refresh(self) -> None:
        pass

    def close(self) -> None:
        pass
