"""Settings (flags, environment, config files): where do things live, and which layer said so?

Precedence: flag > `FIELDMARK_*` > project `fieldmark.toml` (this folder or one above) > user
configuration > default. Each value remembers its origin, so that `fieldmark doctor` can show it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldmark.errors import UsageError, closest, join_problems, meant
from fieldmark.registry import PROTOCOLS, is_file_reference, short_name

if TYPE_CHECKING:
    from fieldmark.source_lines import Located

BAD_IMAGES = ("fail", "skip")
PRECISIONS = ("auto", "float32", "bf16", "fp16")
DECODES = ("auto", "reference", "cpu", "gpu")
DEVICES = ("auto", "cpu", "cuda", "cuda:N", "mps")
ELSEWHERE = ("chat_models", "chat_providers")
"""tables of a configuration file that others read"""
OWN_WORD = ("protocol_path", "send_key", "trust_code")
"""settings that a project's file cannot make: they let code run, or keys go, unasked"""
NO_SETTINGS = ("FIELDMARK_LMMS_EVAL", "FIELDMARK_TOKEN")
"""variables that tests and `serve` read"""


def default_cache() -> Path:
    import platformdirs

    return Path(platformdirs.user_cache_dir("fieldmark"))


def user_config() -> Path:
    import platformdirs

    return Path(platformdirs.user_config_dir("fieldmark")) / "config.toml"


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that says where and how, never what is measured."""

    results: Path = Path("results")
    """folder of the store and of what is reported"""
    cache: Path = field(default_factory=default_cache)
    """features, and what is remembered about files"""
    data_root: Path = Path("data")
    """folder with one folder per dataset, named as the dataset"""
    data: Mapping[str, Path] = field(default_factory=dict)
    """datasets that live elsewhere: name → folder"""
    device: str = "auto"
    """auto, cpu, cuda, cuda:1, mps"""
    precision: str = "auto"
    """auto is bf16 on a GPU and float32 elsewhere"""
    decode: str = "auto"
    """how photos are read: reference (exact, slow), cpu or gpu (fast); auto is the fastest here"""
    threads: int = 0
    """threads that read and prepare images; 0 = one per core, at most 16"""
    batch_size: int = 0
    """images per forward pass; 0 = found automatically"""
    bad_images: str = "fail"
    """what to do about unreadable images: fail (before hours are spent) or skip (and count them)"""
    offline: bool = False
    """never fetch weights"""
    include_path: tuple[Path, ...] = ()
    """folders whose tasks are known by name, and whose code tasks may run"""
    protocol_path: tuple[Path, ...] = ()
    """folders with protocols of your own, one Python file each"""
    fetch: bool = False
    """tasks may download the datasets they name"""
    send_key: tuple[str, ...] = ()
    """`VARIABLE=HOST`: keys that may go to addresses that only files of a folder name"""
    trust_code: tuple[str, ...] = ()
    """models of Hugging Face whose own Python code may run: `hf/ORG/NAME`, `hf/FOLDER`"""
    contact: str = ""
    """mail address or page of whoever asks a wiki, which its rules want to know"""
    origin: Mapping[str, str] = field(default_factory=dict)

    @property
    def store(self) -> Path:
        return self.results / "fieldmark.db"

    @property
    def journal(self) -> Path:
        """Folder of the answers of chat models."""
        return self.results / "journal"

    @property
    def n_threads(self) -> int:
        return self.threads or min(os.cpu_count() or 1, 16)

    @property
    def may_fetch(self) -> bool:
        """May tasks download their datasets? Who is offline fetches nothing."""
        return self.fetch and not self.offline

    def root_of(self, dataset: str) -> Path:
        """The folder of a dataset."""
        name = dataset_key(dataset)
        return Path(self.data.get(name, self.data_root / name))


def dataset_key(dataset: str) -> str:
    """What a dataset's folder is called; that of `ponds.py:Ponds` is `ponds`."""
    return short_name(dataset).lower() if is_file_reference(dataset) else dataset


def load_settings(flags: Mapping[str, Any] | None = None, start: Path | None = None) -> Settings:
    """All layers merged; `flags` hold what the user typed (None = not typed)."""
    files = [path for path in (user_config(), project_config(start or Path.cwd())) if path]
    layers = [
        (str(path), _read(path, is_own=path == user_config())) for path in files if path.is_file()
    ]
    typed = {key: value for key, value in (flags or {}).items() if value not in (None, (), {})}
    values: dict[str, Any] = {"data": {}}
    origin: dict[str, str] = {}
    for name, layer in (*layers, ("environment", _environment()), ("flag", typed)):
        for key, value in layer.items():
            if key == "data":
                values["data"] = {**values["data"], **value}
                origin.update({f"data.{dataset}": name for dataset in value})
            else:
                values[key], origin[key] = value, name
    settings = Settings(**values, origin=origin)
    for folder in settings.protocol_path:
        PROTOCOLS.add_folder(folder)
    return settings


def project_config(start: Path) -> Path | None:
    for folder in (start, *start.parents):
        if (folder / "fieldmark.toml").is_file():
            return folder / "fieldmark.toml"
    return None


