"""Data audit (duplicates, bursts, leaks, label slips): what is wrong with these photos, before any
model is trained?

Counts are of photos, never of pairs. A match of hashes is verified on the pixels. Two visits to one
fixed camera share their background: they are one scene, which matters for splitting, and not
duplicates. Labels that differ in case, Unicode form or underscores are the same label; labels that
differ in a letter or two are only asked about.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, takewhile

import numpy as np
import polars as pl

from fieldmark.chat.parse.names import edits
from fieldmark.data.read.own_photos import LabelledPhotos, fold_label, merge_spellings, tell_unread
from fieldmark.tryout.judge.split import LEAST_PHOTOS
from fieldmark.tryout.look.hashes import Looks
from fieldmark.words import counted, first_few

HASH_BITS = 26
"""of 256 that may differ between frames of one burst (chosen on drawn bursts, 2026: finds 55 to 75
of 100 pairs of frames; pairs of other photos differ in 39 bits or more by day)"""
ALIKE = 0.93
"""correlation of the grey pixels of frames of one burst"""
COPY_BITS, COPY_ALIKE = 20, 0.95
SAME_PHOTO = 3.0
"""mean difference of grey levels between copies of one photo: JPEG noise"""
BURST = datetime.timedelta(seconds=60)
SERIES = 3
"""file numbers of a series are at most so far apart"""
SERIES_ALIKE = 0.93
"""correlation of neighbours in a series"""
_BLOCK = 128
"""photos compared with all others at a time"""


@dataclass(frozen=True, slots=True)
class DataFinding:
    """One thing to know about the photos."""

    kind: str
    """unreadable, unread, empty, duplicate, conflict, leak, burst, slip, small, untrained"""
    text: str
    groups: tuple[tuple[int, ...], ...] = ()
    """the photos it is about, by row; those of a group belong together"""


@dataclass(frozen=True, slots=True)
class Audit:
    """What was found, and what follows for splitting."""

    findings: tuple[DataFinding, ...]
    label_n: np.ndarray
    """the label used: spellings of one label made one"""
    burst_n: np.ndarray
    """photos with the same number are near-identical or of one burst"""
    copy_n: np.ndarray
    """photos with the same number are the same photo"""
    is_spare_n: np.ndarray
    """copies of a photo of another given unit: left out, for a photo was taken at one place"""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known about the photos of a table, in its order."""

    looks: Looks
    is_ok_n: np.ndarray
    bad: Mapping[str, str]
    """image → why it cannot be read"""
    content_n: Sequence[bytes | None]
    """equal for equal bytes and crops"""
    shot_n: Sequence[tuple[datetime.datetime | None, str]]
    """when it was taken, and by what"""


def audit(photos: LabelledPhotos, evidence: Evidence) -> Audit:
    """Looks for everything that makes a test of these photos wrong or unfair."""
    table = photos.table
    labels = table.get_column("label").to_list()
    merged = merge_spellings(labels)
    label_n = np.array([merged[label] for label in labels])
    copies = _copies(evidence)
    alike = _alike_pairs(evidence)
    same = alike[_is_copy(evidence.looks, alike)]
    copy_n = number_groups(len(labels), np.concatenate([copies, same]))
    bursts = np.concatenate([copies, alike, _series(table, evidence), _close_in_time(evidence)])
    burst_n = number_groups(len(labels), bursts)
    first_of = _first_copies(copy_n, table.get_column("unit").to_list())
    is_used_n = evidence.is_ok_n & ~np.isin(np.arange(len(labels)), [*first_of])
    findings = [
        *([DataFinding("unclear", photos.hint)] if photos.hint else []),
        *_unreadable(evidence.bad),
        *(DataFinding("unread", text) for text in tell_unread(photos.unread)),
        *_empty(photos.empty),
        *_spellings(labels, merged),
        *find_slips(label_n[is_used_n]),
        *_duplicates(copy_n, label_n, table, first_of),
        *_bursts(burst_n, copy_n),
        *_small(label_n[is_used_n]),
        *_untrained(label_n, table.get_column("split").to_list()),
    ]
    return Audit(tuple(findings), label_n, burst_n, copy_n, evidence.is_ok_n & ~is_used_n)


# --- photos that belong together


