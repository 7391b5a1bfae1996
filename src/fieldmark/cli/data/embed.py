"""Compute a model's features of images: to the cache or a file.

examples:
  fieldmark embed timm/resnet50.a1_in1k photos --out photos.parquet
  fieldmark embed classical/colour newt --data newt=/data/newt --out newt.npy
  fieldmark embed my_model.py:Mine 'shards/a-{000..099}.tar' --out a.safetensors --dtype float16

Run the same command again to continue after a stop: only what is new is computed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from fieldmark.cli.flags import Common, CommonFlags, Only
from fieldmark.cli.show import counted, print_json, talk
from fieldmark.errors import DataError, UsageError

if TYPE_CHECKING:
    from fieldmark.data import ImageSource
    from fieldmark.embed import EmbeddedChunk, EmbedOptions, FileForm, Throughput
    from fieldmark.models import Backbone
    from fieldmark.progress import Progress
    from fieldmark.settings import Settings

FLAGS = (
    *("cache", "data", "data_root", "device", "precision", "decode", "threads", "batch_size"),
    *("bad_images", "offline", "quiet"),
)


@dataclass(frozen=True, slots=True)
class EmbedArgs:
    model: Annotated[Positional[str], arg(metavar="MODEL")]
    """a name as `fieldmark models` lists them, or path/to/file.py:Class"""
    sources: Annotated[
        Positional[tuple[str, ...]], arg(metavar="DATASET|FOLDER|FILE…", help_behavior_hint="")
    ]
    """datasets, folders of images, image files, .tar, .tar.gz, .tgz or .parquet files;
    `a-{000..099}.tar` means 100 files"""
    out: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """file to write: .parquet, .npy or .safetensors [none: only the cache is filled]"""
    dtype: Annotated[str | None, arg(metavar="WORD", help_behavior_hint="")] = None
    """precision of the file: float32 or float16 [float32]"""
    json: bool = False
    """print the summary as JSON"""
    common: Annotated[CommonFlags, Only(FLAGS)] = Common()


def run(args: EmbedArgs) -> int:
    from fieldmark.embed import DeviceWorkers, EmbedOptions, devices_for
    from fieldmark.experiments import Models
    from fieldmark.models import abilities, check_model_name
    from fieldmark.progress import for_people
    from fieldmark.registry import EMBEDS_IMAGES

    _check_flags(args)
    settings = args.common.settings()
    check_model_name(args.model)
    if EMBEDS_IMAGES not in abilities(args.model):
        raise UsageError(f"model {args.model!r} answers questions: choose one that embeds images.")
    sources = _find(args.sources, settings)
    model = Models(settings, may_load=True).load(args.model)
    began = time.monotonic()
    with (
        for_people(args.common.quiet) as progress,
        DeviceWorkers(devices_for(settings.device)) as more,
    ):
        options = EmbedOptions(
            settings.cache,
            settings.n_threads,
            settings.batch_size,
            settings.bad_images,
            workers=more,
        )
        for source in sources:
            if source.note:
                progress.say(f"{source.name}  {source.note}")
        summary = _embedded(args, model, sources, options, progress)
    summary["wall_s"] = round(time.monotonic() - began, 3)
    if args.json:
        print_json(summary)
    elif not args.common.quiet:
        _tell(summary)
    return 0


def _check_flags(args: EmbedArgs) -> None:
    from fieldmark.embed import check_place

    if not args.sources:
        raise UsageError(
            "nothing to embed: give datasets, folders of images, images, tar or parquet files."
        )
    if args.dtype not in (None, "float32", "float16"):
        raise UsageError(f"--dtype {args.dtype}: expected float32 or float16.")
    if args.out is not None:
        check_place(args.out)
    elif args.dtype:
        raise UsageError(f"--dtype {args.dtype} needs a file to write: --out FILE.")


def _find(words: Sequence[str], settings: Settings) -> list[ImageSource]:
    from fieldmark.data import DATASETS, dataset_source, find_sources, load_dataset

    def read(name: str) -> ImageSource:
        root = settings.root_of(name)
        load_dataset(name)
        if not root.exists():
            from fieldmark.protocols import no_data

            hint = f" For the folder of that name, write ./{name}." if Path(name).is_dir() else ""
            raise DataError(no_data(name, root) + hint)
        return dataset_source(name, root)

    return find_sources(words, DATASETS.names(), read)


def _embedded(
    args: EmbedArgs,
    model: Backbone,
    sources: Sequence[ImageSource],
    options: EmbedOptions,
    progress: Progress,
) -> dict[str, Any]:
    from fieldmark.embed import add_throughputs, embed_chunks, write_chunks

    speeds: list[Throughput] = []
    n_images = n_bad = 0
    dtype = args.dtype or "float32"

    def watched() -> Iterator[EmbeddedChunk]:
        nonlocal n_images, n_bad
        for chunk in embed_chunks(model, sources, options, progress):
            speeds.append(chunk.throughput)
            n_images += len(chunk.images)
            n_bad += sum(1 for _ in chunk.unreadable())
            yield chunk

    files: list[Path] = []
    if args.out is None:
        for _ in watched():
            pass
    else:
        form = _form(args.out, dtype, model, sources)
        files = write_chunks(form, watched(), len(sources) > 1)
    return {
        "model": model.name,
        "fingerprint": model.fingerprint,
        "shape": [n_images - n_bad, model.dim],
        "n_images": n_images,
        "n_bad": n_bad,
        "dtype": dtype,
        **_speed(add_throughputs(speeds), model),
        "cache": str(options.cache / "features" / model.fingerprint),
        "files": [str(path) for path in files],
    }


def _form(out: Path, dtype: str, model: Backbone, sources: Sequence[ImageSource]) -> FileForm:
    from fieldmark.embed import FileForm, decode_of

    about = {
        "model": model.name,
        "fingerprint": model.fingerprint,
        "decode": decode_of(model),
        "dim": str(model.dim),
    }
    has_labels = any(source.has_labels for source in sources)
    return FileForm(out, model.dim, dtype, has_labels, about)


def _speed(total: Throughput, model: Backbone) -> dict[str, Any]:
    from fieldmark.embed import decode_of

    return {
        "n_computed": total.n_computed,
        "seconds": round(total.seconds, 3),
        "images_per_s": round(total.images_per_s, 1),
        "decode": decode_of(model),
        "n_fallback": total.n_fallback,
        "busy_s": {name: round(seconds, 3) for name, seconds in total.busy_s.items()},
        "device_busy": None if total.device_busy is None else round(total.device_busy, 3),
        "n_devices": total.n_devices,
        "is_compiled": total.is_compiled,
        "batch_size": total.batch_size,
    }


def _tell(summary: dict[str, Any]) -> None:
    n_known = summary["n_images"] - summary["n_bad"] - summary["n_computed"]
    parts = [f"{counted(summary['n_images'], 'image')}: {summary['n_computed']:,} embedded"]
    parts += [f"{n_known:,} known already"] if n_known else []
    parts += [f"{summary['n_bad']:,} left out (cannot be read)"] if summary["n_bad"] else []
    talk(f"{', '.join(parts)}.")
    if summary["n_computed"]:
        fallback = f" ({summary['n_fallback']:,} on reference)" if summary["n_fallback"] else ""
        busy = (f"{name} {seconds:.1f} s" for name, seconds in summary["busy_s"].items())
        device = summary["device_busy"]
        share = "" if device is None else f"; device busy {device:.0%}"
        talk(
            f"{summary['seconds']:.1f} s, {summary['images_per_s']:,.1f} images/s, decode path "
            f"{summary['decode']}{fallback}; work: {', '.join(busy)}{share}"
        )
    files = summary["files"]
    if not files:
        talk(f"features: {summary['cache']}")
    else:
        shape = " × ".join(f"{n:,}" for n in summary["shape"])
        talk(f"{files[0]}  {shape}, {summary['dtype']}")
        for path in files[1:]:
            talk(path)