def _read(path: Path, is_own: bool) -> dict[str, Any]:
    from fieldmark.source_lines import read_toml

    located = read_toml(path)
    result: dict[str, Any] = {}
    problems: list[str] = []
    for key, value in located.data.items():
        if key in ELSEWHERE:
            continue
        if key in OWN_WORD and not is_own:
            problems.append(
                f"{located.where((key,))}  only you can set {key}, not a project's file: set "
                f"FIELDMARK_{key.upper()}, or {key} in {user_config()}."
            )
            continue
        try:
            if key == "data":
                result[key] = _folders(value, located)
            else:
                result[key] = _typed(key, value, located.where((key,)), path.parent)
        except UsageError as error:
            problems.append(str(error))
    if problems:
        raise UsageError(join_problems(problems))
    return result


def _folders(table: Any, located: Located) -> dict[str, Path]:
    """The `[data]` table: dataset → folder, relative to the file."""
    if not isinstance(table, dict):
        where = located.where(("data",))
        raise UsageError(f'{where}  data = {table!r}: expected a table [data] of NAME = "FOLDER".')
    for name, folder in table.items():
        if not isinstance(folder, str):
            where = located.where(("data", name))
            raise UsageError(f"{where}  data.{name} = {folder!r}: expected the name of a folder.")
    return {name: located.path.parent / Path(value).expanduser() for name, value in table.items()}


def _environment() -> dict[str, Any]:
    """An empty variable counts as none."""
    result: dict[str, Any] = {}
    data: dict[str, Path] = {}
    names = {f"FIELDMARK_{name.upper()}": name for name in _names() if name != "data"}
    for variable, value in sorted(os.environ.items()):
        if not variable.startswith("FIELDMARK_") or not value or variable in NO_SETTINGS:
            continue
        if variable in names:
            result[names[variable]] = _typed(names[variable], value, variable, Path())
        elif variable.startswith("FIELDMARK_DATA_"):
            data[variable.removeprefix("FIELDMARK_DATA_").lower()] = Path(value).expanduser()
        else:
            hint = closest(variable, names)
            mean = f" Did you mean {hint[0]}?" if hint else ""
            raise UsageError(f"{variable}  is not a setting of fieldmark.{mean}")
    if data:
        result["data"] = data
    return result


def _names() -> list[str]:
    return [field.name for field in fields(Settings) if field.name != "origin"]


def _typed(key: str, value: Any, where: str, base: Path) -> Any:
    if key not in _names():
        problem = f"setting {key!r} is not known.{meant(key, _names())}"
        raise UsageError(f"{where}  {problem}")
    try:
        return check_setting(key, value, base)
    except ValueError as error:
        raise UsageError(f"{where}  {key} = {value!r}: {error}.") from None


def check_setting(key: str, value: Any, base: Path = Path()) -> Any:
    """The value in its right type; ValueError says what was expected."""
    if key in ("results", "cache", "data_root"):
        if not isinstance(value, (str, Path)):
            raise ValueError("expected the name of a folder")
        return base / Path(value).expanduser()
    if key in ("threads", "batch_size"):
        if isinstance(value, bool) or not str(value).isdecimal():
            raise ValueError("expected a whole number, 0 or more")
        return int(value)
    if key in ("include_path", "protocol_path"):
        names = _listed(value, os.pathsep, ".*", "names of folders")
        return tuple(base / Path(name).expanduser() for name in names if name)
    if key == "trust_code":
        example = "names of models, for example hf/ORG/NAME"
        return tuple(filter(None, _listed(value, ",", "|hf/.*", example)))
    if key == "send_key":
        example = "VARIABLE=HOST, for example LAB_KEY=gpu7:8000"
        pairs = [pair.split("=") for pair in _listed(value, ",", r"\w+=[^=/\s]+", example)]
        return tuple(f"{variable}={host.lower()}" for variable, host in pairs)
    if key in ("offline", "fetch"):
        boolean_of = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
        if str(value).lower() not in boolean_of:
            raise ValueError("expected true or false")
        return boolean_of[str(value).lower()]
    if not isinstance(value, str):
        raise ValueError("expected text")
    if key == "contact":
        return value
    allowed = {
        "bad_images": BAD_IMAGES,
        "precision": PRECISIONS,
        "decode": DECODES,
        "device": DEVICES,
    }[key]
    if value not in allowed and not (key == "device" and re.fullmatch(r"cuda:\d+", value)):
        raise ValueError(f"expected {', '.join(allowed[:-1])} or {allowed[-1]}")
    return value


def _listed(value: Any, between: str, pattern: str, expected: str) -> list[str]:
    """A list of a file, or texts with the separator of variables between them."""
    texts = value.split(between) if isinstance(value, str) else value
    if isinstance(texts, (list, tuple)) and all(isinstance(one, (str, Path)) for one in texts):
        stripped = [str(text).strip() for text in texts]
        if all(re.fullmatch(pattern, text, re.DOTALL) for text in stripped):
            return stripped
    raise ValueError(f"expected {expected}")
