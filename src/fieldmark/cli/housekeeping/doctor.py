"""Show versions, devices, folders, settings and what is missing.

examples:
  fieldmark doctor
  fieldmark doctor --json
"""

from __future__ import annotations

import os
import platform
import sys
from contextlib import suppress
from dataclasses import dataclass, fields
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

from fieldmark.cli.flags import Common, CommonFlags
from fieldmark.cli.show import folder_bytes, print_json, show, show_rows, size
from fieldmark.errors import FieldmarkError
from fieldmark.files import filesystem_of
from fieldmark.registry import app_version, installed_version
from fieldmark.settings import Settings, user_config


@dataclass(frozen=True, slots=True)
class DoctorArgs:
    json: bool = False
    """print JSON"""
    common: CommonFlags = Common()


def run(args: DoctorArgs) -> int:
    settings = args.common.settings()
    report = {
        "versions": _versions(),
        "devices": _devices(),
        "decode": _decodes(settings),
        "places": _places(settings),
        "settings": _settings(settings),
        "extras": _extras(),
        "results": _damage(settings),
    }
    code = 3 if any(row["state"] != SOUND for row in report["results"]) else 0
    if args.json:
        print_json(report)
        return code
    for title, rows in report.items():
        show(f"{title}:")
        show_rows(rows, False)
        show("")
    for extra in report["extras"]:
        if extra["missing"] != "nothing":
            show(f"install `{extra['extra']}`:  {extra['install']}")
    for line in _shared(settings):
        show(line)
    return code


SOUND = "as it was written"


def _damage(settings: Settings) -> list[dict[str, Any]]:
    """Whether predictions and scores match their checksums; reads the whole store."""
    from fieldmark.store import Store

    if not settings.store.is_file():
        return []
    try:
        with Store.open(settings.store, read_only=True) as store:
            damage = store.damage()
    except FieldmarkError as error:
        return [{"what": str(settings.store), "state": str(error)}]
    rows = [{"what": line, "state": "damaged: run it again"} for line in damage]
    return rows or [{"what": "predictions and scores", "state": SOUND}]


def _versions() -> list[dict[str, Any]]:
    import sqlite3

    rows = [
        {"what": "fieldmark", "version": app_version()},
        {"what": "python", "version": platform.python_version()},
        {"what": "platform", "version": platform.platform()},
        {"what": "sqlite", "version": sqlite3.sqlite_version},
    ]
    for package in ("numpy", "scikit-learn", "polars", "pillow", "torch", "timm", "transformers"):
        rows.append({"what": package, "version": installed_version(package) or "not installed"})
    return rows


def _devices() -> list[dict[str, Any]]:
    rows = [{"device": "cpu", "what": f"{os.cpu_count()} cores, {platform.machine()}"}]
    if installed_version("torch") is None:
        return rows
    import torch

    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        what = f"{properties.name}, {size(properties.total_memory)}"
        rows.append({"device": f"cuda:{index}", "what": what})
    if torch.backends.mps.is_available():
        rows.append({"device": "mps", "what": "Apple GPU"})
    return rows


def _decodes(settings: Settings) -> list[dict[str, Any]]:
    """The ways to read photos: which is used, and what each rests on or why it is not possible."""
    torchvision, used = installed_version("torchvision"), "reference"
    gpu = "not possible: torch is not installed"
    if installed_version("torch"):
        from fieldmark import devices

        used = ""  # until it shows that what the settings ask for can be done
        with suppress(FieldmarkError):
            device = devices.choose_device(settings.device)
            library = devices.nvjpeg_library() if device.type == "cuda" else ""
            lacks = f"models run on {device}" if library == "" else "nvJPEG is not installed"
            gpu = f"nvJPEG: {library}" if library else f"not possible: {lacks}"
            used = devices.choose_decode(settings.decode, device)
    ways = {
        "reference": f"Pillow {installed_version('pillow')}, exact",
        "cpu": f"torchvision {torchvision}" if torchvision else "not possible: no torchvision",
        "gpu": gpu,
    }
    return [
        {"decode": way, "used": "yes" if way == used else "", "what": what}
        for way, what in ways.items()
    ]


def _places(settings: Settings) -> list[dict[str, Any]]:
    hub = os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface"
    folders = {
        "results": settings.results,
        "feature cache": settings.cache,
        "datasets": settings.data_root,
        "weights (hub)": Path(hub),
        "your configuration": user_config(),
    }
    return [
        {
            "place": name,
            "folder": str(path),
            "size": size(folder_bytes(path)) if path.exists() else "-",
            "file system": _file_system(path),
        }
        for name, path in folders.items()
    ]


def _file_system(path: Path) -> str:
    system = filesystem_of(path)
    return f"{system.kind}, shared" if system.is_shared else system.kind or "-"


def _shared(settings: Settings) -> list[str]:
    """What it means that folders lie on file systems that several machines may write."""
    meanings = {
        "results": (
            settings.results,
            "SQLite's locks are slow there and fail on some: write from one machine only; "
            "`fieldmark run --on slurm` uses many, whose workers write files of their own",
        ),
        "feature cache": (
            settings.cache,
            "workers on all machines can use it: with `fieldmark run --on slurm` or `--on local` "
            "no two embed the same image",
        ),
        "datasets": (
            settings.data_root,
            "many small files are slow to read there; images inside tar archives are faster",
        ),
    }
    systems = {name: filesystem_of(path) for name, (path, _) in meanings.items()}
    return [
        f"{name}: on a shared file system ({systems[name].kind} at {systems[name].mount}); {text}."
        for name, (_, text) in meanings.items()
        if systems[name].is_shared
    ]


def _settings(settings: Settings) -> list[dict[str, Any]]:
    rows = []
    for field in fields(settings):
        if field.name not in ("origin", "data"):
            origin = settings.origin.get(field.name, "default")
            rows.append(
                {"setting": field.name, "value": str(getattr(settings, field.name)), "from": origin}
            )
    for name, folder in settings.data.items():
        rows.append(
            {
                "setting": f"data.{name}",
                "value": str(folder),
                "from": settings.origin[f"data.{name}"],
            }
        )
    return rows


def _extras() -> list[dict[str, Any]]:
    """Every optional extra, which of its packages are missing, and the line that installs it."""
    lacking: dict[str, list[str]] = {}
    try:
        lines = requires("fieldmark") or []
    except PackageNotFoundError:  # run from its source tree
        lines = []
    for line in lines:
        requirement, _, marker = line.partition(";")
        if "extra ==" in marker:
            extra = marker.partition("extra ==")[2].strip().strip("\"'")
            name = requirement.replace("(", " ").split()[0]
            lacking.setdefault(extra, []).append(
                name.partition(">")[0].partition("=")[0].partition("[")[0]
            )
    return [
        {
            "extra": extra,
            "missing": ", ".join(name for name in names if installed_version(name) is None)
            or "nothing",
            "install": f"{Path(sys.executable).name} -m pip install 'fieldmark[{extra}]'",
        }
        for extra, names in sorted(lacking.items())
    ]
