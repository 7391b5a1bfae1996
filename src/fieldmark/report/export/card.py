"""A result card in Markdown, one per model: what it can do, how sure that is, and what to cite."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from fieldmark.report.cells import MISSING, arrow, interval_cell, number
from fieldmark.report.export._bibtex import bibtex
from fieldmark.report.export._chosen import Chosen, ExportFile
from fieldmark.report.export._facts import UNKNOWN, TaskFacts, checkpoint, task_facts
from fieldmark.report.export._worst import MOST_READ, WorstClass, worst_classes
from fieldmark.report.rows import Row
from fieldmark.report.signature import signatures

_USE = """\
These scores say how well the model's frozen features, or its answers, solve the tasks below, asked
as the reproducibility lines say. Use them to choose a model for similar photos. They do not say how
it does on other species, places, cameras or times of year, and they are no substitute for a test on
photos of your own (`fieldmark run --task my.yaml`). Decisions about protected species or human
safety need a person who checks the answers."""


def export(chosen: Chosen) -> Iterator[ExportFile]:
    facts = task_facts(chosen)
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
    mine = {row.column: facts[row.column] for row in main}
    known = checkpoint(model)
    sections = [
        f"# {known.title or model}: results on {len(mine)} task{'s' * (len(mine) != 1)}",
        f"`{model}`" + (f", {known.params:,} parameters" if known.params else ""),
        f"## Intended use\n\n{_USE}",
        f"## Results\n\n{_table(rows, main)}",
        _worst(chosen, main) if can_read else "",
        f"## Licences\n\n{_licences(model, mine)}",
        "## Reproducibility\n\n```text\n" + "\n".join(signatures(main)) + "\n```",
        f"## Citation\n\n```bibtex\n{bibtex(model, list(mine.values()), main)}\n```",
    ]
    yield ("\n\n".join(filter(None, sections)) + "\n").encode()


def _table(rows: Sequence[Row], main: Sequence[Row]) -> str:
    lines = [
        "| task | asked by | metric | score | 95 % interval | items | answered | other metrics |",
        "|---|---|---|---:|---|---:|---:|---|",
    ]
    for row in main:
        score, run = row.score, row.run
        others = [
            f"{each.score.metric} {number(each.score.value, each.score)}"
            for each in rows
            if each.run.id == run.id and not each.score.part and not each.score.is_primary
            and not math.isnan(each.score.value)
        ]  # fmt: skip
        share = f"{100 * (run.n_ok or 0) / run.n_items:.1f} %" if run.n_items else MISSING
        value = MISSING if math.isnan(score.value) else number(score.value, score)
        n_train = "" if run.spec.n_train is None else f", n_train={run.spec.n_train}"
        task = f"{row.column} data={row.data}" if row.data else row.column
        cells = (task, f"{run.spec.protocol}{n_train}", f"{score.metric} {arrow(score)}",
                 value, interval_cell(score), f"{score.n:,}", share, ", ".join(others))  # fmt: skip
        lines.append(f"| {' | '.join(_cell(each) for each in cells)} |")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _worst(chosen: Chosen, main: Sequence[Row]) -> str:
    lines = []
    for row in main:
        found = worst_classes(chosen.store, row.run)
        if found:
            shown = "; ".join(_class(each) for each in found)
            lines.append(f"- **{_cell(row.column)}**: {shown}")
    if not lines:
        return ""
    head = "Labels with the fewest right answers, of those with five images or more:"
    return "\n".join([f"## Worst classes\n\n{head}\n", *lines])


def _class(found: WorstClass) -> str:
    mixed = f", mostly taken for {found.taken_for}" if found.taken_for else ""
    return f"{found.label} {found.n_right} of {found.n} right{mixed}"


def _licences(model: str, facts: dict[str, TaskFacts]) -> str:
    known = checkpoint(model)
    page = f", {known.source}" if known.source.startswith("http") else ""
    lines = [f"- weights: {known.licence or UNKNOWN}{page}"]
    by_data = {each.dataset: each for each in facts.values()}
    lines += [
        f"- data of {each.data_title}: {each.licence}"
        + (f", {each.homepage}" if each.homepage else "")
        for each in by_data.values()
    ]
    return "\n".join(lines)
