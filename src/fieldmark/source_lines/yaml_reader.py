"""YAML with line numbers: what does a file hold, and on which line does each key stand?

The file is parsed once into nodes, which know their places (by libyaml where PyYAML was built with
it); values and lines are made from them. Everything that makes a file dangerous or ambiguous is
refused with one line: keys that stand twice, tags nobody expects, anchors that multiply or hold
themselves.

The two versions of YAML differ in what plain words mean: in 1.1 `no` is false and `1e-5` is text,
in 1.2 `no` is text and `1e-5` a number. fieldmark's own files are read as 1.2
(https://yaml.org/spec/1.2.2, the core schema), files written for PyYAML as it reads them.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import yaml

from fieldmark.errors import UsageError, at
from fieldmark.source_lines.located import Key, Located, read_text

_MOST_BYTES = 5_000_000
_FAULT_WORDS = (
    (r"found character '\\t'", "a tab: spaces are expected"),
    (r"found another document", "a second document begins here: one `---` part is expected"),
    (r"mapping values are not allowed",
     "a `key: value` is not expected here: check the indentation, and quote text with a colon"),
    (r"found unexpected end of stream", "a quote is opened here and not closed"),
    (r"found character '(.)' that cannot start", r"'\1' cannot begin a value: quote the text"),
    (r"second occurrence", "this anchor's name is used above: rename one"),
    (r"(.*)'<(?:stream end|block end)>'", r"\1the end of the file or block"),
)  # fmt: skip


def read_yaml(path: Path, dialect: Dialect = "1.2", tags: Tags | None = None) -> Located:
    """Plain data; a tag such as `!function` is refused unless `tags` says what it means."""
    text = _read(path)
    try:
        node = compose(path, text)
    except yaml.MarkedYAMLError as error:
        raise UsageError(_syntax_problem(path, text, error)) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        code = f"#x{ord(text[error.position]):04x}" if error.position < len(text) else ""
        problem = f"contains the unprintable character {code}: plain text is expected."
        raise UsageError(at(path, line, problem)) from error
    builder = Builder(path, dialect, tags or {})
    data = builder.value(node, ()) if node is not None else None
    if not isinstance(data, dict):
        holds = "a list" if isinstance(data, list) else "a single value"
        content = "is empty" if data is None else f"contains {holds}"
        raise UsageError(at(path, 1, f"{content}: a mapping of `key: value` lines is needed."))
    return Located(path, data, builder.lines, notes=tuple(builder.notes))


def _read(path: Path) -> str:
    try:
        about = path.stat()
    except (OSError, ValueError):
        return read_text(path)  # which says what is wrong
    if stat.S_ISREG(about.st_mode) and about.st_size > _MOST_BYTES:
        size = f"{about.st_size / 1e6:,.0f} MB"
        raise UsageError(f"{path}  has {size}: at most {_MOST_BYTES // 10**6} MB are expected.")
    if not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):
        raise UsageError(f"{path}  is a device or a pipe; a file is needed.")
    return read_text(path)


def _syntax_problem(path: Path, text: str, error: yaml.MarkedYAMLError) -> str:
    """Points at where something was opened when only the end of the file shows that it was not
    closed.
    """
    mark = error.problem_mark
    if mark is not None and mark.line >= len(text.splitlines()) and error.context_mark is not None:
        mark = error.context_mark
    problem = (error.problem or "cannot be read").splitlines()[0]
    for pattern, template in _FAULT_WORDS:
        if match := re.search(pattern, problem):
            problem = match.expand(template)
            break
    return at(path, mark.line + 1 if mark else None, f"is not valid YAML: {problem}.")


# --- nodes ---


STANDARD = "tag:yaml.org,2002:"
PLAIN = "?"
"""the tag of words without quotes: what they mean is decided by the dialect, later"""
DEEPEST = 100
TOO_DEEP = f"is nested more than {DEEPEST} deep: write it flatter."
_SAFE_DEPTH = 2_000
"""libyaml's nodes are made by a function that calls itself: far deeper than this it crashes"""
_MOST_RETOLD = 500_000
"""characters of a broken file that are parsed again, slowly, for the words of the fault"""


def compose(path: Path, text: str) -> yaml.Node | None:
    """libyaml's words for a fault are poorer than PyYAML's: the latter are fetched."""
    try:
        _check_depth(path, text)
        node: yaml.Node | None = _Loader(text).get_single_node()
    except yaml.YAMLError:
        if len(text) <= _MOST_RETOLD:
            with suppress(RecursionError):  # where libyaml stops, PyYAML may go on, ever deeper
                _PlainLoader(text).get_single_node()
        raise
    return node


