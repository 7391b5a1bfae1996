"""Training data (map-style dataset): all samples of many shards by number, and what is missing?

Every shard gets an index (`build/shards/access.py`), made in several processes and kept in the
folder of the run. Before training begins, whatever is damaged or missing is said by name, all of it
at once. Which samples a step takes is up to `order.py`, which of their texts to `texts.py`.
"""

from __future__ import annotations

import os
import shlex
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from fieldmark import draws
from fieldmark.build.shards import find_shards, held_out
from fieldmark.build.shards.access import (
    CAPTION,
    MOST_NAMES,
    IndexedShard,
    IndexJob,
    OpenShard,
    RawSample,
    kept_index,
    make_index,
)
from fieldmark.build.shards.captions import EXTENSION, caption_models, captions_files
from fieldmark.build.train.feed.order import SampleOrder
from fieldmark.build.train.recipe import REPLAY, TrainRecipe
from fieldmark.data import is_packed
from fieldmark.errors import DataError, UsageError, join_problems, meant
from fieldmark.processes import ChildDied, process_pool
from fieldmark.progress import Progress, Silent
from fieldmark.words import counted

_ALONE_BYTES = 1 << 28
"""fewer bytes of shards than this are indexed without other processes, whose start takes longer"""
_MOST_OPEN = 256
"""shards that are open at once, with two files each, of the 1,024 that a process may have"""


class ShardGroup(NamedTuple):
    """Shards of one kind: those that are trained on, or those of replay."""

    jobs: tuple[IndexJob, ...]
    counts: tuple[int, ...]
    """samples of each shard"""
    coverage: dict[str, int]
    """text type → samples that have it"""
    facts: dict[str, dict[str, int]]
    """`split`, `dataset` and `writer` (of captions) → samples that are of which, where they say"""

    @property
    def n_samples(self) -> int:
        return sum(self.counts)


class TrainData:
    """All samples by number; those of replay follow the others. May be sent to other processes."""

    def __init__(self, main: ShardGroup, replay: ShardGroup, digest: str) -> None:
        self.main, self.replay = main, replay
        self.digest = digest
        """changes when a shard or a caption does; not with where the shards lie"""
        self.n_samples = main.n_samples
        """without replay"""
        self._ends = np.cumsum([*main.counts, *replay.counts])
        self._open: OrderedDict[int, OpenShard] = OrderedDict()
        self._lock = Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return TrainData, (self.main, self.replay, self.digest)

    @property
    def shards(self) -> tuple[Path, ...]:
        return tuple(job.shard for job in (*self.main.jobs, *self.replay.jobs))

    @property
    def coverage(self) -> dict[str, int]:
        """text type → samples that have it, without replay"""
        return self.main.coverage

    @property
    def caption_models(self) -> tuple[str, ...]:
        """Who wrote the captions, beside the shards and in them, as far as it is known."""
        beside = caption_models(job.sidecar for job in self.main.jobs if job.sidecar)
        within = self.main.facts.get("writer", {}) if CAPTION in self.coverage else ()
        return tuple(sorted({*beside, *within}))

    @property
    def held_out(self) -> str:
        """Says which of the samples are kept for tests; "" where none is known to be."""
        return held_out(self.main.facts.get("split", {}), self.n_samples)

    def count_steps(self, recipe: TrainRecipe) -> int:
        """Updates of the whole run; DataError where the batch is larger than the data."""
        n_batches = self.order(recipe).n_batches
        return recipe.train.steps or recipe.train.epochs * n_batches

    def order(self, recipe: TrainRecipe) -> SampleOrder:
        """Which samples the steps of a run take."""
        return SampleOrder(
            self.main.counts,
            recipe.train.batch,
            seed=recipe.train.seed,
            mode=recipe.data.mode,
            window=recipe.data.window_shards,
            replay_counts=self.replay.counts,
            replay_share=recipe.data.replay_share,
        )

    def read(self, sample: int) -> RawSample:
        """Image and texts, with one read of the shard."""
        number, row = self._place(sample)
        return self._shard(number).read(row)

    def name_of(self, sample: int) -> str:
        """How a message begins that is about a sample: `shards/a.tar  key '000017'`."""
        number, row = self._place(sample)
        return f"{self.shards[number]}  key {self._shard(number).key(row)!r}"

    def _place(self, sample: int) -> tuple[int, int]:
        number = int(np.searchsorted(self._ends, sample, side="right"))
        return number, int(sample - (self._ends[number - 1] if number else 0))

    def _shard(self, number: int) -> OpenShard:
        with self._lock:
            if number not in self._open:
                n_main = len(self.main.jobs)
                group, at = (
                    (self.main, number) if number < n_main else (self.replay, number - n_main)
                )
                self._open[number] = OpenShard(group.jobs[at].shard, group.jobs[at].index)
            self._open.move_to_end(number)
            if len(self._open) > _MOST_OPEN:  # it is closed when no thread reads from it any more
                self._open.popitem(last=False)
            return self._open[number]