def _copies(evidence: Evidence) -> np.ndarray:
    rows = defaultdict(list)
    for row, content in enumerate(evidence.content_n):
        if content is not None:
            rows[content].append(row)
    return _pairs(pair for group in rows.values() for pair in pairwise(group))


def _pairs(pairs: Iterator[tuple[int, int]]) -> np.ndarray:
    return np.array(list(pairs), np.intp).reshape(-1, 2)


def _alike_pairs(evidence: Evidence) -> np.ndarray:
    """Pairs of photos whose hashes and pixels agree."""
    looks = evidence.looks
    rows = np.flatnonzero(evidence.is_ok_n & ~looks.is_plain_n)
    hash_kw = looks.hash_nw[rows]
    pairs = [np.empty((0, 2), np.intp)]
    for start in range(0, len(rows), _BLOCK):
        block = hash_kw[start : start + _BLOCK]
        n_bits = np.zeros((len(block), len(rows) - start), np.uint16)
        for word in range(hash_kw.shape[1]):
            n_bits += np.bitwise_count(block[:, None, word] ^ hash_kw[None, start:, word])
        one, other = np.nonzero(np.triu(n_bits <= HASH_BITS, 1))
        pair = rows[np.stack([one, other], axis=1) + start]
        if len(pair):
            pairs.append(pair[looks.correlation(pair[:, 0], pair[:, 1]) >= ALIKE])
    return np.concatenate(pairs)


def _is_copy(looks: Looks, pairs: np.ndarray) -> np.ndarray:
    """Is it one photo, saved again, or another frame?"""
    one, other = pairs[:, 0], pairs[:, 1]
    n_bits = np.bitwise_count(looks.hash_nw[one] ^ looks.hash_nw[other]).sum(axis=1)
    difference = np.abs(looks.grey_np[one] - looks.grey_np[other]).mean(axis=1)
    is_alike = looks.correlation(one, other) >= COPY_ALIKE
    return np.asarray((n_bits <= COPY_BITS) & is_alike & (difference < SAME_PHOTO))


def _series(table: pl.DataFrame, evidence: Evidence) -> np.ndarray:
    """Neighbours by file number that look alike: a series of shots of one thing."""
    names = table.get_column("image").to_list()
    by_prefix: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for row, name in enumerate(names):
        number = re.search(r"(\d+)\D*\.\w+$", name)
        if number and evidence.is_ok_n[row]:
            by_prefix[name[: number.start(1)]].append((int(number[1]), row))
    pairs = _pairs(
        (one, other)
        for numbered in by_prefix.values()
        for (low, one), (high, other) in pairwise(sorted(numbered))
        if high - low <= SERIES and not _is_apart(evidence, one, other)
    )
    return pairs[evidence.looks.correlation(pairs[:, 0], pairs[:, 1]) >= SERIES_ALIKE]


def _is_apart(evidence: Evidence, one: int, other: int) -> bool:
    before, after = evidence.shot_n[one][0], evidence.shot_n[other][0]
    return before is not None and after is not None and abs(after - before) > BURST


def _close_in_time(evidence: Evidence) -> np.ndarray:
    """Neighbours in time of one device."""
    by_device: dict[str, list[tuple[datetime.datetime, int]]] = defaultdict(list)
    for row, (time, device) in enumerate(evidence.shot_n):
        if time is not None:
            by_device[device].append((time, row))
    return _pairs(
        (one, other)
        for shots in by_device.values()
        for (before, one), (after, other) in pairwise(sorted(shots))
        if after - before <= BURST
    )


