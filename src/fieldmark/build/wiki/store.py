"""Page cache (SQLite): which pages of a wiki are here, and what does a title lead to?

One file holds pages, redirects, titles that the wiki lacks, and what the wiki calls itself. The API
fills it batch by batch, a dump fills it whole. A batch is one transaction: `kill -9` leaves all of
it or nothing, and two processes on one file wait for each other. Titles are kept in the wiki's own
spelling; `lookup` follows spelling and redirects as the wiki does.
"""

from __future__ import annotations

import re
import sqlite3
import unicodedata
import zlib
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from fieldmark.build.wiki import Lookup, WikiPage, WikiSite
from fieldmark.errors import StoreError, at

_VERSION = 1
_APPLICATION_ID = 0x464D5750  # "FMWP": fieldmark, wiki pages
_SCHEMA = f"""
CREATE TABLE page (
    title TEXT PRIMARY KEY, page_id INTEGER NOT NULL, revision_id INTEGER NOT NULL,
    timestamp TEXT NOT NULL, wikitext BLOB NOT NULL, is_disambiguation INTEGER NOT NULL,
    wikidata TEXT NOT NULL
) STRICT;
-- A title that is no page. Its target is what it is respelled as or redirects to, NULL = missing.
CREATE TABLE signpost (
    title TEXT PRIMARY KEY, target TEXT, fragment TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE fact (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {_VERSION};
"""
_MOST_HOPS = 10
_WAIT_S = 120.0
_ZLIB_LEVEL = 1
"""6 is a quarter smaller and three times slower, and a dump has millions of pages"""
_COLUMNS = "title, page_id, revision_id, timestamp, wikitext, is_disambiguation, wikidata"


