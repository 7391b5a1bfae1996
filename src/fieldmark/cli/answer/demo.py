"""Try fieldmark on drawn photos, in a minute, without a download.

examples:
  fieldmark demo
  fieldmark demo --out somewhere --seed 3
"""

from __future__ import annotations

import dataclasses
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fieldmark.cli.answer.run import end
from fieldmark.cli.flags import Common, CommonFlags, Only
from fieldmark.cli.show import show, talk, width
from fieldmark.progress import Progress

MODELS = ("classical/chance", "classical/colour", "classical/pixels", "classical/texture")
TASKS = (
    "world-species",
    "world-night",
    "world-individuals",
    "world-stage",
    "world-behaviour",
    "world-habitat",
    "newt@simpleshot",
    "beluga",
)
CHAT_MODEL, CHAT_TASKS = "chat/mock/wren", ("world-species", "world-stage")
"""a mock of a multimodal language model, which answers over HTTP from this process"""
DUAL_MODEL, DUAL_TASKS = "classical/words", ("world-species", "world-night", "world-captions")
"""a small dual encoder: it names what it was never trained on, and finds captions"""
MAX_IMAGES = 100
"""photos per task on the page: enough to look at, quickly made"""
SIZES = {"world": 800, "newt": 1312, "beluga": 120}
"""images per dataset: NeWT has 164 questions, eight images is the least for each"""


@dataclass(frozen=True, slots=True)
class DemoArgs:
    out: Path = Path("fieldmark-demo")
    """folder for the synthetic data, the features and the results"""
    seed: int = 0
    """seed of the synthetic world; another seed gives other creatures"""
    common: Annotated[CommonFlags, Only(("threads", "quiet"))] = Common()


def run(args: DemoArgs) -> int:
    from fieldmark.experiments import Axes, ExecuteOptions, execute, make_jobs, make_plan
    from fieldmark.progress import for_people
    from fieldmark.protocols import load_protocol
    from fieldmark.report.site import SiteOptions, build_site
    from fieldmark.store import Store

    began = time.monotonic()
    settings = dataclasses.replace(
        args.common.settings(),
        results=args.out / "results",
        cache=args.out / "cache",
        data_root=args.out / "data",
        data={},
    )
    with for_people(args.common.quiet) as progress:
        _make_world(args.seed, settings.data_root, progress)
        jobs = make_jobs([(name, "") for name in MODELS], [(name, "") for name in TASKS], Axes())
        chat_tasks = [(name, "") for name in CHAT_TASKS]
        jobs += make_jobs([(CHAT_MODEL, "")], chat_tasks, Axes())
        dual = make_jobs([(DUAL_MODEL, "")], [(name, "") for name in DUAL_TASKS], Axes())
        jobs += tuple(job for job in dual if load_protocol(job.protocol).training == "none")
        plan = make_plan(jobs, settings, may_load=True)
        outcome = execute(plan, settings, progress, ExecuteOptions(["fieldmark", "demo"]))
    end(plan, outcome)
    sentence = _show(settings.store)
    with for_people(args.common.quiet) as progress:
        options = SiteOptions(max_images=MAX_IMAGES)
        with Store.open(settings.store, read_only=True) as store:
            page = build_site(store, args.out / "site", settings, options, progress)
    if not args.common.quiet:
        took = time.monotonic() - began
        talk(f"\nDone in {took:.0f} s. Everything is in {args.out}/")
        talk("next:  fieldmark try PHOTOS     the same for your own labelled photos")
        talk(f"\n{sentence}")
        talk(f"open:  {page}")
    return 0


def _make_world(seed: int, root: Path, progress: Progress) -> None:
    """Draws the datasets side by side, one process each: drawing is all Python."""
    from concurrent.futures import as_completed

    from fieldmark.errors import DataError
    from fieldmark.processes import ChildDied, process_pool

    progress.start("drawing a natural world", len(SIZES))
    for name, size in SIZES.items():
        progress.say(f"drawing about {size:,} photos in the layout of `{name}`")
    try:
        with process_pool(min(len(SIZES), os.cpu_count() or 1)) as pool:
            for done in as_completed(
                pool.submit(_make, name, root / name, seed, size) for name, size in SIZES.items()
            ):
                done.result()
                progress.advance()
    except ChildDied as error:
        raise DataError(f"a process that draws photos {error}: run the command again.") from error


def _make(name: str, root: Path, seed: int, size: int) -> None:
    from fieldmark.data import load_dataset
    from fieldmark.world import World

    load_dataset(name).make(root, World(seed=seed), size)


def _show(path: Path) -> str:
    """Prints the table; returns the verdict, which comes last."""
    from fieldmark.report import read_table, verdict, wide_table
    from fieldmark.store import Store

    with Store.open(path, read_only=True) as store:
        table = read_table(store)
    show(wide_table(table, width()))
    show(f"\n{CHAT_MODEL} is a mock language model: it is asked in words, and knows the answers.")
    show(f"{DUAL_MODEL} is a dual encoder. It sees no training photo: it knows species by their")
    show("names, and finds captions.")
    return verdict(table)