def number_groups(n: int, pairs: np.ndarray) -> np.ndarray:
    """Numbers of the connected groups that pairs make of n photos."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    edges = coo_array((np.ones(len(pairs), bool), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    return np.asarray(connected_components(edges, directed=False)[1])


def _first_copies(copy_n: np.ndarray, units: Sequence[str | None]) -> dict[int, int]:
    """Each copy of a photo of another given unit → that photo, by row. To join the two units would
    make one of two cameras, and of a chain of copies one of all.
    """
    given = [row for row, unit in enumerate(units) if unit is not None]
    first: dict[int, int] = {}
    for row in given:
        first.setdefault(int(copy_n[row]), row)
    pairs = ((row, first[int(copy_n[row])]) for row in given)
    return {row: one for row, one in pairs if units[row] != units[one]}


def groups_of(number_n: np.ndarray) -> list[tuple[int, ...]]:
    """The rows of each number that several photos have."""
    order = np.argsort(number_n, kind="stable")
    starts = np.flatnonzero(np.diff(number_n[order], prepend=-1))
    parts = np.split(order, starts[1:])
    return [tuple(map(int, part)) for part in parts if len(part) > 1]


# --- findings


def _unreadable(bad: Mapping[str, str]) -> Iterator[DataFinding]:
    if bad:
        what = first_few([f"{name} ({why})" for name, why in bad.items()], 3)
        n = counted(len(bad), "file cannot be read and was", "files cannot be read and were")
        yield DataFinding("unreadable", f"{n} left out: {what}.")


def _empty(folders: Sequence[str]) -> Iterator[DataFinding]:
    if folders:
        n = counted(len(folders), "folder contains", "folders contain")
        yield DataFinding("empty", f"{n} no photos: {first_few(folders, 3)}.")


def _duplicates(
    copy_n: np.ndarray, label_n: np.ndarray, table: pl.DataFrame, first_of: Mapping[int, int]
) -> Iterator[DataFinding]:
    """Copies within a label, at two units, under two labels, and on both sides of a split."""
    groups = groups_of(copy_n)
    conflicts = tuple(group for group in groups if len({label_n[row] for row in group}) > 1)
    kept = ([row for row in g if row not in first_of] for g in groups if g not in set(conflicts))
    if plain := tuple(tuple(group) for group in kept if len(group) > 1):
        copies = ("photo is a copy of another", "photos are copies of others")
        n = counted(sum(map(len, plain)) - len(plain), *copies)
        yield DataFinding("duplicate", f"{n}: copies stay together in every test.", plain)
    image, split, unit = (table.get_column(name).to_list() for name in ("image", "split", "unit"))
    for row, one in first_of.items():
        copy, of = (
            image[at] if unit[at] in image[at] else f"{image[at]} ({unit[at]})" for at in (row, one)
        )
        text = f"{copy} is a copy of {of}: it was left out."
        yield DataFinding("elsewhere", text, ((one, row),))
    for group in conflicts:
        labels = sorted({str(label_n[row]) for row in group})
        where = first_few([image[row] for row in group], 3)
        text = f"The same photo has {len(labels)} labels ({', '.join(labels)}): {where}."
        yield DataFinding("conflict", text, (group,))
    for sort, other, so in (
        ([g for g in groups if g not in set(conflicts)], "", "scores on it are too good"),
        (conflicts, ", under another label", "no model can be right on both"),
    ):
        if leaks := tuple(g for g in sort if {"train", "test"} <= {split[row] for row in g}):
            n = sum(split[row] == "test" for group in leaks for row in group)
            copied = counted(n, "test photo is", "test photos are")
            text = f"{copied} also among the training photos of your own split{other}: {so}."
            yield DataFinding("leak", text, leaks)


def _bursts(burst_n: np.ndarray, copy_n: np.ndarray) -> Iterator[DataFinding]:
    groups = tuple(g for g in groups_of(burst_n) if len({int(copy_n[row]) for row in g}) > 1)
    if groups:
        n, longest = sum(map(len, groups)), max(map(len, groups))
        bursts = f"{len(groups):,} bursts of near-identical photos (the longest has {longest})"
        text = "one burst of near-identical photos" if len(groups) == 1 else bursts
        yield DataFinding("burst", f"{n:,} photos belong to {text}.", groups)


def _small(label_n: np.ndarray) -> Iterator[DataFinding]:
    counts = sorted(Counter(label_n.tolist()).items())
    if small := [f"{name} ({n})" for name, n in counts if n < LEAST_PHOTOS]:
        n_small = counted(len(small), "label has", "labels have")
        text = f"{n_small} too few photos to be tested: {first_few(small)}."
        yield DataFinding("small", text)


def _untrained(label_n: np.ndarray, split: Sequence[str | None]) -> Iterator[DataFinding]:
    """Labels that the given split tests and never trains."""
    split_n = np.array(split, object)
    trained, tested = (set(label_n[split_n == word].tolist()) for word in ("train", "test"))
    if trained and (unseen := sorted(tested - trained)):
        n = counted(len(unseen), "label has", "labels have")
        text = f"{n} test photos but no training photos: {first_few(unseen)}."
        yield DataFinding("untrained", text)


# --- labels


def _spellings(labels: Sequence[str], merged: Mapping[str, str]) -> Iterator[DataFinding]:
    counts = Counter(labels)
    for name, best in sorted(merged.items()):
        if name != best:
            rows = tuple(row for row, label in enumerate(labels) if label == name)
            text = f"{name!r} ({counts[name]}) and {best!r} are the same label: they were merged."
            yield DataFinding("slip", text, (rows,))


def find_slips(label_n: np.ndarray) -> Iterator[DataFinding]:
    """Labels one or two letters apart, of which one is rare, and labels of which one word differs
    in one letter, or in two that are swapped. True names are as close as that (Parus major and
    Parus minor), so they are asked about and never merged.
    """
    counts = Counter(label_n.tolist())
    slips = set(_one_letter_apart(counts))
    # By count first: of 5,000 labels, few pairs differ so much, and only those are spelt out.
    common_first = sorted(counts, key=lambda name: (-counts[name], name))
    rare_first = common_first[::-1]
    for common in common_first:
        few = takewhile(lambda name: counts[name] < 0.1 * counts[common], rare_first)  # noqa: B023
        rare_names = [name for name in few if _may_be_slip(name, common)]
        slips |= {(min(name, common), max(name, common)) for name in rare_names}
    for pair in sorted(slips):
        rare, common = sorted(pair, key=lambda name: counts[name])
        one, other = (f"{name!r} ({counts[name]})" for name in (rare, common))
        if counts[rare] <= RARE * counts[common]:
            text = f"Is {one} a typing error for {other}? If so, rename it."
            rows = np.flatnonzero(label_n == rare)
        else:
            text = f"Are {one} and {other} the same label? If so, give them one name."
            rows = np.flatnonzero(np.isin(label_n, pair))
        text += " Until then they count as two."
        yield DataFinding("slip", text, (tuple(rows.tolist()),))


_LONG_WORD = 5
"""letters from which on two words that differ in one letter are asked about: bear and boar are not
one label, nor are class A and class B"""
RARE = 1 / 3
"""of the other label's photos: of a name of several words, a shorter word is then asked about"""


