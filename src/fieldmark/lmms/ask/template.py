"""What does a Jinja template say about a document?

As lmms-eval renders: a missing name is an error, `regex_replace` is there, and the template's last
newline is dropped. Templates run in a sandbox: they reach the document's values and nothing behind
them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from fieldmark.errors import UsageError, closest

if TYPE_CHECKING:
    from jinja2 import Environment, Template

_MISSING = re.compile(r"^'([^']+)' is undefined$")
_MOST_NAMES = 8
"""so many columns are named when none is close to the one asked for"""


def render(template: str, doc: Mapping[str, Any], where: str = "") -> str:
    """The template with the document's columns as its variables; `UsageError` of one line."""
    try:
        return _rendered(template, doc)
    except UsageError as error:
        raise UsageError(f"{where}  {error}" if where else str(error)) from error


def _rendered(template: str, doc: Mapping[str, Any]) -> str:
    from jinja2 import TemplateError, UndefinedError

    compiled = compile_template(template)
    try:
        return compiled.render(doc)
    except UndefinedError as error:
        raise UsageError(_missing(error.message or "", doc)) from None
    except (
        TemplateError, TypeError, ValueError, LookupError, ArithmeticError, AttributeError,
        RecursionError, re.error,
    ) as error:  # fmt: skip
        words = str(error).strip().partition("\n")[0] or type(error).__name__
        raise UsageError(f"the template {_shown(template)} failed: {words}.") from error


@lru_cache(maxsize=4096)
def compile_template(template: str) -> Template:
    """`UsageError` where it is no Jinja."""
    from jinja2 import TemplateSyntaxError

    try:
        return _environment().from_string(template)
    except TemplateSyntaxError as error:
        words = (error.message or "it cannot be read").rstrip(".")
        line = f", its line {error.lineno}" if "\n" in template.strip() else ""
        raise UsageError(f"the template {_shown(template)} is no Jinja{line}: {words}.") from None
    except (RecursionError, MemoryError, SyntaxError) as error:  # SyntaxError: Python's own limits
        raise UsageError(f"the template {_shown(template)} is nested too deep.") from error


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
    found = _MISSING.match(message)
    if not found:
        return f"a template asks for what is not there: {message}."
    near = closest(found[1], map(str, doc), most=1)
    if near:
        return f"a template asks for {found[1]!r}, no column. Did you mean {near[0]!r}?"
    names = [str(each) for each in doc]
    more = f", … ({len(names)} in all)" if len(names) > _MOST_NAMES else ""
    return (
        f"a template asks for {found[1]!r}, no column: the document has "
        f"{', '.join(names[:_MOST_NAMES]) or 'none'}{more}."
    )


def _shown(template: str) -> str:
    first = " ".join(template.split())
    return repr(first if len(first) <= 50 else f"{first[:49]}…")
