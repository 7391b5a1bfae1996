"""Records of the shared evaluation database Every Eval Ever: JSON per model and task.

https://github.com/evaleval/every_eval_ever, schema 0.3.0 (arXiv:2606.14516). Files lie as its
repository wants them; with --predictions the answers to single items stand beside each record.
"""

from __future__ import annotations

import hashlib
import json
import math
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from fieldmark.report.cells import Row
from fieldmark.report.export._chosen import Chosen, ExportFile
from fieldmark.report.facts import (
    UNKNOWN,
    TaskFacts,
    checkpoint,
    developer_and_name,
)
from fieldmark.report.labels import signature
from fieldmark.report.providers import is_valued, provider_of, value_metric, why_not_paired
from fieldmark.store import OK, Run, canonical_json

SCHEMA = "0.3.0"
HAS_PREDICTIONS = True


def export(chosen: Chosen) -> Iterator[ExportFile]:
    facts = chosen.tasks()
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in chosen.rows:
        if not row.score.part and not math.isnan(row.score.value):
            groups.setdefault((row.model, row.column, row.data), []).append(row)
    for (model, task, _), rows in sorted(groups.items()):
        developer, name = developer_and_name(model)
        identity = _uuid(sorted({row.run.key for row in rows}))
        base = f"data/fieldmark/{chosen.file_name(developer)}/{chosen.file_name(name)}/{identity}"
        record = _record(rows, facts[task], chosen)
        why = next(filter(None, map(_why_no_lines, rows)), "")
        if chosen.has_predictions and why:
            note = f"the single answers on {task}: {why}"
            chosen.left_out.extend([] if note in chosen.left_out else [note])
        elif chosen.has_predictions:
            lines = b"".join(_lines(record, rows, chosen))
            record["detailed_evaluation_results"] = _reference(f"{base}_samples.jsonl", lines)
            yield ExportFile(f"{base}_samples.jsonl", [lines])
        text = json.dumps(record, indent=1, ensure_ascii=False)
        yield ExportFile(f"{base}.json", [f"{text}\n".encode()])


def _uuid(keys: Sequence[str]) -> uuid.UUID:
    """The same for the same runs; the database wants the form of a random one."""
    digest = hashlib.sha256("\n".join(keys).encode()).digest()
    return uuid.UUID(bytes=digest[:16], version=4)


def _record(rows: Sequence[Row], facts: TaskFacts, chosen: Chosen) -> dict[str, Any]:
    run = max((row.run for row in rows), key=lambda run: (run.finished or "", run.id))
    finished = str(_seconds(run.finished))
    model_id = "/".join(developer_and_name(run.spec.model))
    return {
        "schema_version": SCHEMA,
        "evaluation_id": f"fieldmark_{facts.name}/{model_id}/{finished}",
        "evaluation_timestamp": finished,
        "retrieved_timestamp": finished,
        "source_metadata": {
            "source_name": "fieldmark",
            "source_type": "evaluation_run",
            "source_organization_name": UNKNOWN,
            **({"source_organization_url": chosen.source} if chosen.source else {}),
            "evaluator_relationship": "other",
        },
        "eval_library": {"name": "fieldmark", "version": run.app},
        "model_info": _model(run),
        "evaluation_results": [_result(row, facts) for row in rows],
    }


def _seconds(time: str | None) -> int:
    return int(datetime.fromisoformat(time).timestamp()) if time else 0


def _model(run: Run) -> dict[str, Any]:
    model = run.spec.model
    known = checkpoint(model)
    is_chat = model.startswith("chat/")
    developer, name = developer_and_name(model)
    availability = UNKNOWN if is_chat or not known.source else "open_weights"
    details = {
        "deployment_type": UNKNOWN if is_chat else "self_deployed",
        "model_availability": availability,
        "fieldmark_name": model,
        "fingerprint": run.fingerprint,
        "weights_licence": known.licence,
        "parameters": "" if known.params is None else str(known.params),
        "stand_in": run.marks.stand_in,
    }
    return {
        "name": model,
        "id": f"{developer}/{name}",
        "developer": developer,
        "additional_details": {k: v for k, v in details.items() if v},
    }


def _result(row: Row, facts: TaskFacts) -> dict[str, Any]:
    score, spec = row.score, row.run.spec
    bounds = {"min_score": 0, "max_score": 1}
    if not score.is_fraction:
        bounds = {"min_score": "-Infinity", "max_score": "Infinity"}  # type: ignore[dict-item]
    return {
        "evaluation_result_id": _result_id(row),
        "evaluation_name": facts.name,
        "source_data": _data(facts, row),
        "evaluation_timestamp": str(_seconds(row.run.finished)),
        "metric_config": {
            "evaluation_description": facts.title,
            "metric_id": score.metric,
            "metric_name": score.metric,
            "metric_unit": "proportion" if score.is_fraction else "points",
            "lower_is_better": not score.higher_is_better,
            "score_type": "continuous",
            **bounds,
        },
        "score_details": {
            "score": score.value,
            "details": {"signature": signature(spec), "settings": canonical_json(spec.settings)},
            "uncertainty": _uncertainty(row),
        },
        "generation_config": {
            "additional_details": {
                "protocol": spec.protocol,
                "n_train": "all" if spec.n_train is None else str(spec.n_train),
                "seed": str(spec.seed),
                "repeats": str(spec.repeats),
            }
        },
    }


