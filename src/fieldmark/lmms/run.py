"""Run and cost: how are all documents of a task asked and scored, and what will that cost?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from fieldmark.chat import (
    AskSession,
    ChatModel,
    Estimate,
    Estimator,
    LocalModel,
    PictureCache,
    Request,
    estimate,
)
from fieldmark.errors import DataError, UsageError
from fieldmark.lmms.ask.choices import weigh
from fieldmark.lmms.ask.fields import Fields
from fieldmark.lmms.ask.generate import Reply, converse, generate, seen_by_mock
from fieldmark.lmms.ask.prompts import Setup, build_prompt
from fieldmark.lmms.ask.settings import prompt_key, prompt_kwargs, read_generation, target_kwargs
from fieldmark.lmms.ask.shots import make_examples
from fieldmark.lmms.code.judge import Judge
from fieldmark.lmms.data.documents import DocumentPart
from fieldmark.lmms.read.schema import NOT_RUN, DocumentTask
from fieldmark.lmms.score.results import judge, rows_of, summed_up
from fieldmark.models import load_chat_model
from fieldmark.progress import Progress
from fieldmark.protocols import (
    AskOptions,
    AskSettings,
    Draw,
    PartPredictions,
    Workspace,
    ask_options,
    ask_session,
)

HTTP_KEYS = ("openai", "openai_compatible", "async_openai")
"""what lmms-eval calls a model behind an address"""
N_LOOKED = 8
"""documents whose prompts are built to estimate the cost"""


def ask_documents(
    part: DocumentPart,
    model: ChatModel | LocalModel,
    draw: Draw,
    options: AskOptions,
    progress: Progress,
) -> PartPredictions:
    """The answers to all documents, with their values."""
    began = time.monotonic()
    setup = make_setup(part, model, draw, options.settings)
    progress.start(f"{part.task.task} with {model.name}", len(part.rows))
    with ask_session(model, options, progress, seen_by_mock(setup, model)) as session:
        replies = _ask(setup, session)
    part.refuse_changed()
    judged = judge(setup, replies, draw.seed)
    predictions = PartPredictions("", rows_of(setup, judged), part.k, summed_up(setup, judged))
    return predictions.timed(time.monotonic() - began)


def judge_of(settings: AskSettings, workspace: Workspace | None) -> Judge:
    """The judge of a command: all its runs share what it said and what it may cost."""
    if workspace is None:
        return Judge()

    def make() -> Judge:
        options = ask_options(settings, workspace)
        name, keys = settings.judge or "", workspace.settings.send_key
        if name and not name.startswith("chat/"):
            raise UsageError(f"judge {name!r}: expected chat/PROVIDER/MODEL.")
        model = load_chat_model(name, send_key=keys) if name else None
        return Judge(model, options.journal, options.sending, options.budget)

    judge: Judge = workspace.once(("judge", settings.judge), make)
    return judge


def _ask(setup: Setup, session: AskSession) -> list[Reply]:
    output = setup.task.output_type
    if output == "generate_until":
        return generate(setup, session)
    if output == "generate_until_multi_round":
        return converse(setup, session)
    return weigh(setup, session)


def make_setup(
    part: DocumentPart, model: ChatModel | LocalModel, draw: Draw, settings: AskSettings
) -> Setup:
    """What the prompts of a run have in common; refuses what cannot be asked."""
    task = part.task
    for line in why_not_run(task):
        raise UsageError(line)
    if not isinstance(model, LocalModel):
        _refuse_likelihoods(task, model)
    keys = backend_keys(model, settings)
    kwargs, targets = prompt_kwargs(task, keys), target_kwargs(task, keys)
    fields = Fields(task, kwargs, targets, part.documents.test.columns)
    generation = read_generation(task, keys, draw.seed)
    own = {
        "temperature": settings.temp,
        "max_output_tokens": settings.max_output,
        "reasoning_effort": settings.effort,
        "extra": settings.body or None,
    }
    changes: dict[str, Any] = {name: value for name, value in own.items() if value is not None}
    generation = replace(generation, settings=replace(generation.settings, **changes))
    examples = make_examples(part, fields, draw.seed)
    return Setup(
        part, fields, examples, generation, settings.value("prompting"), settings.value("system"),
        prompt_key(task, keys),
    )  # fmt: skip


def _refuse_likelihoods(task: DocumentTask, model: ChatModel) -> None:
    """What an endpoint that only writes cannot tell."""
    is_choice = task.output_type == "multiple_choice"
    metrics = [item.name for item in task.metric_list or ()]
    if is_choice and "acc_mutual_info" in metrics:
        key, what = "metric_list", "acc_mutual_info"
    elif task.output_type.startswith("loglikelihood"):
        key, what = "output_type", task.output_type
    else:
        return
    raise UsageError(
        f"{task.place_of(key)}  {what} needs a model that tells likelihoods (hf-chat/…): "
        f"{model.name!r} only writes."
    )


def why_not_run(task: DocumentTask) -> list[str]:
    """Why no model can be asked the task, with its place; nothing where one can."""
    why = NOT_RUN.get(task.output_type)
    where = task.place_of("output_type")
    return [f"{where}  {task.output_type} {why}: fieldmark does not run such tasks."] if why else []


def backend_keys(model: ChatModel | LocalModel, settings: AskSettings) -> Sequence[str]:
    """What lmms-eval would call the model: its files have prompts and settings by that name."""
    if settings.prompts_for:
        return (settings.prompts_for,)
    if isinstance(model, LocalModel):
        return (str(model.engine.config.model_type),)
    return HTTP_KEYS


def estimate_documents(
    part: DocumentPart, model: ChatModel | LocalModel, draw: Draw, settings: AskSettings
) -> Estimate:
    """What the requests will take, from a few prompts, spread over the documents.

    Reads their pictures, sends nothing.
    """
    setup = make_setup(part, model, draw, settings)
    cache, how = PictureCache(model.picture_limits), model.settings(setup.generation.settings)
    asked = []
    for row in part.rows[:: -(-len(part.rows) // N_LOOKED)]:
        request = Request(str(row), build_prompt(setup, row).messages, how)
        with suppress(DataError):  # running, not planning, tells which pictures cannot be read
            pictures = [cache.prepare(picture) for picture in request.pictures]
            asked.append((request, [(picture.width, picture.height) for picture in pictures]))
    return estimate(asked, Estimator(model.card)).scaled(len(part.rows) * part.task.n_repeats)