def _check_depth(path: Path, text: str) -> None:
    """Only a file with many brackets or a very long line can be deep: others are not looked at."""
    deepest = text.count("[") + text.count("{") + 2 * max(map(len, text.splitlines()), default=0)
    if deepest <= _SAFE_DEPTH:
        return
    depth, loader = 0, _Loader(text)
    while loader.check_event():
        event = loader.get_event()
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise UsageError(at(path, event.start_mark.line + 1, TOO_DEEP))


class _Resolver:
    """Leaves the meaning of plain words open."""

    def resolve(self, kind: type[yaml.Node], _value: object, implicit: Any) -> str:
        if kind is yaml.ScalarNode:
            return PLAIN if implicit[0] else f"{STANDARD}str"
        return f"{STANDARD}{'map' if kind is yaml.MappingNode else 'seq'}"

    def descend_resolver(self, _node: object, _index: object) -> None:
        return

    def ascend_resolver(self) -> None:
        return


class _PlainLoader(_Resolver, yaml.SafeLoader):
    pass


_Loader: type[Any] = _PlainLoader
if yaml.__with_libyaml__:

    class _FastLoader(_Resolver, yaml.CSafeLoader):
        pass

    _Loader = _FastLoader


# --- plain words ---


Dialect = Literal["1.1", "1.2"]

_PLAIN_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_NUMBER = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_MAKER = yaml.constructor.FullConstructor()
_MAKERS: dict[str, Callable[[yaml.ScalarNode], Any]] = {
    "null": _MAKER.construct_yaml_null,
    "bool": _MAKER.construct_yaml_bool,
    "int": _MAKER.construct_yaml_int,
    "float": _MAKER.construct_yaml_float,
    "binary": _MAKER.construct_yaml_binary,
    "timestamp": _MAKER.construct_yaml_timestamp,
}


def plain_value(text: str, dialect: Dialect) -> Any:
    """The value of a word without quotes; ValueError for a number or date that is none."""
    if dialect == "1.1":
        return tagged_value(_tag_1_1(text), text)
    if text in _PLAIN_WORDS:
        return _PLAIN_WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    if _NUMBER.fullmatch(text):
        is_word = text.lstrip("+-").lower() in (".inf", ".nan")
        return float(text.replace(".", "", 1) if is_word else text)
    return text


def tagged_value(kind: str, text: str) -> Any:
    """The value of a word that is said to be an `int`, a `bool` …, as PyYAML makes it.

    KeyError for a kind that is none of YAML's own, ValueError for a word that is none of the kind.
    """
    if kind == "str":
        return text
    make = _MAKERS[kind]
    try:
        return make(yaml.ScalarNode(STANDARD + kind, text))
    except (LookupError, AttributeError) as error:  # which PyYAML leaves to its caller
        raise ValueError(f"this is no {kind}") from error


@lru_cache(maxsize=4096)
def _tag_1_1(text: str) -> str:
    resolvers = yaml.resolver.Resolver.yaml_implicit_resolvers
    for tag, pattern in [*resolvers.get(text[:1], ()), *resolvers.get(None, ())]:
        if pattern.match(text):
            kind = str(tag).removeprefix(STANDARD)
            return kind if kind in _MAKERS else "str"
    return "str"


# --- values ---


Tags = Mapping[str, Callable[[str, Path, int], Any]]
"""a tag that is allowed → what makes its value from the text, the file and the line"""
Pair = tuple[Any, yaml.Node, yaml.Node]
"""a key, the node it stands in, and the node of its value"""

_MOST_VALUES = 200_000
"""values of a file with its anchors written out"""


