"""Training recipe (TOML): what does a run train, on which texts, for how long?

A recipe is a frozen, typed object; `load_recipe` reads a shipped one by name or a file, applies
`--set` overrides and says for each mistake on which line it stands. Nothing here imports torch.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StrictBool, StrictInt, StrictStr, field_validator, model_validator
from pydantic_core import PydanticCustomError

from fieldmark.build.train.losses import LOSSES
from fieldmark.draws import digest
from fieldmark.errors import UnknownName, UsageError
from fieldmark.slurm import JobOptions, SignalDelay
from fieldmark.source_lines import Located, read_toml, set_dotted, validate
from fieldmark.tasks import Strict
from fieldmark.words import counted

RECIPES = Path(__file__).parent / "recipes"
REPLAY = "replay"
"""the text type of samples that come from replay shards"""
TAXONOMIC = "taxonomic"

Count = Annotated[StrictInt, Field(ge=0)]
Positive = Annotated[StrictInt, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Above = Annotated[float, Field(gt=0, allow_inf_nan=False)]
BelowOne = Annotated[float, Field(ge=0, lt=1)]
_WORD = re.compile(r"[a-z][a-z0-9_]*")


class ModelRecipe(Strict):
    """`[model]`: which network, and what it starts from."""

    architecture: StrictStr = "ViT-B-16"
    """open_clip's name of the network, or a JSON file in the form of its configurations"""
    init: StrictStr = "random"
    """weights to start from: a tag of open_clip ("openai"), a file or random; "local-dir:FOLDER"
    and "hf-hub:NAME" say the network too, and `architecture` is not read"""
    projectors: Annotated[tuple[StrictStr, ...], Field(min_length=1)] = (TAXONOMIC,)
    """image projections, each with a logit scale; a text type goes through the one of its own name,
    where there is one, else through the first"""
    lock_image: StrictBool = False
    """the image tower stays as it is (LiT); its projectors learn"""
    lock_text: StrictBool = False
    """the text tower stays as it is"""
    image_size: Count = 0
    """pixels of a side; 0 = the network's own"""


class DataRecipe(Strict):
    """`[data]`: which samples, in which order."""

    shards: tuple[StrictStr, ...] = ()
    """tar files, folders or patterns; --shards replaces them"""
    captions: StrictStr = ""
    """folder that `fieldmark caption` wrote; --captions replaces it"""
    licence: StrictStr = ""
    """of photos and texts, for the model card"""
    mode: Literal["epoch", "resampled"] = "epoch"
    """epoch = each sample once per epoch; resampled = windows of shards drawn with replacement"""
    window_shards: Positive = 32
    """shards that are shuffled together: more is more random, fewer files are open at once"""
    replay_shards: tuple[StrictStr, ...] = ()
    """shards of general images with one text each, mixed in; --replay replaces them"""
    replay_share: Share = 0.0
    """share of each batch that comes from the replay shards"""
    replay_text: StrictStr = "txt"
    """member of a replay sample that is its text"""
    scale: tuple[float, float] = (0.9, 1.0)
    """area of the random crop, as a share of the photo's"""
    decode: Literal["auto", "cpu", "gpu"] = "auto"
    """where photos are decoded"""
    readers: Count = 0
    """processes that read; 0 = by the machine"""

    @field_validator("scale")
    @classmethod
    def _is_range(cls, scale: tuple[float, float]) -> tuple[float, float]:
        if not 0 < scale[0] <= scale[1] <= 1:
            raise ValueError("expected [smallest, largest] with 0 < smallest ≤ largest ≤ 1")
        return scale


