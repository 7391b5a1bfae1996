"""Run and cost: how are all documents of a task asked and scored, and what will that cost?"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl

from fieldmark.chat import (
    Answer,
    AskSession,
    ChatModel,
    Estimate,
    Estimator,
    LocalModel,
    Message,
    MessagePart,
    Picture,
    PictureCache,
    Request,
    Usual,
    estimate,
)
from fieldmark.errors import DataError, UsageError
from fieldmark.lmms.ask.choices import weigh
from fieldmark.lmms.ask.fields import Fields, is_plain
from fieldmark.lmms.ask.generate import (
    DocumentReply,
    RequestSender,
    converse,
    generate,
    seen_by_mock,
)
from fieldmark.lmms.ask.prompts import Setup, build_prompt
from fieldmark.lmms.ask.settings import prompt_key, prompt_kwargs, read_generation, target_kwargs
from fieldmark.lmms.ask.shots import make_examples
from fieldmark.lmms.code.call import describe_error
from fieldmark.lmms.code.inside import ask_outside, offer
from fieldmark.lmms.code.judge import Judge
from fieldmark.lmms.code.sandbox import SANDBOX, SandboxLost
from fieldmark.lmms.code.trust import Function
from fieldmark.lmms.data.documents import (
    DocumentPart,
    OpenTask,
    draw_part,
    fetch_documents,
    source_of,
)
from fieldmark.lmms.metrics.registry import Added, added, adopt, call_added
from fieldmark.lmms.read.schema import NOT_RUN, DocumentTask
from fieldmark.lmms.score.results import row_of, score_replies, summed_up
from fieldmark.lmms.score.scores import score_document_run
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
from fieldmark.protocols.ask.answers import FRAME
from fieldmark.store import Score, canonical_json

HTTP_KEYS = ("openai", "openai_compatible", "async_openai")
"""what lmms-eval calls a model behind an address"""
N_LOOKED = 8
"""documents whose prompts are built to estimate the cost"""


def in_sandbox(task: DocumentTask, function: Callable[..., Any], *args: Any, **more: Any) -> Any:
    """What the function gives where the code and the templates of the task may run."""
    if is_plain(task):
        return function(*args)
    try:
        return SANDBOX.run(function, *args, **more)
    except SandboxLost as error:
        raise UsageError(f"{task.line_of('task')}  its code or a template {error}.") from error


def opened_task(task: DocumentTask, workspace: Workspace) -> OpenTask:
    """The documents of a task, fetched where the user allowed it: one name in a command."""
    plain = {name: value for name, value in task.plain().items() if name != "repeats"}
    key = canonical_json([task.line_of("task"), plain])
    settings = workspace.settings

    def make() -> OpenTask:
        fetch(task, settings.cache, settings.may_fetch)
        return OpenTask(secrets.token_hex(8), task, settings.cache)

    opened: OpenTask = workspace.once(("documents", key), make)
    return opened


def fetch(task: DocumentTask, cache: Path, may_fetch: bool) -> None:
    if may_fetch:
        fetch_documents(in_sandbox(task, source_of, task), cache)


def open_part(opened: OpenTask, draw: Draw) -> tuple[DocumentPart, tuple[Path, ...]]:
    """The documents of a run, and the files and folders that hold them."""
    rows, digest, folders = in_sandbox(opened.task, _draw, opened, draw)
    return DocumentPart(opened, rows, draw.n_train, digest), folders


def _draw(opened: OpenTask, draw: Draw) -> tuple[tuple[int, ...], str, tuple[Path, ...]]:
    part = draw_part(opened, draw)
    return part.rows, part.digest, part.documents.places


def score_in_sandbox(
    task: DocumentTask, predictions: pl.DataFrame, seed: int, folder: Path | None, judge: Judge
) -> list[Score]:
    """The scores of a run; only aggregations that are code of the task need the sandbox."""
    arguments = task, predictions, seed, folder
    if not any(isinstance(item.aggregation, Function) for item in task.metrics):
        return score_document_run(*arguments)
    handlers = {"judge": judge.ask, "added": _call_added}
    scores: list[Score] = in_sandbox(task, _score, added(), *arguments, handlers=handlers)
    return scores


def _score(users: Added, *arguments: Any) -> list[Score]:
    adopt(users, _call_outside)
    return score_document_run(*arguments)


def _call_outside(name: str, *args: Any, **options: Any) -> Any:
    return ask_outside("added", name, args, options)


def _call_added(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    try:
        return call_added(name, *args, **options)
    except Exception as error:  # the user's own: told as if it were the task's
        raise UsageError(f"{name} failed: {describe_error(error)}.") from error


def ask_documents(
    part: DocumentPart,
    model: ChatModel | LocalModel,
    draw: Draw,
    options: AskOptions,
    progress: Progress,
    judge: Judge | None = None,
) -> PartPredictions:
    """The answers to all documents, with their values."""
    began = time.monotonic()
    progress.start(f"{part.task.task} with {model.name}", len(part.rows))
    if is_plain(part.task):
        setup = make_setup(part, model, draw, options.settings)
        with ask_session(model, options, progress, seen_by_mock(setup, model)) as sending:
            replies = _ask(setup, sending)
        rows, about = _scored(setup, replies, draw.seed)
    else:
        outside = _Outside(model, options, progress)
        handlers = {name: getattr(outside, name) for name in ("open", "send", "close")}
        handlers |= {"advance": progress.advance, "judge": (judge or Judge()).ask}
        handlers["added"] = _call_added
        arguments = added(), part, _portable(model), draw, options.settings
        try:
            rows, about = in_sandbox(part.task, _ask_inside, *arguments, handlers=handlers)
        finally:
            outside.close()
    frame = pl.DataFrame(rows, schema=FRAME, orient="row")
    return PartPredictions("", frame, part.k, about).timed(time.monotonic() - began)


Scored = tuple[list[tuple[Any, ...]], dict[str, Any]]
"""the rows of documents, and what holds for all of them"""


def _scored(setup: Setup, replies: list[DocumentReply], seed: int) -> Scored:
    setup.part.refuse_changed()
    judged = score_replies(setup, replies, seed)
    return [row_of(setup, document) for document in judged], summed_up(setup, judged)


class _Outside:
    """Sends what the sandbox makes."""

    def __init__(
        self, model: ChatModel | LocalModel, options: AskOptions, progress: Progress
    ) -> None:
        self.model, self.options, self.progress = model, options, progress
        self._stack = ExitStack()
        self._session: AskSession | None = None

    def open(self, seen: Mapping[str, str]) -> None:
        opening = ask_session(self.model, self.options, self.progress, seen)
        self._session = self._stack.enter_context(opening)

    def send(self, title: str) -> None:
        assert self._session is not None
        self._session.ask(
            iter(lambda: SANDBOX.ask("next"), None),
            lambda request, answer: SANDBOX.ask("answer", request.info, answer),
            title,
        )

    def close(self) -> None:
        self._stack.close()


def _ask_inside(
    users: Added,
    part: DocumentPart,
    model: ChatModel | LocalModel,
    draw: Draw,
    settings: AskSettings,
) -> Scored:
    adopt(users, _call_outside)
    setup = make_setup(part, model, draw, settings)
    ask_outside("open", seen_by_mock(setup, model))
    replies = _ask(setup, _SandboxSession(model))
    ask_outside("close")
    return _scored(setup, replies, draw.seed)


class _SandboxSession:
    """Stands for `AskSession` in the sandbox."""

    def __init__(self, model: ChatModel | LocalModel) -> None:
        self.model = model

    @property
    def progress(self) -> _SandboxSession:
        return self

    def advance(self, n: int = 1) -> None:
        ask_outside("advance", n)

    def ask(
        self, requests: Iterable[Request], on_answer: Callable[[Request, Answer], None], title: str
    ) -> None:
        source, sent = iter(requests), dict[int, Request]()

        def give() -> Request | None:
            request = next(source, None)
            if request is None:
                return None
            sent[number := len(sent)] = replace(request, messages=())
            return replace(
                request, messages=tuple(map(_portable_message, request.messages)), info=number
            )

        offer({"next": give, "answer": lambda number, answer: on_answer(sent[number], answer)})
        ask_outside("send", title)


@dataclass(frozen=True, slots=True)
class _Unreadable:
    """The bytes of a picture that cannot be read: told when it is sent."""

    text: str

    def __call__(self) -> bytes:
        raise DataError(self.text)


def _portable_message(message: Message) -> Message:
    return replace(message, parts=tuple(map(_portable_part, message.parts)))


def _portable_part(part: MessagePart) -> MessagePart:
    if not isinstance(part, Picture):
        return part
    try:
        return replace(part, source=part.read())
    except DataError as error:
        return replace(part, source=_Unreadable(str(error)))


def _portable(model: ChatModel | LocalModel) -> ChatModel | LocalModel:
    """The model without its weights: what prompts are made for."""
    if not isinstance(model, LocalModel):
        return model
    kept = ("config", "image_rule", "precision")
    config = SimpleNamespace(model_type=str(model.engine.config.model_type))
    engine = SimpleNamespace(
        **{name: getattr(model.engine, name) for name in kept} | {"config": config}
    )
    return replace(model, engine=engine)  # type: ignore[arg-type]


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


def _ask(setup: Setup, sending: RequestSender) -> list[DocumentReply]:
    output = setup.task.output_type
    if output == "generate_until":
        return generate(setup, sending)
    if output == "generate_until_multi_round":
        return converse(setup, sending)
    return weigh(setup, sending)


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
    given = {
        "temperature": settings.temp,
        "max_output_tokens": settings.max_output,
        "reasoning_effort": settings.effort,
        "extra": settings.body or None,
    }
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
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
        f"{task.line_of(key)}  {what} needs a model that gives likelihoods (hf-chat/…): "
        f"{model.name!r} only writes."
    )


def why_not_run(task: DocumentTask) -> list[str]:
    """Why no model can be asked the task, with its place; nothing where one can."""
    why = NOT_RUN.get(task.output_type)
    where = task.line_of("output_type")
    return [f"{where}  {task.output_type} {why}: fieldmark does not run such tasks."] if why else []


def backend_keys(model: ChatModel | LocalModel, settings: AskSettings) -> Sequence[str]:
    """What lmms-eval would call the model: its files have prompts and settings by that name."""
    if settings.prompts_for:
        return (settings.prompts_for,)
    if isinstance(model, LocalModel):
        return (str(model.engine.config.model_type),)
    return HTTP_KEYS


def estimate_documents(
    part: DocumentPart,
    model: ChatModel | LocalModel,
    draw: Draw,
    settings: AskSettings,
    usual: Usual,
) -> Estimate:
    """What the requests will take, from a few prompts, spread over the documents.

    Reads their pictures, sends nothing.
    """
    estimated: Estimate = in_sandbox(
        part.task, _estimate, part, _portable(model), draw, settings, usual
    )
    return estimated


def _estimate(
    part: DocumentPart,
    model: ChatModel | LocalModel,
    draw: Draw,
    settings: AskSettings,
    usual: Usual,
) -> Estimate:
    setup = make_setup(part, model, draw, settings)
    cache, how = PictureCache(model.picture_limits), model.settings(setup.generation.settings)
    sized = []
    for row in part.rows[:: -(-len(part.rows) // N_LOOKED)]:
        request = Request(str(row), build_prompt(setup, row).messages, how)
        with suppress(DataError):  # running, not planning, tells which pictures cannot be read
            pictures = [cache.prepare(picture) for picture in request.pictures]
            sized.append((request, [(picture.width, picture.height) for picture in pictures]))
    few = estimate(sized, Estimator(model.card), usual)
    return few.scaled(len(part.rows) * part.task.n_repeats)
