"""A result card in Markdown, one per model: what it can do, how sure that is, and what to cite."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fieldmark.report.export._chosen import Chosen, ExportFile
from fieldmark.report.facts import UNKNOWN, TaskFacts, checkpoint, developer_and_name, signatures
from fieldmark.report.providers import is_valued
from fieldmark.report.rows import Row, mark_notes
from fieldmark.report.table.layout import MISSING, arrow, interval_cell, number
from fieldmark.store import Run, Store

_USE = """\
These scores say how well the model's frozen features, or its answers, solve the tasks below, asked
as the reproducibility lines say. Use them to choose a model for similar photos. They do not say how
it does on other species, places, cameras or times of year, and they are no substitute for a test on
photos of your own (`fieldmark run --task my.yaml`). Decisions about protected species or human
safety need a person who checks the answers."""


def export(chosen: Chosen) -> Iterator[ExportFile]:
    facts = chosen.tasks()
    n_predictions = sum(run.n_items or 0 for run in chosen.runs())
    can_read = n_predictions <= MOST_READ
    if not can_read:
        chosen.left_out.append(
            f"the worst classes: {n_predictions:,} predictions would have to be read; --model and "
            "--task choose fewer"
        )
    for model, rows in chosen.models().items():
        yield ExportFile(
            f"{chosen.file_name(model)}.md", _pieces(chosen, model, rows, facts, can_read)
        )


def _pieces(
    chosen: Chosen,
    model: str,
    rows: Sequence[Row],
    facts: dict[str, TaskFacts],
    can_read: bool,
) -> Iterator[bytes]:
    main = [row for row in rows if row.score.is_primary and not row.score.part]
    cited = {row.column: facts[row.column] for row in main}
    listed = checkpoint(model)
    sections = [
        f"# {listed.title or model}: results on {len(cited)} task{'s' * (len(cited) != 1)}",
        f"`{model}`" + (f", {listed.params:,} parameters" if listed.params else ""),
        "\n".join(f"**{note}**" for note in mark_notes(main)),
        f"## Intended use\n\n{_USE}",
        f"## Results\n\n{_table(rows, main)}",
        _worst(chosen, main) if can_read else "",
        f"## Licences\n\n{_licences(model, cited)}",
        "## Reproducibility\n\n```text\n" + "\n".join(signatures(main)) + "\n```",
        f"## Citation\n\n```bibtex\n{bibtex(model, list(cited.values()), main)}\n```",
    ]
    yield ("\n\n".join(filter(None, sections)) + "\n").encode()


def _table(rows: Sequence[Row], main: Sequence[Row]) -> str:
    lines = [
        "| task | asked by | metric | score | 95 % interval | photos | answered | other metrics |",
        "|---|---|---|---:|---|---:|---:|---|",
    ]
    for row in main:
        score, run = row.score, row.run
        others = [
            f"{other.score.metric} {number(other.score.value, other.score)}"
            for other in rows
            if other.run.id == run.id and not other.score.part and not other.score.is_primary
            and not math.isnan(other.score.value)
        ]  # fmt: skip
        share = f"{100 * (run.n_ok or 0) / run.n_items:.1f} %" if run.n_items else MISSING
        value = MISSING if math.isnan(score.value) else number(score.value, score)
        n_train = "" if run.spec.n_train is None else f", n_train={run.spec.n_train}"
        task = f"{row.column} data={row.data}" if row.data else row.column
        cells = (task, f"{run.spec.protocol}{n_train}", f"{score.metric} {arrow(score)}",
                 value, interval_cell(score), f"{score.n:,}", share, ", ".join(others))  # fmt: skip
        lines.append(f"| {' | '.join(_cell(cell) for cell in cells)} |")
    fewer = [f"\n{_cell(row.column)}: {row.fewer}." for row in main if row.fewer]
    return "\n".join([*lines, *fewer])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _worst(chosen: Chosen, main: Sequence[Row]) -> str:
    lines = []
    for row in main:
        worst = worst_classes(chosen.store, row.run)
        if worst:
            shown = "; ".join(
                f"{one.label} {one.n_right} of {one.n} right"
                + (f", mostly taken for {one.taken_for}" if one.taken_for else "")
                for one in worst
            )
            lines.append(f"- **{_cell(row.column)}**: {shown}")
    if not lines:
        return ""
    head = "Labels with the fewest right answers, of those with five images or more:"
    return "\n".join([f"## Worst classes\n\n{head}\n", *lines])


def _licences(model: str, facts: dict[str, TaskFacts]) -> str:
    listed = checkpoint(model)
    page = f", {listed.source}" if listed.source.startswith("http") else ""
    lines = [f"- weights: {listed.licence or UNKNOWN}{page}"]
    by_data = {task.data_title: task for task in facts.values()}
    lines += [
        f"- {task.data_title}"
        if task.is_synthetic
        else f"- data of {task.data_title}: {task.licence}"
        + (f", {task.homepage}" if task.homepage else "")
        for task in by_data.values()
    ]
    return "\n".join(lines)


# --- worst classes ---


MOST_READ = 3_000_000
"""predictions read for one export; the answers of a few models take a second"""
N_WORST, FEWEST = 5, 5
"""labels named, and images a label must have: one wrong answer of two says nothing"""


@dataclass(frozen=True, slots=True)
class WorstClass:
    label: str
    n: int
    n_right: int
    taken_for: str
    """the most frequent wrong answer; "" where all are right"""


def worst_classes(store: Store, run: Run) -> list[WorstClass]:
    """The labels with the smallest share of right answers, worst first; equal ones by name.

    Labels that were never missed are not among them. Answers that are texts have none.
    """
    import numpy as np

    if is_valued(run):
        return []
    stored = store.answers([run.id])
    given = stored.prediction_mn[0]
    kinds, code = np.unique(np.stack([stored.part, stored.target]), axis=1, return_inverse=True)
    code = code.reshape(-1)
    n_c = np.bincount(code, minlength=kinds.shape[1])
    right_c = np.bincount(code, given == stored.target, kinds.shape[1]).astype(int)
    names = store.texts(np.unique(kinds))
    missed = [
        (right_c[at] / n_c[at], _name(names[int(part)], names[int(target)]), at)
        for at, (part, target) in enumerate(kinds.T)
        if n_c[at] >= FEWEST and right_c[at] < n_c[at]
    ]
    worst = []
    for _, name, at in sorted(missed)[:N_WORST]:
        wrong = given[(code == at) & (given != stored.target)]
        answers, counts = np.unique(wrong, return_counts=True)
        most = int(answers[counts.argmax()])
        taken_for = store.texts([most])[most] if most else "no answer"
        worst.append(WorstClass(name, int(n_c[at]), int(right_c[at]), taken_for))
    return worst


def _name(part: str, label: str) -> str:
    return f"{part}: {label}" if part else label


# --- BibTeX: the data, the model and the tool ---


_SPECIAL = {"&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_", "$": r"\$"}


def bibtex(model: str, facts: Sequence[TaskFacts], rows: Sequence[Row]) -> str:
    """One entry per real dataset, then the model, then fieldmark."""
    data = {task.data_name: task for task in facts if not task.is_synthetic}
    entries = [_data(task) for task in data.values()]
    apps = sorted({row.run.app for row in rows})
    tool = {"title": "fieldmark", "note": f"version {', '.join(apps)}"}
    return "\n\n".join([*entries, _model(model), _entry("software", "fieldmark", tool)])


def _data(facts: TaskFacts) -> str:
    year = re.findall(r"\b(?:19|20)\d\d\b", facts.citation)
    fields = {
        "title": facts.data_title,
        "note": facts.citation or "no citation stated",
        "year": year[-1] if year else "",
        "howpublished": facts.homepage and f"\\url{{{facts.homepage}}}",
    }
    return _entry("misc", f"data-{facts.data_name}", fields)


def _model(model: str) -> str:
    listed = checkpoint(model)
    developer, name = developer_and_name(model)
    page = listed.source if listed.source.startswith("http") else ""
    fields = {
        "title": listed.title or name,
        "author": f"{{{developer}}}",
        "year": listed.released.partition("-")[0],
        "note": f"weights: {model}; licence: {listed.licence}",
        "howpublished": page and f"\\url{{{page}}}",
    }
    return _entry("misc", f"model-{name}", fields)


def _entry(kind: str, key: str, fields: Mapping[str, str]) -> str:
    lines = [
        f"  {name} = {{{value if name in ('howpublished', 'author') else _escaped(value)}}},"
        for name, value in fields.items()
        if value
    ]
    plain = re.sub(r"[^A-Za-z0-9.-]", "-", key)
    return "\n".join([f"@{kind}{{{plain},", *lines, "}"])


def _escaped(text: str) -> str:
    """Braces must pair up and a few signs mean something in TeX."""
    flat = " ".join(text.split()).replace("{", "(").replace("}", ")").replace("\\", "/")
    return "".join(_SPECIAL.get(letter, letter) for letter in flat)
