"""INQUIRE: questions of naturalists, asked of five million photos of iNaturalist.

Two forms of one question. `table(root)` has the rows to rerank, a photo and a query each, a hundred
photos a query that a strong model found:

    label, relevant    "yes" or "no": does the photo answer the query?
    unit, query_id     the query: its number in the list of queries, else a hash of its text
    query              the text; rows are grouped by it, however many there are
    supercategory, category, iconic_group    from the rows, else from the list of queries
    image_id, image_path    of iNaturalist 2024, the path without `.jpg`

`table(root, form="full")` has the queries to rank all photos for: `id` and `unit` are the number of
the query, `label` its super-category, `image` an empty list, because the photos are those of a
gallery (`open_gallery`), and `n_positives` how many of them answer the query (`read_positives`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from fieldmark import draws
from fieldmark.data._check import (
    as_findings,
    counted,
    image_findings,
    name_some,
    named_findings,
    published_findings,
    size_findings,
)
from fieldmark.data._dataset import Finding, Info, Source, finish_table, need
from fieldmark.data.read.gallery import VectorGallery, bare_path, gallery_names, open_gallery
from fieldmark.data.read.hub_parquet import ParquetFile, find_parts, part_findings, read_parts
from fieldmark.data.read.table import (
    as_boolean,
    is_given,
    read_annotations,
    refuse_odd,
    refuse_twins,
    with_optional,
)
from fieldmark.data.sets.inquire.synthetic import ANNOTATIONS, QUERIES, make
from fieldmark.errors import DataError, UsageError

__all__ = [
    "FORMS",
    "INFO",
    "PositiveRows",
    "VectorGallery",
    "check",
    "find_positives",
    "gallery_names",
    "make",
    "open_gallery",
    "read_positives",
    "read_queries",
    "table",
]  # fmt: skip

FORMS = ("rerank", "full")
SPLITS = ("val", "test")
HUB_SPLITS = {"validation": "val", "test": "test"}
KINDS = ("supercategory", "category", "iconic_group")
PUBLISHED = {"val": 4_000, "test": 16_000}
PUBLISHED_QUERIES = {
    "val": 50, "test": 200, "Appearance": 66, "Behavior": 67, "Context": 49, "Species": 18,
}  # fmt: skip
"""super-categories are those of test"""
_HUB = "https://huggingface.co/datasets/evendrow/INQUIRE-Rerank"
_LISTS = (
    "https://raw.githubusercontent.com/inquire-benchmark/INQUIRE/"
    "7e04857e0735b61722c04b35c817b552efd3a092/data/inquire"
)

INFO = Info(
    title="INQUIRE (natural-world retrieval)",
    licence="CC-BY-NC-4.0; photos keep the licences of their authors",
    citation="Vendrow, Pantazis, Shepard, Brostow, Jones, Mac Aodha, Beery, Van Horn. INQUIRE: A "
    "Natural World Text-to-Image Retrieval Benchmark. NeurIPS 2024 Datasets and Benchmarks. "
    "arXiv:2411.02537",
    homepage="https://inquire-benchmark.github.io",
    layout="to rerank\n"
    "  ROOT/data/{validation,test}-*.parquet  (or ROOT/default/{validation,test}/*.parquet)\n"
    f"  ROOT/{QUERIES['val']}, ROOT/{QUERIES['test']}  (optional: numbers of queries)\n"
    "to rank all photos\n"
    f"  ROOT/{QUERIES['val']}, ROOT/{QUERIES['test']}\n"
    f"  ROOT/{ANNOTATIONS}  query_id, image_id, image_path\n"
    "  ROOT/embs/MODEL/img_emb/img_emb_*.npy\n"
    "  ROOT/embs/MODEL/metadata/*.parquet  image_path",
    sources=(
        Source(
            url=f"{_LISTS}/{QUERIES['val']}",
            n_bytes=4_275,
            md5="b4788700b963453f8325095980205e67",
        ),
        Source(
            url=f"{_LISTS}/{QUERIES['test']}",
            n_bytes=16_990,
            md5="dab05ec4ec0aebf1489b9c1754e64e8d",
        ),
        Source(url=f"{_LISTS}/{ANNOTATIONS}"),
        *(
            Source(
                url=f"{_HUB}/resolve/main/data/{name}",
                filename=f"data/{name}",
                n_bytes=n_mb * 1_000_000,
                kind="images",
            )
            for name, n_mb in (
                ("validation-00000-of-00001.parquet", 362),
                ("test-00000-of-00004.parquet", 370),
                ("test-00001-of-00004.parquet", 368),
                ("test-00002-of-00004.parquet", 380),
                ("test-00003-of-00004.parquet", 399),
            )
        ),
        Source(
            steps="Only to rank all five million photos: fetch the embeddings of a model from the "
            "folder that https://github.com/inquire-benchmark/INQUIRE/tree/main/data names (3.8 to "
            "8.3 GB a model), and unpack them so that ROOT/embs/MODEL has img_emb and metadata."
        ),
    ),
)


def table(root: Path, form: str = "rerank") -> pl.DataFrame:
    """One row per query and photo to rerank, in the order of the files; or one per query."""
    if form not in FORMS:
        raise UsageError(f"form is {form!r}: expected {' or '.join(FORMS)}.")
    return _reranked(root) if form == "rerank" else _ranked(root)


# --- rows to rerank ---


def _reranked(root: Path) -> pl.DataFrame:
    parts = _parts(root)
    if not parts:
        raise DataError(_nothing_to_rerank(root))
    frame = read_parts(root, parts, needed=("image", "query", "relevant", "inat24_image_id"))
    frame = with_optional(frame, ("inat24_file_name", *KINDS)).with_columns(
        pl.col("query", *KINDS, "inat24_image_id", "relevant").cast(pl.String).str.strip_chars()
    )
    frame = frame.with_columns(pl.col("query", *KINDS).replace("", None))
    # Raises for the first row without a query, a photo's number, or an answer
    rules = {
        "query": (is_given("query"), "a text"),
        "inat24_image_id": (is_given("inat24_image_id"), "the number of a photo"),
        "relevant": (as_boolean("relevant").is_not_null(), "0 or 1"),
    }
    for column, (rule, expected) in rules.items():
        odd = frame.filter(~rule)
        if len(odd):
            image, value = odd.select("image", column).row(0)
            raise DataError(f"{root / image}  {column} is {value!r}: expected {expected}.")
    frame = frame.join(
        _known_queries(root), on=["split", "query"], how="left", maintain_order="left"
    )
    hashed = pl.col("query").map_elements(
        lambda text: draws.digest("inquire", text).hex()[:12], pl.String
    )
    number = pl.coalesce("query_id", hashed)
    rows = frame.select(
        id=pl.concat_str(number, "inat24_image_id", separator="/"),
        image="image",
        split="split",
        label=pl.when(as_boolean("relevant")).then(pl.lit("yes")).otherwise(pl.lit("no")),
        unit=number,
        query="query",
        query_id=number,
        image_id="inat24_image_id",
        image_path=bare_path("inat24_file_name"),
        **{name: pl.coalesce(name, f"{name}_listed") for name in KINDS},
    ).with_columns(relevant="label")
    return finish_table(rows, root)


def _parts(root: Path) -> list[ParquetFile]:
    return find_parts(root, HUB_SPLITS)


def _nothing_to_rerank(root: Path) -> str:
    return (
        f"{root}  contains no rows to rerank: expected data/validation-*.parquet and "
        "data/test-*.parquet. `fieldmark datasets inquire` shows layout and sources."
    )


def _known_queries(root: Path) -> pl.DataFrame:
    """split, query, query_id and the kinds as `…_listed`; empty where no list is there."""
    schema = dict.fromkeys(("query_id", "query", *KINDS, "split"), pl.String)
    queries = pl.concat([pl.DataFrame(schema=schema), *_lists(root).values()])
    queries = queries.unique(["split", "query"], keep="first", maintain_order=True)
    return queries.rename({name: f"{name}_listed" for name in KINDS})


def _lists(root: Path) -> dict[str, pl.DataFrame]:
    """The lists of queries that are here, with the column `split`."""
    return {
        split: read_queries(root, split).with_columns(split=pl.lit(split))
        for split, name in QUERIES.items()
        if (root / name).is_file()
    }


# --- queries, and the photos that answer them ---


def read_queries(root: Path, split: str) -> pl.DataFrame:
    """query_id, query, supercategory, category, iconic_group of a split, in the file's order."""
    if split not in SPLITS:
        raise UsageError(f"split is {split!r}: expected {' or '.join(SPLITS)}.")
    path = need(root / QUERIES[split], "the list of queries", "inquire")
    needed = ("query_id", "query_text", *KINDS)
    texts = pl.col(needed).str.strip_chars().replace("", None)
    frame = read_annotations(path, needed).with_columns(texts)
    refuse_odd(
        path, frame, {"query_id": (is_given, "a number"), "query_text": (is_given, "a text")}
    )
    refuse_twins(path, frame.get_column("query_id"))
    return frame.select("query_id", pl.col("query_text").alias("query"), *KINDS)