# --- opening ---


def open_data(
    shards: Sequence[Path | str],
    captions: Path | None,
    index_folder: Path,
    recipe: TrainRecipe,
    progress: Progress | None = None,
) -> TrainData:
    """Indexes what is not indexed yet. Of several ranks one goes first, the others find its files.

    `captions` is the folder of `fieldmark caption --out FOLDER`; replay shards are those of the
    recipe.
    DataError names everything that is missing or damaged.
    """
    progress = progress or Silent()
    types = tuple((name, f"{name}.txt") for name in recipe.texts.types)
    main = _jobs(shards, types, index_folder, captions if CAPTION in recipe.texts.types else None)
    replay = _replay_jobs(recipe, index_folder)
    indexed = _indexed([*main, *replay], progress)
    groups = [
        _Checked(jobs, [indexed[job] for job in jobs], captions) for jobs in (main, replay) if jobs
    ]
    problems = [line for group in groups for line in group.problems()]
    if problems:
        raise DataError(join_problems(problems))
    for group in groups:
        progress.say(group.words())
    if captions is not None and CAPTION not in recipe.texts.types:
        progress.say(f"{captions}  is not used: texts.types has no 'caption'.")
    digests = [indexed[job].digest for job in (*main, *replay)]
    data = TrainData(
        groups[0].group,
        groups[1].group if replay else ShardGroup((), (), {}, {}),
        draws.digest(len(main), *digests).hex(),
    )
    if models := data.caption_models:
        progress.say(f"captions written by {', '.join(models)}")
    if data.held_out:
        progress.say(
            f"Warning: {data.held_out}. Scores on them will be too high. `fieldmark shards make` "
            "without --split packs only training photos."
        )
    return data


def _replay_jobs(recipe: TrainRecipe, folder: Path) -> tuple[IndexJob, ...]:
    shards, share = recipe.data.replay_shards, recipe.data.replay_share
    if bool(shards) != bool(share):
        raise UsageError(
            f"data.replay_share is {share:g} and there are {len(shards)} replay shards: expected "
            "both, a share above 0 and --replay SHARDS, or neither."
        )
    return _jobs(shards, ((REPLAY, recipe.data.replay_text.lower()),), folder) if shards else ()


def _jobs(
    shards: Sequence[Path | str],
    types: tuple[tuple[str, str], ...],
    folder: Path,
    captions: Path | None = None,
) -> tuple[IndexJob, ...]:
    paths = find_shards([str(word) for word in shards])
    packed = [path for path in paths if is_packed(path)]
    if packed:
        names = " ".join(shlex.quote(str(path)) for path in packed)
        raise DataError(
            f"{_some([str(path) for path in packed], len(packed))}  training reads shards in "
            f"random order, so compressed ones cannot be used. Unpack them: `gunzip {names}`."
        )
    sidecars = {} if captions is None else captions_files(paths, captions)
    # Shards of one name in two folders have two indexes.
    marks = (draws.digest(os.fsencode(path.resolve()), types).hex()[:10] for path in paths)
    return tuple(
        IndexJob(path, folder / f"{path.stem}-{mark}.npy", types, sidecars.get(path))
        for path, mark in zip(paths, marks, strict=True)
    )


def _indexed(jobs: Sequence[IndexJob], progress: Progress) -> dict[IndexJob, IndexedShard]:
    with ThreadPoolExecutor(16) as pool:  # a network disk takes a millisecond for each
        kept = zip(jobs, pool.map(kept_index, jobs), strict=True)
        shard_of = {job: one for job, one in kept if one is not None}
    ahead = [job for job in jobs if job not in shard_of]
    if ahead:
        progress.start("shards indexed", len(ahead))
    for job, made in _make(ahead):
        shard_of[job] = made
        progress.advance()
    return shard_of


def _make(jobs: Sequence[IndexJob]) -> Iterator[tuple[IndexJob, IndexedShard]]:
    n_processes = min(len(jobs), os.cpu_count() or 1, 32)
    if n_processes < 2 or sum(job.shard.stat().st_size for job in jobs) < _ALONE_BYTES:
        yield from ((job, make_index(job)) for job in jobs)
        return
    try:
        with process_pool(n_processes) as pool:
            yield from zip(jobs, pool.map(make_index, jobs), strict=True)
    except ChildDied as error:
        raise DataError(
            f"a process that indexed shards {error}. Run the same command again: finished work is "
            "kept."
        ) from error


# --- what is missing ---


