"""What is told of each document in lmms-eval's samples file?

The schema is that of LM Evaluation Harness (a line per document and filter), with lmms-eval's
`input` beside it. A document that was not answered has no response, no metric, and its outcome.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from fieldmark.report.lmms.documents import NO_FILTER, facts_of, has_documents, pipelines_of
from fieldmark.store import OK, Run, Store, canonical_json

RIGHT = "accuracy"
"""the metric of a single item that is known of every run without documents"""


def samples(store: Store, run: Run) -> Iterator[dict[str, Any]]:
    """All lines of a run, by document and filter."""
    if has_documents(run):
        yield from _documents(store, run)
    else:
        yield from _items(store, run)


def task_hash(lines: Iterator[dict[str, Any]]) -> str:
    """Changes with any document, prompt or target."""
    found = hashlib.sha256()
    for line in lines:
        for name in ("doc_hash", "prompt_hash", "target_hash"):
            found.update((line[name] or "").encode())
    return found.hexdigest()


def _documents(store: Store, run: Run) -> Iterator[dict[str, Any]]:
    facts = facts_of(store, run)
    pipelines = pipelines_of(facts)
    kwargs = (facts.get("config") or {}).get("generation_kwargs") or {}
    rows = store.predictions(run.id).iter_rows(named=True)
    for row in sorted(rows, key=lambda row: (row["repeat"], int(row["id"]))):
        info = json.loads(row["info"] or "{}")
        asked = info.get("input", "")
        followed = info.get("choices") or [kwargs]
        arguments = {
            f"gen_args_{number}": {"arg_0": asked, "arg_1": each}
            for number, each in enumerate(followed)
        }
        for pipeline in pipelines:
            yield _document(row, info, pipeline) | {"arguments": arguments}


def _document(row: Mapping[str, Any], info: Mapping[str, Any], pipeline: str) -> dict[str, Any]:
    from fieldmark.protocols import decode  # with it comes all that can ask

    values = info.get("values", {}).get(pipeline, {})
    line: dict[str, Any] = {
        "doc_id": int(row["id"]),
        "doc": info.get("doc") or {"id": int(row["id"])},
        "target": row["target"],
        "arguments": {},
        "resps": _texts(info.get("resps", [])),
        "filtered_resps": _texts(info.get("filtered", {}).get(pipeline, [])),
        "filter": pipeline,
        "metrics": list(values),
        **{name: info.get(name) for name in ("doc_hash", "prompt_hash", "target_hash")},
        "input": info.get("input", ""),
    }
    read = {name: _plain(decode(text)) for name, text in values.items() if name not in line}
    return line | read | _outcome(row, info)


def _items(store: Store, run: Run) -> Iterator[dict[str, Any]]:
    """Runs of fieldmark's own tasks keep no prompt: what was said, and whether that is right."""
    number: dict[tuple[str, str], int] = {}
    for row in store.predictions(run.id).iter_rows(named=True):
        info = json.loads(row["info"] or "{}")
        doc = {name: row[name] for name in ("id", "part", "unit") if row[name]}
        said = info.get("text", row["prediction"])
        is_answered = row["outcome"] == OK
        yield {
            "doc_id": number.setdefault((row["part"], row["id"]), len(number)),
            "doc": doc,
            "target": row["target"],
            "arguments": {},
            "resps": [] if said is None else [[said]],
            "filtered_resps": [row["prediction"]] if is_answered else [],
            "filter": NO_FILTER,
            "metrics": [RIGHT] if is_answered else [],
            "doc_hash": _sha(canonical_json(doc)),
            "prompt_hash": None,
            "target_hash": _sha(row["target"] or ""),
            "input": "",
            **({RIGHT: float(row["prediction"] == row["target"])} if is_answered else {}),
            **({"repeat": row["repeat"]} if row["repeat"] else {}),
            **_outcome(row, info),
        }


def _outcome(row: Mapping[str, Any], info: Mapping[str, Any]) -> dict[str, Any]:
    tokens = {
        theirs: info[ours]
        for ours, theirs in (("tokens_in", "input_tokens"), ("tokens_out", "output_tokens"))
        if info.get(ours) is not None
    }
    found: dict[str, Any] = {"token_counts": [tokens]} if tokens else {}
    if row["outcome"] != OK:
        found |= {"outcome": row["outcome"], "error": info.get("error", "")}
    return found


def _texts(value: Any) -> Any:
    """Leaves become texts, so that all lines of a file have the same types."""
    if isinstance(value, (list, tuple)):
        return [_texts(each) for each in value]
    return str(value)


def _plain(value: Any) -> Any:
    """A value as JSON of its own; what JSON lacks becomes a list or a text."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return value if isinstance(value, (str, int, type(None))) else str(value)


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