def read_positives(root: Path) -> pl.DataFrame:
    """query_id and image_path (without `.jpg`) of every photo that answers a query, each once."""
    path = need(root / ANNOTATIONS, "the photos that answer the queries", "inquire")
    frame = read_annotations(path, ("query_id", "image_path"))
    frame = frame.select(pl.col("query_id").str.strip_chars(), bare_path("image_path"))
    refuse_odd(
        path, frame, {"query_id": (is_given, "a number"), "image_path": (is_given, "a path")}
    )
    return frame.unique(maintain_order=True)


@dataclass(frozen=True, slots=True)
class PositiveRows:
    """Where the photos that answer queries stand in a gallery."""

    rows: pl.DataFrame
    """query_id, image_path, row; a photo that stands in several rows has all of them"""
    missing: pl.DataFrame
    """query_id, image_path of those that the gallery lacks"""
    n_twins: int
    """rows that show a photo of an earlier row"""


def find_positives(gallery: VectorGallery, positives: pl.DataFrame) -> PositiveRows:
    """The rows of a gallery that answer the queries; looks through all of its paths once."""
    located = gallery.locate(positives.get_column("image_path"))
    rows = positives.join(located, on="image_path", how="inner", maintain_order="left_right")
    missing = positives.join(located, on="image_path", how="anti", maintain_order="left")
    return PositiveRows(rows, missing, len(located) - located.get_column("image_path").n_unique())


