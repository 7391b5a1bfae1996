"""Which local model does a name mean, what is its identity, and what is said where it cannot be?"""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from PIL import Image

from fieldmark.chat import (
    Answer,
    AnswerJournal,
    AnswerSettings,
    LocalModel,
    Picture,
    local_model,
    system,
    user,
)
from fieldmark.errors import FieldmarkError, MissingExtra, ModelError
from kit.chat import collect
from kit.tiny_asks import ask_local, ask_tiny, photo, shots
from kit.tiny_chat import LLAVA_TEMPLATE, load_tiny, save_tiny


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers")
    return save_tiny("llava", tmp_path_factory.mktemp("tiny") / "llava")


@pytest.fixture
def own(folder: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return shutil.copytree(folder, tmp_path / "own")


def refusal(name: str, **rest: str) -> str:
    with pytest.raises(FieldmarkError) as caught:
        local_model(name, offline=True, **rest)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_importing_chat_loads_nothing_heavy() -> None:
    code = (
        "import sys; from fieldmark.chat import LocalModel, local_model; "
        "print([n for n in ('torch', 'transformers', 'huggingface_hub') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(("name", "said"), [
    ("hf-chat", "cannot be read: expected hf-chat/REPO_OR_FOLDER"),
    ("hf-chat/", "cannot be read"),
    ("chat/openai/gpt-4o", "cannot be read"),
    ("hf-chat/a/b?", "cannot be read"),
    ("hf-chat/a/b?contxt=3", "option 'contxt' is not known. Did you mean 'context'?"),
    ("hf-chat/a/b?context", "option 'context' cannot be read, expected key=value"),
    ("hf-chat/a/b?context=1&context=2", "option 'context' is given twice"),
])  # fmt: skip
def test_names_that_cannot_be_read(name: str, said: str) -> None:
    assert said in refusal(name)


def test_names_that_mean_no_model(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    assert "context=many, expected a whole number above 0" in refusal("hf-chat/a/b?context=many")
    assert "is neither a folder here nor ORG/NAME" in refusal("hf-chat/no/such/folder")
    assert "config.json does not exist" in refusal(f"hf-chat/{tmp_path}")
    text = refusal("hf-chat/nobody/nothing@main")
    assert "not in the local cache and fetching is switched off" in text


def test_devices_and_precisions_that_are_not_there(folder: Path) -> None:
    name = f"hf-chat/{folder}"
    assert "device 'gpu' is not known: expected auto, cpu" in refusal(name, device="gpu")
    assert "device 'cuda:99' is not available: torch sees cpu" in refusal(name, device="cuda:99")
    assert "precision 'half' is not known" in refusal(name, precision="half")


def test_missing_packages_are_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtra, match=r"pip install 'fieldmark\[vision\]'"):
        local_model(f"hf-chat/{folder}")


def test_a_model_without_a_chat_template_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    bare = save_tiny("qwen2_vl", tmp_path, template="")
    assert "has no chat template, expected chat_template.jinja" in refusal(f"hf-chat/{bare}")


def test_a_template_that_only_the_tokeniser_holds_is_used(own: Path) -> None:
    template = (own / "chat_template.jinja").read_text(encoding="utf-8")
    (own / "chat_template.jinja").unlink()
    path = own / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**config, "chat_template": template}), encoding="utf-8")
    assert load_tiny(own).engine.template == template


def test_a_model_of_another_kind_is_refused(own: Path) -> None:
    (own / "config.json").write_text('{"model_type": "vit"}', encoding="utf-8")
    assert "is of type 'vit', expected one that reads images and text" in refusal(f"hf-chat/{own}")
    (own / "config.json").write_text("{", encoding="utf-8")
    assert "transformers says" in refusal(f"hf-chat/{own}")