class PageStore:
    """Pages of one wiki; made by `open`, closed by `close` or at the end of a `with`."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path, self._db = path, connection
        self._is_whole: bool | None = None

    @classmethod
    def open(cls, path: Path) -> PageStore:
        """The store in this file, which is made where it is not there."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(at(path, None, f"cannot be made ({error.strerror}).")) from error
        with _explained(path):
            store = cls(path, sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None))
        try:
            store._make()
        except BaseException:
            store.close()
            raise
        return store

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> PageStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- facts about the wiki ---

    @property
    def is_whole(self) -> bool:
        """Made from a whole dump: a title that is not here does not exist."""
        if self._is_whole is None:
            self._is_whole = self._facts("is_whole") == ["yes"]
        return self._is_whole

    @is_whole.setter
    def is_whole(self, value: bool) -> None:
        self._set_facts({"is_whole": "yes" if value else "no"})
        self._is_whole = value

    @property
    def site(self) -> WikiSite | None:
        """The wiki these pages come from; None = not known yet."""
        values = self._facts("site_name", "site_url", "site_licence")
        return WikiSite(*values) if values else None

    def set_site(self, site: WikiSite) -> None:
        """Says which wiki this is. A store holds the pages of one."""
        before = self.site
        if before is not None and before.url != site.url:
            text = f"contains pages of {before.url}, not of {site.url}: use another file for these."
            raise StoreError(at(self.path, None, text))
        rows = {"site_name": site.name, "site_url": site.url, "site_licence": site.licence}
        self._set_facts(rows)

    def note(self, name: str) -> str:
        """What a source of pages noted down here for its next run; "" = nothing."""
        return next(iter(self._facts(f"note_{name}")), "")

    def set_note(self, name: str, text: str) -> None:
        self._set_facts({f"note_{name}": text})

    # --- titles ---

    def lookup(self, title: str) -> Lookup | None:
        """What the wiki has under a title; None = it was never asked.

        `chain` holds the titles gone through after the one asked for, the page's own last; it is
        empty where the title asked for is the page's. A loop of redirects leads to no page.
        """
        here, chain, fragment = title, list[str](), ""
        with self._reading():
            for target, part in self._hops(title):
                if target is None:
                    return Lookup(title, None, tuple(chain), fragment)
                chain.append(target)
                here, fragment = target, part
            page = self._page(here)
        if page is not None:
            return Lookup(title, page, tuple(chain), fragment)
        return Lookup(title, None, tuple(chain), fragment) if self.is_whole else None

    def unknown(self, titles: Iterable[str]) -> list[str]:
        """The titles to fetch so that `lookup` answers for all of these, in order, once each.

        They are spelled as the wiki would; where only the target of a redirect is lacking, it is
        the target.
        """
        if self.is_whole:
            return []
        names, lacking = list(titles), dict[str, None]()
        with self._reading():
            for title in names:
                *_, end = title, *(target for target, _ in self._hops(title))
                if end is not None and not self._has_page(end):
                    lacking[end] = None
        return list(lacking)

    def add(
        self,
        pages: Iterable[WikiPage],
        redirects: Iterable[tuple[str, str, str]] = (),
        missing: Iterable[str] = (),
        normalised: Iterable[tuple[str, str]] = (),
    ) -> None:
        """Adds a batch in one transaction; what is known of a title is replaced.

        A redirect is (from, to, fragment). Large batches are fast: one index is kept per table.
        """
        rows = [_row(page) for page in pages]
        signposts: list[tuple[str, str | None, str]] = [
            *((here, there, "") for here, there in normalised if here != there),
            *redirects,
            *((title, None, "") for title in missing),
        ]
        with self._writing() as db:
            db.executemany("DELETE FROM signpost WHERE title = ?", ((row[0],) for row in rows))
            db.executemany("DELETE FROM page WHERE title = ?", ((row[0],) for row in signposts))
            db.executemany(f"REPLACE INTO page ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            db.executemany("REPLACE INTO signpost VALUES (?, ?, ?)", signposts)

    def pages(self) -> Iterator[WikiPage]:
        """All pages in the order of their titles; changing the store meanwhile is not allowed."""
        with _explained(self.path):
            for row in self._db.execute(f"SELECT {_COLUMNS} FROM page ORDER BY title"):
                yield _page(row)

    def __len__(self) -> int:
        """How many pages are here."""
        with _explained(self.path):
            return int(self._db.execute("SELECT count(*) FROM page").fetchone()[0])

    # --- inside ---

    def _make(self) -> None:
        """Makes the tables of a new file; refuses other programs' files and newer ones."""
        with self._writing() as db:
            ((application,),) = db.execute("PRAGMA application_id")
            ((version,),) = db.execute("PRAGMA user_version")
            ((n_tables,),) = db.execute("SELECT count(*) FROM sqlite_master")
            if application != _APPLICATION_ID and (application or n_tables):
                raise StoreError(at(self.path, None, "is another program's SQLite database."))
            if version > _VERSION:
                raise StoreError(at(self.path, None, "was written by a newer fieldmark."))
            if not n_tables:
                for statement in _SCHEMA.split(";"):
                    db.execute(statement)

    def _writing(self) -> AbstractContextManager[sqlite3.Connection]:
        """One transaction: all of it is written, or nothing."""
        return self._transaction("BEGIN IMMEDIATE")

    def _reading(self) -> AbstractContextManager[sqlite3.Connection]:
        """One look at the file: locking it anew for each question takes longer than the answer."""
        return self._transaction("BEGIN")

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with _explained(self.path):
            self._db.execute(begin)
            try:
                yield self._db
                self._db.execute("COMMIT")
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")

    def _hops(self, title: str) -> Iterator[tuple[str | None, str]]:
        """Where a title leads, step by step: (title, fragment); None last = there is no page."""
        here, seen = title, {title}
        if _ILLEGAL.search(title):
            yield None, ""
            return
        for _ in range(_MOST_HOPS + 1):
            step = self._signpost(here)
            if step is None:
                return
            yield step
            target = step[0]
            if target is None:
                return
            if target in seen:
                break
            here = target
            seen.add(here)
        yield None, ""

    def _signpost(self, title: str) -> tuple[str | None, str] | None:
        """The next step from a title; None = it is a page, or not known."""
        sql = "SELECT target, fragment FROM signpost WHERE title = ?"
        row: tuple[str | None, str] | None = self._db.execute(sql, (title,)).fetchone()
        if row is not None or self._has_page(title):
            return row
        plain = normal_title(title)
        if not is_title(plain):
            return None, ""
        return (plain, "") if plain != title else None

    def _has_page(self, title: str) -> bool:
        sql = "SELECT 1 FROM page WHERE title = ?"
        return self._db.execute(sql, (title,)).fetchone() is not None

    def _page(self, title: str) -> WikiPage | None:
        sql = f"SELECT {_COLUMNS} FROM page WHERE title = ?"
        row = self._db.execute(sql, (title,)).fetchone()
        return None if row is None else _page(row)

    def _facts(self, *names: str) -> list[str]:
        """Their values; empty where one is not known."""
        with _explained(self.path):
            value_of: dict[str, str] = dict(self._db.execute("SELECT name, value FROM fact"))
        return [value_of[name] for name in names] if value_of.keys() >= set(names) else []

    def _set_facts(self, rows: dict[str, str]) -> None:
        with self._writing() as db:
            db.executemany("REPLACE INTO fact VALUES (?, ?)", rows.items())


_Row = tuple[str, int, int, str, bytes, int, str]


def _row(page: WikiPage) -> _Row:
    wikitext = zlib.compress(page.wikitext.encode("utf-8", "surrogatepass"), _ZLIB_LEVEL)
    kind = int(page.is_disambiguation)
    return (
        *(page.title, page.page_id, page.revision_id, page.timestamp),
        *(wikitext, kind, page.wikidata),
    )


def _page(row: _Row) -> WikiPage:
    title, page_id, revision_id, timestamp, data, kind, wikidata = row
    wikitext = zlib.decompress(data).decode("utf-8", "surrogatepass")
    return WikiPage(title, page_id, revision_id, timestamp, wikitext, bool(kind), wikidata)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Tells faults of the file in one line."""
    try:
        yield
    except (sqlite3.DatabaseError, zlib.error) as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_ERROR:
            raise
        text = f"cannot be used as a store of pages ({error}): move it away, or free the disk."
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            text = f"is in use by another process (waited {_WAIT_S:g} s): try again later."
        raise StoreError(at(path, None, text)) from error


_SPACES = re.compile(r"[ _\xa0\u1680\u180e\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
_DIRECTION_MARKS = re.compile("[\u200e\u200f\u202a-\u202e]")
_NAMESPACE = re.compile(
    "(template|category|file|help|module|portal|user|wikipedia|project|talk|draft|mediawiki) ?: ?",
    re.IGNORECASE,
)
_ILLEGAL = re.compile(
    "[\0-\x1f\x7f\ud800-\udfff\ufffd#<>\\[\\]{}|]|%[0-9A-Fa-f]{2}|&[A-Za-z0-9\x80-\uffff]+;|&#[0-9]+;"
    "|&#[xX][0-9A-Fa-f]+;|~~~"
)
_MOST_BYTES = 255


def normal_title(text: str) -> str:
    """A title in the spelling wikis use, as far as no wiki needs to be asked.

    >>> normal_title("corvus_corax "), normal_title("template:taxonomy/Corvus")
    ('Corvus corax', 'Template:Taxonomy/Corvus')
    """
    text = unicodedata.normalize("NFC", _DIRECTION_MARKS.sub("", text))
    text = _SPACES.sub(" ", text).strip(" ")
    rest = text.removeprefix(":").lstrip(" ")
    if rest.startswith(":"):  # no title has two
        return text
    text = rest
    if match := _NAMESPACE.match(text):
        return f"{match[1].capitalize()}:{_capitalised(text[match.end() :])}"
    return _capitalised(text)


def _capitalised(text: str) -> str:
    """The first letter upper case, unless that takes two letters (ß)."""
    initial = text[:1].upper()
    return initial + text[1:] if len(initial) == 1 else text


def is_title(text: str) -> bool:
    """Can a page of this title exist?

    >>> is_title("Corvus corax"), is_title("Corvus [sic]"), is_title("")
    (True, False, False)
    """
    plain = normal_title(text)
    is_path = plain in (".", "..") or plain.startswith(("./", "../")) or "/../" in plain
    is_path = is_path or "/./" in plain or plain.endswith(("/.", "/.."))
    match = _NAMESPACE.match(plain)
    is_whole = bool(plain) and not plain.startswith(":") and (not match or match.end() < len(plain))
    size = len(plain.encode("utf-8", "surrogatepass"))
    return is_whole and not is_path and size <= _MOST_BYTES and not _ILLEGAL.search(plain)