class Builder:
    """Makes values from nodes and notes the line of every key and entry."""

    def __init__(self, path: Path, dialect: Dialect, tags: Tags) -> None:
        self.lines: dict[Key, int] = {}
        self.notes: list[str] = []
        self._path, self._dialect, self._tags = path, dialect, tags
        self._open: set[int] = set()
        self._pairs: dict[int, list[Pair]] = {}
        self._n_values = 0

    def value(self, node: yaml.Node, key: Key) -> Any:
        self._n_values += 1
        if self._n_values > _MOST_VALUES:
            raise self._fault(node, f"contains more than {_MOST_VALUES:,} values (anchors count)")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if id(node) in self._open:
            raise self._fault(node, "an anchor contains itself")
        if len(key) > DEEPEST:
            raise UsageError(at(self._path, node.start_mark.line + 1, TOO_DEEP))
        is_mapping = isinstance(node, yaml.MappingNode)
        if node.tag not in (STANDARD + ("map" if is_mapping else "seq"), "!"):
            raise self._wrong_tag(node)
        self._open.add(id(node))
        if is_mapping:
            entries = self._pairs_of(node)
        else:
            entries = [(index, entry, entry) for index, entry in enumerate(node.value)]
        made = {}
        for name, name_node, entry in entries:
            inner = (*key, name)
            self.lines[inner] = name_node.start_mark.line + 1
            made[name] = self.value(entry, inner)
        self._open.discard(id(node))
        return made if is_mapping else list(made.values())

    def _pairs_of(self, node: yaml.Node) -> list[Pair]:
        """The keys of a mapping, those of its `<<` first: its own win."""
        if id(node) in self._pairs:
            return self._pairs[id(node)]
        self._pairs[id(node)] = []  # a mapping merged into itself adds nothing
        pairs_here: dict[Any, Pair] = {}
        merged: dict[Any, Pair] = {}
        for name_node, value in node.value:
            if name_node.tag == PLAIN and name_node.value == "<<":
                for pair in self._merged(value):
                    merged.setdefault(pair[0], pair)
                continue
            if not isinstance(name_node, yaml.ScalarNode):
                raise self._fault(name_node, "a key is a list or mapping: text is expected")
            name = self._scalar(name_node)
            if name in pairs_here:
                # PyYAML takes the last of several values: harmless where they are the same.
                key = repr(str(name_node.value))
                if self._dialect == "1.2" or not _is_same(pairs_here[name][2], value):
                    raise self._fault(
                        name_node, f"duplicate key {key}: it is given twice: keep one"
                    )
                line = name_node.start_mark.line + 1
                self.notes.append(
                    at(self._path, line, f"key {key} is given twice with the same value.")
                )
            pairs_here[name] = (name, name_node, value)
        self._pairs[id(node)] = list((merged | pairs_here).values())
        return self._pairs[id(node)]

    def _merged(self, node: yaml.Node) -> Iterator[Pair]:
        """What `<<` brings; of several mappings the first wins."""
        for mapping in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            if not isinstance(mapping, yaml.MappingNode):
                raise self._fault(mapping, "`<<` needs a mapping, or a list of them")
            yield from self._pairs_of(mapping)

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        tag, line = node.tag, node.start_mark.line + 1
        try:
            if tag == PLAIN:
                return plain_value(node.value, self._dialect)
            if tag in (f"{STANDARD}str", "!"):
                return node.value
            if tag in self._tags:
                return self._tags[tag](node.value, self._path, line)
            return tagged_value(tag.removeprefix(STANDARD), node.value)
        except KeyError:
            raise self._wrong_tag(node) from None
        except (ValueError, yaml.YAMLError, OverflowError) as error:
            problem = f"{_shown(node.value)}: {_reason(error)}"
            raise self._fault(node, problem) from error

    def _wrong_tag(self, node: yaml.Node) -> UsageError:
        if node.tag in self._tags:
            return self._fault(node, f"the tag {node.tag!r} needs text, not a list or mapping")
        tag = node.tag.replace(STANDARD, "!!")
        return self._fault(node, f"the tag {tag!r} is not allowed: plain values are expected")

    def _fault(self, node: yaml.Node, text: str) -> UsageError:
        line = node.start_mark.line + 1
        return UsageError(at(self._path, line, f"is not valid YAML: {text}."))


def _is_same(one: yaml.Node, other: yaml.Node) -> bool:
    """Of words only: whether larger values are the same is not worth a search."""
    are_words = isinstance(one, yaml.ScalarNode) and isinstance(other, yaml.ScalarNode)
    return are_words and (one.tag, one.value) == (other.tag, other.value)


def _reason(error: Exception) -> str:
    text = str(getattr(error, "problem", None) or error).splitlines() or ["no value"]
    return "too many digits" if "int_max_str_digits" in text[0] else text[0].rstrip(".")


def _shown(text: str) -> str:
    return repr(text) if len(text) <= 40 else f"{text[:40]!r}…"