def test_weights_that_would_stay_random_are_refused(own: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(own / "model.safetensors")
    lost = next(name for name in sorted(weights) if "q_proj" in name)
    weights.pop(lost)
    save_file(weights, own / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match="its files have no weights for .*q_proj"):
        load_tiny(own).score([user("Which?")], ["wren"])


def test_the_fingerprint_is_of_what_decides_an_answer(folder: Path, own: Path) -> None:
    before = load_tiny(folder)
    (own / "README.md").write_text("notes", encoding="utf-8")
    assert load_tiny(own).address == before.address, "a moved folder is the same model"
    for name, old, new in [
        ("chat_template.jinja", b"USER: ", b"HUMAN: "),
        ("processor_config.json", b"0.48145466", b"0.5"),
        ("generation_config.json", b"{", b'{"repetition_penalty": 1.2,'),
    ]:
        kept = (own / name).read_bytes()
        assert old in kept
        (own / name).write_bytes(kept.replace(old, new, 1))
        assert load_tiny(own).files != before.files, name
        (own / name).write_bytes(kept)
    assert load_tiny(own).files == before.files
    weights = bytearray((own / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (own / "model.safetensors").write_bytes(weights)
    assert load_tiny(own).files != before.files


def test_a_files_hash_is_not_read_twice_from_the_hubs_cache(tmp_path: Path) -> None:
    """Large files there are named by their hash, and a folder with copies is the same model."""
    import hashlib

    from fieldmark.chat.local.engine import fingerprint

    plain, cache, blobs = tmp_path / "plain", tmp_path / "snapshot", tmp_path / "blobs"
    for each in (plain, cache, blobs):
        each.mkdir()
    (plain / "model.safetensors").write_bytes(b"weights")
    blob = blobs / hashlib.sha256(b"weights").hexdigest()
    blob.write_bytes(b"weights")
    (cache / "model.safetensors").symlink_to(blob)
    assert fingerprint(plain) == fingerprint(cache)
    blob.write_bytes(b"never read")
    assert fingerprint(plain) == fingerprint(cache)


def test_precision_and_shrinking_make_another_model(folder: Path) -> None:
    plain = load_tiny(folder)
    addresses = [plain, load_tiny(folder, precision="bf16"), load_tiny(folder, "?max_image_px=20")]
    assert len({json.dumps(each.address) for each in addresses}) == 3
    assert len({each.fingerprint for each in addresses}) == 3


def test_another_model_does_not_replay_this_ones_answers(folder: Path, tmp_path: Path) -> None:
    settings = AnswerSettings(max_output_tokens=3)
    with AnswerJournal(tmp_path) as journal:
        ask_local(load_tiny(folder), ask_tiny(2, settings), journal=journal)
        got: dict[str, Answer] = {}
        other = load_tiny(folder, precision="bf16")
        tally = ask_local(other, ask_tiny(2, settings), collect(got), journal)
        assert tally.n_replayed == 0
        assert len(journal) == 4


def test_what_is_known_of_a_model(folder: Path) -> None:
    model = load_tiny(folder, "?context=200&max_tokens=7&max_image_px=64")
    assert (model.context, load_tiny(folder).context) == (200, 512)
    assert model.settings(AnswerSettings()).max_output_tokens == 7
    assert model.picture_limits.long_px == model.limit("max_image_px") == 64
    assert model.limit("max_images") is None
    assert "schema" in model.lacks and "logprobs" not in model.lacks
    answer = model.answer(shots(0))
    assert answer.usage is not None
    assert answer.usage.tokens_out <= 7
    assert "float32 on c" in answer.fingerprint
    assert model.engine.network.training is False
    assert not any(each.requires_grad for each in model.engine.network.parameters())


def test_its_card_costs_nothing_and_is_priced(folder: Path) -> None:
    from fieldmark.chat import Usage

    card = load_tiny(folder).card
    assert card.image_tokens == {"rule": "fixed", "tokens": 5}, "four patches, a line break"
    assert card.is_priced
    assert card.usd(Usage(1000, 1000)) == 0.0
    assert card.context == 512


def test_the_tokens_of_a_picture_are_measured(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    model = load_tiny(save_tiny("qwen2_vl", tmp_path))
    card, bare = model.card, model.engine.count([user("Which?")])
    assert card.image_tokens is not None
    assert card.image_tokens["rule"] == "squares"
    for size in ((30, 20), (70, 60), (100, 90), (300, 500)):
        n = model.engine.count([user("Which?", photo(1, size))]) - bare
        guessed = card.tokens_of_image(*size)
        assert guessed is not None
        assert n - 2 <= guessed <= n + 4, size  # sides are rounded


def test_the_rule_of_a_picture_is_found() -> None:
    from fieldmark.chat.local.engine import image_rule
    from fieldmark.chat.tokens import squares

    def qwen(picture: Picture | None) -> int:
        if picture is None:
            return 10
        with Image.open(io.BytesIO(picture.read())) as image:
            return 10 + squares(*image.size, 28, 4, 1280, ends=3)

    rule = image_rule(qwen)
    assert (rule["rule"], rule["px"], rule["ends"]) == ("squares", 28, 3)
    assert (rule["least"], rule["most"]) == (4, squares(2048, 1536, 28, 4, 1280, ends=0))


def test_a_budget_of_tokens_ends_the_run(folder: Path) -> None:
    from fieldmark.chat import AskSession, Budget, Options

    budget = Budget(max_tokens=250)
    got: dict[str, Answer] = {}
    settings = AnswerSettings(max_output_tokens=4)
    with (
        AskSession(load_tiny(folder), Options(concurrency=2), budget=budget) as session,
        pytest.raises(ModelError, match="the budget is used up"),
    ):
        session.ask(ask_tiny(7, settings), collect(got))
    used = [answer.usage.total for answer in got.values() if answer.usage is not None]
    assert budget.spent_tokens == sum(used) >= 250
    assert sum(used) - sum(used[-2:]) < 250, "overshot by one batch at most"
    assert len(got) < 7


def test_larger_pictures_are_shrunk_where_the_name_says_so(folder: Path) -> None:
    picture = photo(2, (90, 60))
    image = load_tiny(folder, "?max_image_px=45").engine.album.open(picture)
    assert image.size == (45, 30)
    assert load_tiny(folder).engine.album.open(picture).size == (90, 60)


def test_a_shared_picture_is_decoded_once_within_bounds() -> None:
    from fieldmark.chat.local.prompt import PixelCache

    reads: list[str] = []
    data = photo(1, (40, 50)).read()

    @cache
    def source(name: str) -> Picture:
        def read() -> bytes:
            reads.append(name)
            return data

        return Picture(read, name=name)

    album = PixelCache(most_pixels=2 * 40 * 50)
    for name in "aabab":
        album.open(source(name))
    assert reads == ["a", "b"]
    album.open(source("c"))  # the least used goes: a
    album.open(source("b"))
    album.open(source("a"))
    assert reads == ["a", "b", "c", "a"]


def test_a_file_of_the_same_name_in_another_dataset_is_another_picture() -> None:
    from fieldmark.chat.local.prompt import PixelCache

    album = PixelCache()
    first, second = (Picture(photo(n, (40, 50)).read, name="images/1.jpg") for n in (1, 2))
    assert album.identify(first).sha256 != album.identify(second).sha256
    assert album.open(first).tobytes() != album.open(second).tobytes()


REFUSES = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
)
DROPS = LLAVA_TEMPLATE.replace(
    "{% for part in", "{% if message['role'] != 'system' %}{% for part in", 1
).replace("{% endfor %}{% endfor %}", "{% endfor %}{% endif %}{% endfor %}")


@pytest.mark.parametrize("template", [REFUSES + LLAVA_TEMPLATE, DROPS])
def test_the_system_prompt_is_really_sent(tmp_path: Path, template: str) -> None:
    pytest.importorskip("transformers")
    model = load_tiny(save_tiny("llava", tmp_path, template=template))
    prompt = model.engine.render([system("Be brief."), user("Which?", photo(1))])
    assert prompt.text == "<s>USER: Be brief.\n\n Which? <image>\nASSISTANT:"
    usual = model.engine.render([user("Which?")])
    assert usual.text == "<s>USER: Which? ASSISTANT:"


def test_a_template_that_refuses_all_is_told(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    template = "{{ raise_exception('roles must alternate') }}"
    model = load_tiny(save_tiny("llava", tmp_path, template=template))
    answer = model.answer([user("a"), user("b")])
    assert answer.outcome == "failed"
    assert answer.error == "the model's chat template refuses these messages: roles must alternate."


def test_half_precision_answers_are_the_same_for_the_same_batch(folder: Path) -> None:
    def ask(model: LocalModel) -> dict[str, str]:
        got: dict[str, Answer] = {}
        ask_local(model, ask_tiny(5), collect(got), batch_size=5)
        return {name: answer.text for name, answer in got.items()}

    assert ask(load_tiny(folder, precision="bf16")) == ask(load_tiny(folder, precision="bf16"))


def test_both_kinds_of_model_are_asked_alike(folder: Path) -> None:
    from fieldmark.chat import AskSession, chat_model

    for model in (chat_model("chat/mock/wren"), load_tiny(folder)):
        got: dict[str, Answer] = {}
        with AskSession(model) as line:
            tally = line.ask(ask_tiny(2, AnswerSettings(max_output_tokens=4)), collect(got))
        assert (tally.n, len(got)) == (2, 2)
        assert all(answer.is_answer for answer in got.values())