def _one_letter_apart(counts: Mapping[str, int]) -> list[tuple[str, str]]:
    """Pairs of which one word differs in one letter; found by what is left when a letter is left
    out, for 5,000 labels make 12 million pairs.
    """
    left: dict[str, list[str]] = defaultdict(list)
    for name in sorted(counts):
        folded = fold_label(name)
        letters = (at for at, mark in enumerate(folded) if mark.isalpha())
        for rest in {folded, *(folded[:at] + folded[at + 1 :] for at in letters)}:
            left[rest].append(name)
    pairs = {pair for names in left.values() for pair in combinations(names, 2)}

    def is_slip(pair: tuple[str, str]) -> bool:
        few, many = sorted(counts[name] for name in pair)
        return _is_one_slip(fold_label(pair[0]), fold_label(pair[1]), few <= RARE * many)

    return sorted(filter(is_slip, pairs))


def _is_one_slip(first: str, second: str, is_rare: bool = False) -> bool:
    """
    >>> _is_one_slip("peach leaf", "paech leaf"), _is_one_slip("fox", "foxx")
    (True, True)
    >>> _is_one_slip("bear", "boar"), _is_one_slip("class a", "class b")
    (False, False)
    >>> [_is_one_slip("rust leaf", "rust leef", is_rare) for is_rare in (True, False)]
    [True, False]
    """
    words = first.split(), second.split()
    differing = [pair for pair in zip(*words, strict=False) if pair[0] != pair[1]]
    if len(words[0]) != len(words[1]) or len(differing) != 1:
        return False
    short, long = sorted(differing[0], key=len)
    if short[0] != long[0] or re.search(r"\d", short + long) or edits(short, long, 1) > 1:
        return False
    ends = {short + "s", *(short[: at + 1] + short[at:] for at in range(len(short)))}
    is_long = len(short) >= _LONG_WORD - (is_rare and len(words[0]) > 1)
    return is_long or (len(short) >= 3 and long in ends)


def _may_be_slip(one: str, other: str) -> bool:
    a, b = fold_label(one), fold_label(other)
    if min(len(a), len(b)) < 6 or abs(len(a) - len(b)) > 2 or a[0] != b[0]:
        return False
    if re.sub(r"\D", "", a) != re.sub(r"\D", "", b):
        return False
    return edits(a, b, 2) <= 2