class TextsRecipe(Strict):
    """`[texts]`: which text a sample is paired with."""

    types: dict[str, NotNegative] = Field(default_factory=lambda: {"taxon": 1.0})
    """text type → weight of the draw; a type is a text member (taxon = taxon.txt) or `caption`"""
    draw: Literal["sample", "step"] = "sample"
    """sample = a type drawn for every sample; step = one type for a whole batch, as BioCAP did"""

    @field_validator("types")
    @classmethod
    def _has_weight(cls, types: dict[str, float]) -> dict[str, float]:
        wrong = [name for name in types if not _WORD.fullmatch(name) or name == REPLAY]
        if wrong:
            raise ValueError(f"{wrong[0]!r} is not a text type: expected a member, such as taxon")
        weighted = {name: weight for name, weight in types.items() if weight > 0}
        if not weighted:
            raise ValueError("expected at least one type with a weight above 0")
        return weighted


class LossRecipe(Strict):
    """`[loss]`"""

    kind: str = "softmax"
    """softmax or siglip"""
    multi_positive: StrictBool = True
    """photos with the same text are not treated as negatives (matters for siglip only)"""

    @field_validator("kind")
    @classmethod
    def _is_known(cls, kind: str) -> str:
        if kind not in LOSSES.names():
            context = {"expected": " or ".join(map(repr, LOSSES.names()))}
            raise PydanticCustomError("literal_error", "expected {expected}", context)
        return kind


class OptimiserRecipe(Strict):
    """`[optimiser]`: AdamW, as in open_clip."""

    lr: Above = 1e-4
    """learning rate after the warm-up"""
    betas: tuple[BelowOne, BelowOne] = (0.9, 0.98)
    eps: Above = 1e-6
    weight_decay: NotNegative = 0.2
    """not for gains, biases and scales"""
    warmup_steps: Count = 500
    schedule: Literal["cosine", "constant"] = "cosine"
    clip_norm: NotNegative = 0.0
    """largest norm of the gradient; 0 = any"""


class ComputeRecipe(Strict):
    """`[train]`: how much, and how it is computed."""

    batch: Positive = 4096
    """pairs of an update, over all processes"""
    epochs: Positive = 1
    steps: Count = 0
    """updates in all; 0 = from epochs"""
    accumulate: Positive = 1
    """pieces that a process cuts its share of the batch into, to save memory (gradient cache)"""
    precision: Literal["auto", "float32", "bf16"] = "auto"
    """auto = bf16 on CUDA, float32 elsewhere"""
    compile: Literal["auto", "on", "off"] = "auto"
    """torch.compile of both towers; auto = on CUDA"""
    recompute: Share = 0.0
    """activation checkpointing: share of the blocks whose activations are computed again instead of
    kept"""
    ema: BelowOne = 0.0
    """decay of the moving average of the weights, which is then what is exported; 0 = none"""
    parallel: Literal["ddp", "fsdp"] = "ddp"
    seed: Count = 0
    log_steps: Positive = 10
    """losses are read from the device this often: in between, nothing waits for it"""


class StateRecipe(Strict):
    """`[state]`: checkpoints."""

    every_steps: Positive = 1000
    keep: Positive = 3
    """newest checkpoints that are kept, beside the best one"""


class EvaluateRecipe(Strict):
    """`[evaluate]`: tasks of the suite."""

    tasks: tuple[StrictStr, ...] = ()
    every_steps: Count = 0
    """0 = at the end only"""
    best: StrictStr = ""
    """TASK@METRIC whose highest score chooses the best checkpoint"""
    device: StrictStr = ""
    """where models are evaluated: "cpu" where training fills the GPU; "" = as training"""

    @field_validator("best")
    @classmethod
    def _names_metric(cls, best: str) -> str:
        task, _, metric = best.partition("@")
        if best and not (task and metric):
            raise ValueError("expected TASK@METRIC")
        return best

    def check_best(self) -> None:
        """UsageError where `best` is the score of no task; not of a recipe alone, because tasks may
        come from --evaluate.
        """
        task = self.best.rpartition("@")[0]
        if self.best and task not in self.tasks:
            raise UsageError(
                f"evaluate.best names {task!r}, which is not evaluated: add it to evaluate.tasks "
                f"(now {', '.join(self.tasks) or 'none'})."
            )


