"""Fields (`doc_to_text`, `doc_to_target`, …) and Jinja templates: what is made of a document?

A field is a column, a value, a Jinja template or a function; which, and what that means, follows
lmms-eval. Functions are the task's own code: their errors are told with the document. Templates run
in a sandbox where they reach the document's values and nothing behind them; a missing name is an
error, `regex_replace` is there, and the last newline is dropped.
"""

from __future__ import annotations

import ast
import copy
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from fieldmark.errors import FieldmarkError, UsageError, at, closest
from fieldmark.lmms.code.call import call, load_function, seeded
from fieldmark.lmms.code.inside import TEMPLATE_OUTPUT, TemplateLimit, template_limits
from fieldmark.lmms.code.trust import Function
from fieldmark.lmms.data.pictures import folders_for, holds_picture, without_pictures
from fieldmark.lmms.read.schema import DocumentTask

if TYPE_CHECKING:
    from jinja2 import Environment, Template

Doc = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Fields:
    """The doc_to_* fields of a task for one model; `index` names the document in messages."""

    task: DocumentTask
    kwargs: Any
    """of `prompt_kwargs`: given to functions for text, pictures and messages unless None"""
    target_kwargs: Any
    """of `target_kwargs`"""
    columns: Sequence[str]
    """all columns of the documents, media too"""
    _loaded: dict[Function, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def has_choices(self) -> bool:
        return self.task.doc_to_choice is not None

    @property
    def has_visuals(self) -> bool:
        return self.task.doc_to_visual is not None

    @property
    def odd_target(self) -> str:
        """Why the target looks like a slip, whatever the document; "" where it does not."""
        given = self.task.doc_to_target
        if not isinstance(given, str) or not given or "{" in given or given in self.columns:
            return ""
        return f"doc_to_target {given!r} is not a column, so the word itself is the right answer"

    def text(self, doc: Doc, index: int | None = None) -> Any:
        """The question: text as a rule; a whole number means one of the choices."""
        value = self.task.doc_to_text
        if isinstance(value, Function):
            made = self._call("doc_to_text", doc, index, *self._given(self.kwargs))
            if made is None:
                raise self._wrong("doc_to_text", index, "gave None: expected text")
            return made
        if type(value) is int:
            return value
        if value is None and self.task.doc_to_messages is not None:
            return ""
        if value in self.columns:
            return self._column("doc_to_text", doc, index)
        return self._maybe_number(self._rendered("doc_to_text", doc, index))

    def target(self, doc: Doc, index: int | None = None) -> Any:
        """The answer: text, the number of a choice, or a list of several."""
        value = self.task.doc_to_target
        if isinstance(value, Function):
            return self._call("doc_to_target", doc, index, *self._given(self.target_kwargs))
        if value is None:
            return ""
        if type(value) is int or isinstance(value, list):
            return copy.deepcopy(value)
        if value in self.columns:
            return self._column("doc_to_target", doc, index)
        rendered = self._maybe_number(self._rendered("doc_to_target", doc, index))
        return _maybe_list(rendered) if isinstance(rendered, str) else rendered

    def choices(self, doc: Doc, index: int | None = None) -> list[Any]:
        """What can be answered, in order."""
        value = self.task.doc_to_choice
        if isinstance(value, Function):
            made = self._call("doc_to_choice", doc, index)
        elif isinstance(value, Mapping):
            made = list(value.values())
        elif isinstance(value, list):
            made = value
        elif value in self.columns:
            made = self._column("doc_to_choice", doc, index)
        else:
            made = _literal(self._rendered("doc_to_choice", doc, index))
        if isinstance(made, (list, tuple)) and made:
            return list(made)
        raise self._wrong("doc_to_choice", index, f"gave {shown(made)}: a list is expected")

    def visuals(self, doc: Doc, index: int | None = None) -> list[Any]:
        """Pictures as the task gives them, in order; empty where it shows none.

        The document needs its media. Names of files count from the task's folder where they are
        found there.
        """
        value = self.task.doc_to_visual
        if value is None:
            return []
        if isinstance(value, Function):
            takes = self._parameters("doc_to_visual")
            more = self._given(self.kwargs) if len(takes) == 2 else ()
            made = self._call("doc_to_visual", doc, index, *more)
        elif value in self.columns:
            made = self._column("doc_to_visual", doc, index)
        else:
            raise self._wrong("doc_to_visual", index, f"= {value!r}: expected a column")
        return self._shown(made)

    def messages(self, doc: Doc, index: int | None = None) -> Any:
        """The task's own turns as `{role, content: [{type, text | url}]}`."""
        options = self._named_kwargs("doc_to_messages")
        return self._placed_in(self._call("doc_to_messages", doc, index, **options))

    def description(self, doc: Doc, index: int | None = None) -> str:
        """What stands before the question and the shots; "" where the task says nothing."""
        value = self.task.description
        if isinstance(value, Function):
            return str(self._call("description", doc, index))
        return self._rendered("description", doc, index) if value else ""

    def next_round(
        self, doc: Doc, number: int, outputs: Sequence[str], info: Any, index: int | None = None
    ) -> Any:
        """What the task says after these answers: (pictures, text, is it over, answers, info) or
        the next text from `doc_to_text`, (messages, is it over, answers, info) from
        `doc_to_messages`; None where nothing more is to be said.
        """
        key = "doc_to_text" if self.task.doc_to_messages is None else "doc_to_messages"
        if not isinstance(getattr(self.task, key), Function):
            return None  # a text has nothing to say to an answer
        rounds = {
            "round_idx": number,
            "previous_output": list(outputs),
            "previous_round_info": info,
        }
        takes = self._parameters(key)
        options = {k: v for k, v in rounds.items() if k in takes or _takes_any(takes)}
        made = self._call(key, doc, index, **self._named_kwargs(key), **options)
        if isinstance(made, tuple) and made:
            shown = self._placed_in(made[0]) if key == "doc_to_messages" else self._shown(made[0])
            return (shown, *made[1:])
        return made

    def function(self, key: str) -> Any:
        """The object behind a field that is a `!function`, loaded once."""
        return self._load(getattr(self.task, key))

    def _load(self, mark: Function) -> Any:
        if mark not in self._loaded:
            self._loaded[mark] = load_function(mark, self.task.trust)
        return self._loaded[mark]

    def _given(self, kwargs: Any) -> tuple[Any, ...]:
        return () if kwargs is None else (self._copied(kwargs),)

    def _copied(self, value: Any) -> Any:
        """Made for each call: code that changes its arguments changes no other document's."""
        if isinstance(value, Function):
            return self._load(value)
        if isinstance(value, Mapping):
            return {key: self._copied(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self._copied(inner) for inner in value]
        return value

    def _parameters(self, key: str) -> Mapping[str, inspect.Parameter]:
        try:
            return inspect.signature(self.function(key)).parameters
        except (TypeError, ValueError):  # not a function, or one written in C
            return {"doc": inspect.Parameter("doc", inspect.Parameter.POSITIONAL_ONLY)}

    def _call(self, key: str, doc: Doc, index: int | None, *more: Any, **options: Any) -> Any:
        """Code may draw: the same document is asked the same, in any order and after a restart."""
        function, where = self.function(key), self.task.line_of(key)
        with seeded(0, self.task.task, index):
            return call(function, doc, *more, where=where, document=index, **options)

    def _column(self, key: str, doc: Doc, index: int | None) -> Any:
        name = getattr(self.task, key)
        if name in doc and (key == "doc_to_visual" or not holds_picture(doc[name])):
            return doc[name]
        raise self._wrong(key, index, f"= {name!r}, a column of media, which only pictures may use")

    def _rendered(self, key: str, doc: Doc, index: int | None) -> str:
        value = getattr(self.task, key)
        if not isinstance(value, str):
            expected = "expected text, a column, a template or a !function"
            raise self._wrong(key, index, f"= {shown(value)}: {expected}")
        try:
            return render(value, without_pictures(doc))
        except FieldmarkError as error:
            raise UsageError(f"{self._start(key, index)}: {error}") from error

    def _maybe_number(self, text: str) -> Any:
        """Digits are the number of a choice, where there are choices."""
        is_number = self.task.doc_to_choice is not None and text.isdigit()
        return int(text) if is_number and text.isascii() else text

    def _named_kwargs(self, key: str) -> dict[str, Any]:
        """The kwargs under the name the function gives them, if it takes them."""
        takes, name = self._parameters(key), "lmms_eval_specific_kwargs"
        if self.kwargs is None:
            is_needed = name in takes and takes[name].default is inspect.Parameter.empty
            return {name: None} if is_needed else {}
        if name not in takes and not _takes_any(takes):
            name = list(takes)[1] if len(takes) == 2 else ""
        return {name: self._copied(self.kwargs)} if name else {}

    def _shown(self, visuals: Any) -> list[Any]:
        return [self._placed(visual) for visual in _flat(visuals)]

    def _placed_in(self, messages: Any) -> Any:
        """The messages with their pictures' files in place."""
        for message in messages if isinstance(messages, list) else ():
            content = message.get("content") if isinstance(message, dict) else None
            for piece in content if isinstance(content, list) else ():
                for key in ("url", "image") if isinstance(piece, dict) else ():
                    if piece.get("type") != "text" and key in piece:
                        piece[key] = self._placed(piece[key])
        return messages

    def _placed(self, visual: Any) -> Any:
        if not isinstance(visual, str):
            return visual
        path = folders_for(self.task).find(visual)
        return visual if path is None else str(path)

    def _wrong(self, key: str, index: int | None, text: str) -> UsageError:
        return UsageError(f"{self._start(key, index)} {text}.")

    def _start(self, key: str, index: int | None) -> str:
        about = "" if index is None else f"document {index}: "
        return f"{self.task.line_of(key)}  {about}{key}"


def _takes_any(takes: Mapping[str, inspect.Parameter]) -> bool:
    return any(taken.kind is inspect.Parameter.VAR_KEYWORD for taken in takes.values())


def _maybe_list(text: str) -> Any:
    if len(text) < 2 or text[0] != "[" or text[-1] != "]":
        return text
    made = _literal(text)
    return text if made is None else made


def _literal(text: str) -> Any:
    """The value that a Python literal stands for; None where it is none."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _flat(value: Any) -> Iterator[Any]:
    """Lists of lists of pictures one by one; a document may lack its picture."""
    if isinstance(value, (list, tuple)):
        for inner in value:
            yield from _flat(inner)
    elif value is not None:
        yield value


def shown(value: object) -> str:
    """The value in a message."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:59]}…"


_PLAIN = ("doc_to_text", "doc_to_target", "doc_to_choice", "description")


def is_plain(task: DocumentTask) -> bool:
    """Is it safe to render in this process, since it names no code and no template computes?

    Such a template holds words and columns, each as it is: it takes as long as its text is.
    """
    shots = task.fewshot_config or {}
    values = [block.get(key) for block in (vars(task), shots) for key in _PLAIN]
    templates = [value for value in values if isinstance(value, str)]
    is_pickle = task.dataset_path == "pandas"
    return not (is_pickle or task.functions) and all(map(_only_shows, templates))


@lru_cache(maxsize=4096)
def _only_shows(template: str) -> bool:
    from jinja2 import TemplateSyntaxError, nodes

    if len(template) > _LONGEST:
        return False
    shown = (nodes.Output, nodes.TemplateData, nodes.Name)
    try:
        tree = _environment().parse(template)
    except (TemplateSyntaxError, RecursionError, MemoryError):
        return False
    return all(isinstance(node, shown) for node in tree.find_all(nodes.Node))


_MISSING = re.compile(r"^'([^']+)' is undefined$")
_MOST_NAMES = 8
"""so many columns are named when none is close to the one asked for"""


_LONGEST = 100_000
"""characters of a template: compiling 2 MB took 3.3 GB; the public ones have some thousand"""


def render(template: str, doc: Mapping[str, Any], where: str = "") -> str:
    """The template with the document's columns as its variables; `UsageError` of one line."""
    try:
        return _rendered(template, doc)
    except UsageError as error:
        raise UsageError(at(where, None, str(error))) from error


def _rendered(template: str, doc: Mapping[str, Any]) -> str:
    from jinja2 import TemplateError, UndefinedError

    compiled = compile_template(template)
    try:
        with template_limits():
            text = compiled.render(doc)
    except TemplateLimit as limit:
        raise UsageError(f"the template {_short_template(template)} {limit}.") from None
    except UndefinedError as error:
        raise UsageError(_missing(error.message or "", doc)) from None
    except (
        TemplateError, TypeError, ValueError, LookupError, ArithmeticError, AttributeError,
        RecursionError, re.error,
    ) as error:  # fmt: skip
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise UsageError(f"the template {_short_template(template)} failed: {reason}.") from error
    if len(text) > TEMPLATE_OUTPUT:
        most = f"{len(text):,} characters: expected at most {TEMPLATE_OUTPUT:,}"
        raise UsageError(f"the template {_short_template(template)} gives {most}.")
    return text


@lru_cache(maxsize=4096)
def compile_template(template: str) -> Template:
    """`UsageError` where it is not valid Jinja."""
    from jinja2 import TemplateSyntaxError

    if len(template) > _LONGEST:
        most = f"{len(template):,} characters: expected at most {_LONGEST:,}"
        raise UsageError(f"the template {_short_template(template)} has {most}.")
    try:
        return _environment().from_string(template)
    except TemplateSyntaxError as error:
        reason = (error.message or "it cannot be read").rstrip(".")
        line = f", its line {error.lineno}" if "\n" in template.strip() else ""
        raise UsageError(
            f"the template {_short_template(template)} is not valid Jinja{line}: {reason}."
        ) from None
    except (RecursionError, MemoryError, SyntaxError) as error:  # SyntaxError: Python's own limits
        raise UsageError(f"the template {_short_template(template)} is nested too deep.") from error


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import StrictUndefined, pass_context
    from jinja2.sandbox import SandboxedEnvironment

    # Nothing is computed before a document is there: a finalizer that takes the context keeps Jinja
    # from working out constants, such as `9 ** 9999999`, when a template is only read.
    as_it_is = pass_context(lambda _context, value: value)
    made = SandboxedEnvironment(undefined=StrictUndefined, optimized=False, finalize=as_it_is)
    made.filters["regex_replace"] = _regex_replace
    return made


def _regex_replace(text: str, pattern: str, repl: str, count: int = 0) -> str:
    return re.sub(pattern, repl, text, count=count)


def _missing(message: str, doc: Mapping[str, Any]) -> str:
    match = _MISSING.match(message)
    if not match:
        return f"a template uses something that does not exist: {message}."
    near = closest(match[1], map(str, doc), most=1)
    if near:
        return f"a template uses {match[1]!r}, which is not a column. Did you mean {near[0]!r}?"
    names = [str(name) for name in doc]
    more = f", … ({len(names)} in all)" if len(names) > _MOST_NAMES else ""
    return (
        f"a template uses {match[1]!r}, which is not a column: the document has "
        f"{', '.join(names[:_MOST_NAMES]) or 'none'}{more}."
    )


def _short_template(template: str) -> str:
    line = " ".join(template.split())
    return repr(line if len(line) <= 50 else f"{line[:49]}…")