class _Checked:
    """What the indexes of a group of shards say."""

    def __init__(
        self, jobs: Sequence[IndexJob], shards: Sequence[IndexedShard], captions: Path | None
    ) -> None:
        self.pairs, self.captions = list(zip(jobs, shards, strict=True)), captions
        self.types = [name for name, _ in jobs[0].members]
        coverage, facts = Counter[str](), dict[str, Counter[str]]()
        for one in shards:
            coverage.update(one.counts)
            for name, counts in one.facts.items():
                facts.setdefault(name, Counter()).update(counts)
        self.group = ShardGroup(
            tuple(jobs),
            tuple(one.n_samples for one in shards),
            {name: coverage[name] for name in self.types},
            {name: dict(sorted(counts.items())) for name, counts in facts.items()},
        )

    def problems(self) -> list[str]:
        damaged = [shard.damage for _, shard in self.pairs if shard.damage]
        lines = damaged[:MOST_NAMES]
        if len(damaged) > MOST_NAMES:
            lines.append(f"{len(damaged) - MOST_NAMES:,} more shards are damaged.")
        lines += self._line("no image", "samples without an image")
        if missing := self._absent_types() if not damaged else []:
            return lines + missing
        kinds = " or ".join(self.types)
        hint = "in texts.types, give a weight to a type that they have"
        lines += self._line("no text", f"samples with no text of type {kinds}", hint)
        lines += self._line("stray", f"captions in {self.captions} for photos not in their shards")
        return lines

    def _line(self, kind: str, text: str, hint: str = "") -> list[str]:
        n = sum(shard.n_wrong.get(kind, 0) for _, shard in self.pairs)
        names = [
            f"{job.shard.name} {key!r}"
            for job, shard in self.pairs
            for key in shard.wrong.get(kind, ())
        ]
        return [f"{text}: {n:,} ({_some(names, n)}){hint and ': '}{hint}."] if n else []

    def _absent_types(self) -> list[str]:
        """Types that no sample has: a wrong name, or captions that were forgotten."""
        absent = [name for name in self.types if not self.group.coverage[name]]
        extensions = {name for _, shard in self.pairs for name in shard.extensions}
        lines = []
        for name, extension in self.pairs[0][0].members:
            if name == CAPTION and name in absent:
                lines.append(self._no_caption())
            elif name in absent:
                hint = meant(extension, {*extensions, EXTENSION})
                lines.append(f"no photo has a text of type {name!r} (member {extension}).{hint}")
        return lines

    def _no_caption(self) -> str:
        if self.captions is None:
            return (
                f"no photo has a caption (member {EXTENSION}): give --captions FOLDER with what "
                "`fieldmark caption` wrote, or train on names alone with "
                f"--set texts.types.{CAPTION}=0 'model.projectors=[\"taxonomic\"]'."
            )
        if not any(job.sidecar and job.sidecar.is_file() for job, _ in self.pairs):
            return (
                f"{self.captions}  contains captions of other shards, none of "
                f"{_some([job.shard.name for job, _ in self.pairs], len(self.pairs))}: run "
                "`fieldmark caption` on these."
            )
        return f"{self.captions}  has no caption for these shards: all were rejected or failed."

    def words(self) -> str:
        """`64 samples in 4 shards; 61 of 64 samples have a caption`."""
        n, kind = self.group.n_samples, "replay samples" if REPLAY in self.types else "samples"
        datasets = named_datasets(self.group.facts.get("dataset", {}), n)
        where = counted(len(self.pairs), "shard") + (f" of {datasets}" if datasets else "")
        parts = [f"{n:,} {kind} in {where}"]
        for name, n_with in self.group.coverage.items():
            if n_with < n:
                noun = "caption" if name == CAPTION else f"text of type {name!r}"
                parts.append(f"{n_with:,} of {n:,} samples have a {noun}")
        bare = [
            job.shard.name for job, _ in self.pairs if job.sidecar and not job.sidecar.is_file()
        ]
        if bare:
            parts.append(f"shards without captions: {len(bare):,} ({_some(bare, len(bare))})")
        return "; ".join(parts)


def named_datasets(datasets: Mapping[str, int], n_samples: int) -> str:
    """The datasets that samples come from, with numbers where there are several.

    >>> named_datasets({"world": 56}, 56), named_datasets({"birds": 7, "world": 56}, 70)
    ('world', 'birds (7), world (56), unknown (7)')
    """
    if len(datasets) < 2 and sum(datasets.values()) in (0, n_samples):
        return "".join(datasets)
    unknown = n_samples - sum(datasets.values())
    every = {**datasets, **({"unknown": unknown} if unknown else {})}
    return ", ".join(f"{name} ({n:,})" for name, n in every.items())


def _some(names: Sequence[str], n: int) -> str:
    """At most five names, and how many more of them there are."""
    shown = names[:MOST_NAMES]
    return ", ".join(shown) + (f" and {n - len(shown):,} more" if n > len(shown) else "")