class GuardRecipe(Strict):
    """`[guard]`: when a run is stopped because it has gone wrong."""

    spike: Annotated[float, Field(gt=1)] = 3.0
    """a loss this many times its running median is a spike"""
    patience: Positive = 20
    """spikes in a row that stop the run"""


class SlurmRecipe(JobOptions):
    """`[slurm]`: the job of `--on slurm`; another cluster trains the same model."""

    nodes: Positive = 1
    tasks: Count = 0
    """processes on each node where there are no GPUs; with GPUs it is one for each"""
    signal_delay: SignalDelay = 300

    @model_validator(mode="after")
    def _one_process_per_gpu(self) -> Self:
        if self.n_gpus and self.tasks not in (0, self.n_gpus):
            raise ValueError(
                f"slurm.tasks is {self.tasks}, expected one process for each of the {self.n_gpus} "
                "GPUs of a node: leave it out"
            )
        return self

    @property
    def n_local(self) -> int:
        """Processes on each node."""
        return self.n_gpus or self.tasks or 1

    @property
    def n_processes(self) -> int:
        return self.nodes * self.n_local


class TrainRecipe(Strict):
    """A training run."""

    model: ModelRecipe = ModelRecipe()
    data: DataRecipe = DataRecipe()
    texts: TextsRecipe = TextsRecipe()
    loss: LossRecipe = LossRecipe()
    optimiser: OptimiserRecipe = OptimiserRecipe()
    train: ComputeRecipe = ComputeRecipe()
    state: StateRecipe = StateRecipe()
    evaluate: EvaluateRecipe = EvaluateRecipe()
    guard: GuardRecipe = GuardRecipe()
    slurm: SlurmRecipe = SlurmRecipe()

    @model_validator(mode="after")
    def _every_projector_learns(self) -> Self:
        projectors = self.model.projectors
        if len(set(projectors)) < len(projectors):
            raise ValueError("model.projectors names one projector twice")
        used = {self.projector_of(name) for name in self.text_types}
        for number, name in enumerate(projectors):
            if number not in used:
                raise ValueError(
                    f"model.projectors: no text type goes through {name!r}: give one a weight in "
                    "texts.types, or leave the projector out"
                )
        return self

    @property
    def text_types(self) -> tuple[str, ...]:
        """All text types, `replay` last; a `type_id` is a place in it."""
        return (*self.texts.types, *((REPLAY,) if self.data.replay_share else ()))

    def projector_of(self, text_type: str) -> int:
        """The place in `model.projectors` of the one that a text type goes through."""
        names = self.model.projectors
        return names.index(text_type) if text_type in names else 0

    def facts(self) -> dict[str, Any]:
        """All that decides the curve of the losses, besides the data and the machine: `table.key` →
        value, as JSON gives it back. What precision "auto" is and what a network's file holds is
        noted in checkpoints.
        """
        parts = self.model_dump(mode="json", exclude={"state", "evaluate", "guard", "slurm"})
        flat = {
            f"{table}.{key}": value
            for table, values in parts.items()
            for key, value in values.items()
            if f"{table}.{key}" not in _NO_EFFECT
        }
        network = self.model.architecture  # where a file lies decides nothing
        flat["model.architecture"] = Path(network).name if network.endswith(".json") else network
        # The order decides which type a number draws.
        flat["texts.types"] = [[name, weight] for name, weight in self.texts.types.items()]
        return flat

    def check_shares(self, n_processes: int) -> None:
        """UsageError where a batch cannot be shared among so many."""
        parts = n_processes * self.train.accumulate
        if self.train.batch % parts:
            raise UsageError(
                f"train.batch is {self.train.batch:,}, expected a multiple of {parts:,} "
                f"({n_processes} processes × train.accumulate {self.train.accumulate})."
            )

    def warmup_problem(self, n_steps: int) -> str:
        """Says that the learning rate rises to the very end; "" where it does not."""
        warmup_steps = self.optimiser.warmup_steps
        if warmup_steps < n_steps:
            return ""
        return (
            f"optimiser.warmup_steps is {warmup_steps:,} of {counted(n_steps, 'step')}: the "
            f"learning rate never reaches {self.optimiser.lr:g}. "
            f"Try --set optimiser.warmup_steps={n_steps // 10}"
        )

    @property
    def digest(self) -> str:
        """Stands for the facts."""
        return digest(json.dumps(self.facts(), sort_keys=True)).hex()