def _ranked(root: Path) -> pl.DataFrame:
    counts = read_positives(root).group_by("query_id").len("n_positives")
    lists = _lists(root) or {"test": read_queries(root, "test")}
    queries = pl.concat(lists.values()).join(
        counts, on="query_id", how="left", maintain_order="left"
    )
    rows = queries.with_columns(
        id="query_id",
        unit="query_id",
        label="supercategory",
        image=pl.lit([], pl.List(pl.String)),
        n_positives=pl.col("n_positives").fill_null(0),
    )
    return finish_table(rows, root)


# --- checking ---


@as_findings
def check(root: Path) -> Iterator[Finding]:
    """Counts of both forms, queries without an answer, lists and embeddings that do not fit."""
    names = gallery_names(root)
    if _parts(root):
        yield from _rerank_findings(root)
    elif not names:
        yield Finding("error", _nothing_to_rerank(root))
    if names or _lists(root):
        yield from _list_findings(root)
    for name in names:
        yield from _gallery_findings(root, name)


def _rerank_findings(root: Path) -> Iterator[Finding]:
    rows = _reranked(root)
    yield from part_findings(_parts(root))
    yield from published_findings(rows, PUBLISHED)
    by_query = rows.group_by("query", "split", maintain_order=True).agg(
        n_relevant=(pl.col("label") == "yes").sum(), query_id=pl.col("query_id").first()
    )
    without = by_query.filter(pl.col("n_relevant") == 0).get_column("query")
    text = "to rerank without a relevant photo"
    yield from named_findings("note", without, text, "query", "queries")
    queries = _known_queries(root)
    unknown = by_query.join(queries, on=["split", "query"], how="anti", maintain_order="left")
    if len(queries):
        text = "to rerank that no list of queries has"
        texts = unknown.get_column("query")
        yield from named_findings("warning", texts, text, "query", "queries")
    yield from image_findings(root, rows.get_column("image"))


def _list_findings(root: Path) -> Iterator[Finding]:
    lists = _lists(root) or {"test": read_queries(root, "test")}
    listed = pl.concat(lists.values())
    counts = {split: len(rows) for split, rows in lists.items()}
    if "test" in lists:
        kinds = lists["test"].get_column("supercategory").drop_nulls().value_counts()
        counts |= dict(kinds.rows())
    yield from size_findings(counts, PUBLISHED_QUERIES, "number of queries")
    twins = listed.filter(pl.col("query").is_duplicated()).get_column("query").unique().sort()
    yield from named_findings("warning", twins, "listed more than once", "query", "queries")
    if not (root / ANNOTATIONS).is_file():
        level = "note" if _parts(root) else "warning"
        yield Finding(level, f"{ANNOTATIONS} is not here: all photos cannot be ranked without it.")
        return
    ids = set(read_positives(root).get_column("query_id"))
    without = [query for query in listed.get_column("query_id") if query not in ids]
    text = "without a photo that answers it"
    yield from named_findings("warning", without, text, "query", "queries")
    unknown = sorted(ids - set(listed.get_column("query_id")))
    if len(lists) == len(SPLITS):
        text = f"in {ANNOTATIONS} that no list of queries has"
        yield from named_findings("warning", unknown, text, "query", "queries")


def _gallery_findings(root: Path, name: str) -> Iterator[Finding]:
    try:
        gallery = open_gallery(root, name)
    except DataError as error:
        yield Finding("error", str(error))
        return
    n_twins = gallery.n_twins()
    if n_twins:
        yield Finding("warning", f"embs/{name}: {counted(n_twins, 'row')} of a photo seen before.")
    if (root / ANNOTATIONS).is_file():
        missing = find_positives(gallery, read_positives(root)).missing
        if len(missing):
            images = missing.get_column("image_path").to_list()
            n = counted(len(missing), "answer")
            yield Finding("warning", f"embs/{name}: {n} without a vector: {name_some(images)}.")