def _result_id(row: Row) -> str:
    return f"{row.run.key}:{row.score.metric}"


def _uncertainty(row: Row) -> dict[str, Any]:
    score = row.score
    uncertainty: dict[str, Any] = {"num_samples": score.n}
    if score.low is not None and score.high is not None:
        uncertainty["confidence_interval"] = {
            "lower": score.low,
            "upper": score.high,
            "confidence_level": score.level,
            "method": score.method or UNKNOWN,
        }
    return uncertainty


def _data(facts: TaskFacts, row: Row) -> dict[str, Any]:
    licence = {"synthetic": "true"} if facts.is_synthetic else {"licence": facts.licence}
    details = {"additional_details": {"signature": row.run.spec.data, **licence}}
    if facts.hub_id:
        return {"dataset_name": facts.data_title, "source_type": "hf_dataset",
                "hf_repo": facts.hub_id, "samples_number": row.score.n, **details}  # fmt: skip
    if facts.homepage:
        return {"dataset_name": facts.data_title, "source_type": "url", "url": [facts.homepage],
                **details}  # fmt: skip
    return {"dataset_name": facts.data_title, "source_type": "other", **details}


def _reference(path: str, lines: bytes) -> dict[str, Any]:
    return {
        "format": "jsonl",
        "file_path": path,
        "hash_algorithm": "sha256",
        "checksum": hashlib.sha256(lines).hexdigest(),
        "total_rows": lines.count(b"\n"),
    }


def _lines(record: Mapping[str, Any], rows: Sequence[Row], chosen: Chosen) -> Iterator[bytes]:
    """Of the primary score of each run: a record of an item belongs to exactly one result."""
    for row in rows:
        if row.score.is_primary:
            for answer in chosen.store.predictions(row.run.id).iter_rows(named=True):
                line = json.dumps(_item(record, row, answer), ensure_ascii=False)
                yield f"{line}\n".encode()


def _why_no_lines(row: Row) -> str:
    """Why the answers of a run cannot be told right from wrong; "" where they can."""
    if not is_valued(row.run) or not row.score.is_primary:
        return ""
    if not value_metric(row.run):
        return why_not_paired(row.run, row.score.metric)
    is_open = row.score.higher_is_better and not row.score.is_fraction
    return f"{row.score.metric} has no best value, so none is right" if is_open else ""


def _worth(row: Row, answer: Mapping[str, Any]) -> tuple[float, bool]:
    """What an item counts, and whether that is right; of texts, by what their task valued them.

    The schema wants a number and a verdict: right is what cannot be better.
    """
    if is_valued(row.run):
        value, is_up = answer["score"], row.score.higher_is_better
        best = 1.0 if is_up else 0.0
        return (1.0 - best, False) if value is None else (float(value), value == best)
    given = answer["prediction"]
    is_right = answer["outcome"] == OK and given is not None and given == answer["target"]
    return float(is_right), is_right


def _item(record: Mapping[str, Any], row: Row, answer: Mapping[str, Any]) -> dict[str, Any]:
    target, given = answer["target"], answer["prediction"]
    provider = provider_of(row.run)
    info = json.loads(answer["info"] or "{}") if provider else {}
    asked, texts = provider.item_texts(info) if provider else (None, ())
    score, is_right = _worth(row, answer)
    reference = [] if target is None else [target]
    return {
        "schema_version": SCHEMA,
        "evaluation_id": record["evaluation_id"],
        "model_id": record["model_info"]["id"],
        "evaluation_name": row.column,
        "evaluation_result_id": _result_id(row),
        "sample_id": answer["id"],
        "sample_hash": hashlib.sha256(f"{answer['id']}{''.join(reference)}".encode()).hexdigest(),
        "interaction_type": "single_turn",
        "input": {"raw": answer["id"] if asked is None else asked, "reference": reference},
        "output": {"raw": list(texts) or ([] if given is None else [given])},
        "answer_attribution": [
            {
                "turn_idx": 0,
                "source": "output.raw",
                "extracted_value": given or "",
                "extraction_method": "exact_match",
                "is_terminal": True,
            }
        ],
        "evaluation": {"score": score, "is_correct": is_right},
        "error": None if answer["outcome"] == OK else answer["outcome"],
        "metadata": {
            k: str(answer[k]) for k in ("part", "repeat", "unit") if answer[k] not in (None, "")
        },
    }
