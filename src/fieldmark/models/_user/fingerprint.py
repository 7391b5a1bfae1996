"""Fingerprint of a user's model: when is a class that somebody else wrote another model?

It is made of its code (the import closure), the files that the code names, its options (a file or
folder named there counts by content), the versions of libraries, and the weights of a
`TorchBackbone`. A model may read more than that shows: what it does with the test pictures is
compared when `run` loads it (`trusted_fingerprint` of `embed`).
"""

from __future__ import annotations

import inspect
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from fieldmark import draws
from fieldmark.code import DATA, SETTINGS, Closure, Digest, closure_of, file_digest, is_users
from fieldmark.errors import UsageError
from fieldmark.models._name import (
    ModelName,
    ModelRequest,
    Wish,
    decode_mark,
    resolve_decode,
    resolve_precision,
)
from fieldmark.models._user.wrap import Basis, UserBackbone
from fieldmark.registry import installed_version

DISTRIBUTIONS = {
    "open_clip": "open_clip_torch",
    "timm": "timm",
    "torch": "torch",
    "torchvision": "torchvision",
    "transformers": "transformers",
}
"""packages whose code decides what a network computes, and the names they are installed under"""


def code_of(entry: Any) -> Closure | None:
    """The code of a class, a function or an object, where it is the user's and can be read."""
    thing = getattr(entry, "func", getattr(entry, "__func__", entry))  # of a partial, of a method
    thing = thing if inspect.isclass(thing) or inspect.isfunction(thing) else type(thing)
    try:
        text = inspect.getsourcefile(inspect.unwrap(thing))
    except TypeError:
        return None
    path = Path(text).resolve() if text else None
    return read_closure(path) if path and path.is_file() and is_users(path) else None


def read_closure(path: Path) -> Closure:
    """The code of a model's file, and every file of data or settings that the code names."""
    return closure_of(path, (*DATA, *SETTINGS))


def source_hash(entry: Any) -> str:
    """Stands for that code; empty where there is none to read."""
    closure = code_of(entry)
    return closure.digest() if closure else ""


def known_key(name: ModelName, closure: Closure | None, digest: Digest) -> str:
    """Stands for code, options and libraries of a model of the user's, told without loading it;
    places do not count. The files that its code names are looked at one by one.
    """
    base = name.base.rpartition(":")[2] if name.is_file else name.base
    versions = [(package, library_version(package)) for package in sorted(DISTRIBUTIONS)]
    used = [version for version in versions if closure and version[0] in closure.libraries]
    code = replace(closure, data={}).digest(digest) if closure else ""
    # The options in order; a file or folder counts by its content, not by its place.
    contents = []
    for key, text in sorted(name.options.items()):
        path = Path(text).expanduser()
        contents.append((key, f"content {path_digest(path, digest)}" if path.exists() else text))
    return draws.digest("user 3", base, contents, used, code).hex()


def path_digest(path: Path, digest: Digest = file_digest) -> str:
    """A hash of a file's bytes, or of all files below a folder with their names in it; hidden ones
    and model cards (README.md, which training writes again once it knows the scores) do not count.
    """
    if not path.is_dir():
        return digest(path).hex()
    names: dict[str, bytes] = {}
    met: set[str] = set()
    for folder, folders, files in os.walk(path, followlinks=True):
        real = os.path.realpath(folder)
        kept = [name for name in folders if name[0] != "." and name != "__pycache__"]
        folders[:] = kept if real not in met else []
        met.add(real)
        paths = [Path(folder, name) for name in files if name[0] != "." and name != "README.md"]
        names |= {file.relative_to(path).as_posix(): digest(file) for file in paths}
    return draws.digest(*(part for name in sorted(names) for part in (name, names[name]))).hex()


def library_version(package: str) -> str:
    """The installed version, without an import; "" where it is not installed."""
    return installed_version(DISTRIBUTIONS.get(package, package)) or ""


def fingerprint_model(
    model: UserBackbone,
    request: ModelRequest,
    closure: Closure | None,
    before: dict[Path, str],
    wish: Wish,
) -> None:
    """Says what the model rests on, now that it has been built and has looked; `before` are the
    files that its code names, as they were until then.
    """
    # What its author wrote as a fingerprint; one inherited from us does not know the code.
    kinds = [kind for kind in type(model.inner).__mro__ if "fingerprint" in vars(kind)]
    is_ours = bool(kinds) and kinds[0].__module__.startswith("fieldmark.")
    author_fingerprint = "" if is_ours else str(getattr(model.inner, "fingerprint", ""))
    if closure is None and not author_fingerprint:
        raise UsageError(
            f"model {request.name.text!r}: the source of {type(model.inner).__name__} cannot "
            "be read, so it must bring its own `fingerprint`."
        )
    # What the model wrote meanwhile (a log) is not what it is made of.
    after = named_files(closure, request.digest) if closure else {}
    held = tuple(sorted(pair for pair in before.items() if pair in after.items()))
    key = known_key(request.name, closure, request.digest)
    read_names = wish.asked
    precision = (
        resolve_precision(request.device, request.precision) if "precision" in read_names else ""
    )
    decode = resolve_decode(request.device, request.decode) if "decode" in read_names else ""
    contents = sorted((path.name, content) for path, content in held)
    weights = str(getattr(model.inner, "fingerprint", ""))
    parts = ["own", author_fingerprint] if author_fingerprint else ["files", contents, weights]
    fingerprint = draws.digest(key, precision, *parts, *decode_mark(model.decode)).hex()
    folder = closure.root.parent if closure else Path.cwd()
    is_known = closure is not None and _names_what_it_reads(request.name, closure)
    model.set_identity(fingerprint, Basis(key, folder, held, is_known, precision, decode))


def named_files(closure: Closure, digest: Digest) -> dict[Path, str]:
    """Of the files that the code names."""
    return {path: digest(path).hex() for path in closure.data.values() if path.is_file()}


def _names_what_it_reads(name: ModelName, closure: Closure) -> bool:
    """Can it be told without loading it? Code that reads files, and of which neither the source
    nor an option names one, may read anything.
    """
    given = any(Path(text).expanduser().exists() for text in name.options.values())
    return bool(closure.data) or given or not closure.reads_files
