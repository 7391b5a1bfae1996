"""Two tiny image-text models with random weights, saved as a hub would hold them.

One is built like LLaVA (a CLIP tower of one input size, a projector, Llama), one like Qwen2-VL
(pictures of any shape as patches, positions in three dimensions). Nothing is fetched: tokeniser,
template, processor and weights are made here. Dropout shows a network left in training. Some byte
tokens end an answer, so that random models sometimes do.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fieldmark.chat import LocalModel

KINDS = ("llava", "qwen2_vl")

LLAVA_TEMPLATE = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{% if message['role'] == 'user' %}USER: "
    "{% elif message['role'] == 'assistant' %}ASSISTANT: {% endif %}"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>\n{% else %}{{ part['text'] }} {% endif %}"
    "{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)
QWEN_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% else %}{{ part['text'] }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = {
    "llava": ("<s>", "</s>", "<pad>", "<image>"),
    "qwen2_vl": (
        "<|endoftext|>", "<|im_end|>", "<|im_start|>", "<|image_pad|>", "<|video_pad|>",
        "<|vision_start|>", "<|vision_end|>",
    ),
}  # fmt: skip
WORDS = ("wren", "robin", "bird", " wren", " robin", " bird", "Yes", "No", "The", " is", " a")


def load_tiny(folder: Path, options: str = "", precision: str = "float32") -> LocalModel:
    """By the ordinary way; on the GPU where there is one."""
    import torch

    from fieldmark.chat import local_model

    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return local_model(f"hf-chat/{folder}{options}", device, precision, offline=True)


def save_tiny(kind: str, folder: Path, template: str | None = None, **generation: Any) -> Path:
    """Writes the model to a folder; an empty `template` leaves it without one."""
    import torch

    makers = {"llava": _llava, "qwen2_vl": _qwen2_vl}
    default = {"llava": LLAVA_TEMPLATE, "qwen2_vl": QWEN_TEMPLATE}[kind]
    tokeniser = _tokeniser(kind)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        model, processor = makers[kind](tokeniser)
        _liven(model)
    processor.chat_template = default if template is None else (template or None)
    model.generation_config.pad_token_id = tokeniser.pad_token_id
    model.generation_config.eos_token_id = [tokeniser.eos_token_id, *range(40, 46)]
    for name, value in generation.items():
        setattr(model.generation_config, name, value)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def _liven(model: Any) -> None:
    """Weights large enough that another picture or word gives another answer."""
    import torch

    for name, value in model.named_parameters():
        if value.ndim > 1:
            fan_in = value[0].numel()
            scale = 1.0 if "embed" in name else 2.0 * fan_in**-0.5
            torch.nn.init.normal_(value, std=scale)


def _tokeniser(kind: str) -> Any:
    """Bytes and a few words: every text can be written, and some in several ways."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary, merges = {each: number for number, each in enumerate(letters)}, []
    for word in WORDS:
        whole = word.replace(" ", "Ġ")
        for end in range(2, len(whole) + 1):
            if whole[:end] not in vocabulary:
                vocabulary[whole[:end]] = len(vocabulary)
                merges.append((whole[: end - 1], whole[end - 1]))
    core = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens(list(SPECIAL[kind]))
    if kind == "llava":
        begin = core.token_to_id("<s>")
        core.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", begin)]
        )
        names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    else:
        names = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    return PreTrainedTokenizerFast(tokenizer_object=core, **names)


def _llava(tokeniser: Any) -> tuple[Any, Any]:
    import transformers as hf

    vision = hf.CLIPVisionConfig(
        hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
        image_size=28, patch_size=14,
    )  # fmt: skip
    text = hf.LlamaConfig(
        vocab_size=len(tokeniser), hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
        attention_dropout=0.5,
    )  # fmt: skip
    config = hf.LlavaConfig(
        vision_config=vision, text_config=text, image_seq_length=4,
        image_token_index=tokeniser.convert_tokens_to_ids("<image>"),
    )  # fmt: skip
    images = hf.CLIPImageProcessor(
        size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}
    )
    processor = hf.LlavaProcessor(
        images, tokeniser, patch_size=14, vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
    )  # fmt: skip
    return hf.LlavaForConditionalGeneration(config), processor


def _qwen2_vl(tokeniser: Any) -> tuple[Any, Any]:
    import transformers as hf

    ids = {name: tokeniser.convert_tokens_to_ids(name) for name in SPECIAL["qwen2_vl"]}
    text = {
        "vocab_size": len(tokeniser), "hidden_size": 32, "intermediate_size": 48,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 1024, "attention_dropout": 0.5, "bos_token_id": None,
        "eos_token_id": ids["<|im_end|>"],
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]},
    }  # fmt: skip
    vision = {
        "depth": 2, "embed_dim": 32, "hidden_size": 32, "num_heads": 2, "mlp_ratio": 2,
        "patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2,
    }  # fmt: skip
    config = hf.Qwen2VLConfig(
        text_config=text, vision_config=vision, image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"], vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
    )  # fmt: skip
    sizes = {"size": {"shortest_edge": 56 * 56, "longest_edge": 112 * 112}, "patch_size": 14}
    processor = hf.Qwen2VLProcessor(
        hf.Qwen2VLImageProcessor(**sizes), tokeniser, hf.Qwen2VLVideoProcessor(**sizes)
    )
    return hf.Qwen2VLForConditionalGeneration(config), processor