_NO_EFFECT = (
    "data.shards", "data.captions", "data.replay_shards", "data.licence", "data.readers",
    "data.decode", "train.precision", "train.log_steps", "train.recompute", "train.accumulate",
    "train.parallel", "train.compile",
)  # fmt: skip


def refuse_other(run: Path, then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """UsageError where a folder was trained by other facts than those of now."""
    keys = [key for key in {**then, **now} if now.get(key) != then.get(key)]
    if keys:
        shown = ", ".join(f"{key} was {_short(then.get(key))}" for key in keys[:3])
        more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
        raise UsageError(
            f"{run}  was trained with another recipe: {shown}{more}. "
            "Give that recipe, or another --out."
        )


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


def recipe_names() -> list[str]:
    """Those that are shipped."""
    return sorted(path.stem for path in RECIPES.glob("*.toml"))


def load_recipe(name: str | Path, overrides: Sequence[str] = ()) -> TrainRecipe:
    """A shipped recipe by its name, or a TOML file; `overrides` such as `train.batch=256`."""
    path = Path(name)
    if str(name) in recipe_names():
        path = RECIPES / f"{name}.toml"
    elif path.suffix != ".toml":
        raise UnknownName("recipe", str(name), recipe_names())
    located = read_toml(path)
    recipe = validate(TrainRecipe, located)
    changed = _with_overrides(located.data, overrides)
    if overrides:
        recipe = validate(TrainRecipe, Located(Path("--set"), changed, {}))
    # A network's JSON file is looked for beside the recipe
    beside = path.parent / recipe.model.architecture
    if not recipe.model.architecture.endswith(".json") or not beside.is_file():
        return recipe
    model = recipe.model.model_copy(update={"architecture": str(beside.resolve())})
    return recipe.model_copy(update={"model": model})


def check_export(run: Path, folder: Path, projector: str) -> TrainRecipe:
    """The recipe of a run whose model, with this projector, may be written into the folder."""
    from fieldmark.models.open_clip import CONFIG, WEIGHTS

    if not (run / "recipe.toml").is_file():
        raise UsageError(f"{run}  is not the folder of a training run: expected recipe.toml in it.")
    is_model = any((folder / name).exists() for name in (CONFIG, *WEIGHTS))
    if not is_model and folder.exists() and (folder.is_file() or any(folder.iterdir())):
        raise UsageError(f"{folder}  contains something else: give a new folder with --export.")
    recipe = load_recipe(run / "recipe.toml")
    if projector and projector not in recipe.model.projectors:
        raise UnknownName("projector", projector, recipe.model.projectors)
    return recipe


def _with_overrides(data: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    changed: dict[str, Any] = json.loads(json.dumps(data))
    for word in overrides:
        key, equals, text = word.partition("=")
        *outer, last = key.split(".")
        if not (equals and outer and all((*outer, last))):
            raise UsageError(f"--set {word}: expected TABLE.KEY=VALUE, such as train.batch=256.")
        try:
            set_dotted(changed, key, text)
        except ValueError as error:
            raise UsageError(f"--set {word}: {str(error)!r} is not a table.") from None
    return changed


def recipe_toml(recipe: TrainRecipe) -> str:
    """The recipe with every key, as a file that `load_recipe` reads. Not [slurm]: the page shows
    this text, and variables of a job may be secret.
    """
    lines = []
    for table, values in recipe.model_dump(mode="json", exclude={"slurm"}).items():
        lines += [f"[{table}]", *(f"{key} = {_toml(value)}" for key, value in values.items()), ""]
    return "\n".join(lines)


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # "inf", as TOML writes it
    return json.dumps(value, ensure_ascii=False)
