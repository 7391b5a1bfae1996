"""What is to be cited with a set of results: the data, the model and the tool?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from fieldmark.report.export._facts import TaskFacts, checkpoint, developer_and_name
from fieldmark.report.rows import Row

_SPECIAL = {"&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_", "$": r"\$"}


def bibtex(model: str, facts: Sequence[TaskFacts], rows: Sequence[Row]) -> str:
    """One entry per dataset, then the model, then fieldmark."""
    data = {each.dataset: each for each in facts}
    entries = [_data(each) for each in data.values()]
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
    return _entry("misc", f"data-{facts.dataset}", fields)


def _model(model: str) -> str:
    known = checkpoint(model)
    developer, name = developer_and_name(model)
    page = known.source if known.source.startswith("http") else ""
    fields = {
        "title": known.title or name,
        "author": f"{{{developer}}}",
        "year": known.released.partition("-")[0],
        "note": f"weights: {model}; licence: {known.licence}",
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
    return "".join(_SPECIAL.get(each, each) for each in flat)
