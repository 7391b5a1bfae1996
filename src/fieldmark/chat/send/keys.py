"""API keys: to which address may a key go, and who sees the environment's secrets?

A key goes where this package, the user's own configuration or the command line says. A file that
comes with a working folder (`fieldmark.toml`, an experiment) may name an address and a variable;
together they are refused until the user confirms them. Other people's code runs in processes that
see the `open_environment` only.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fieldmark.errors import UsageError

if TYPE_CHECKING:
    from fieldmark.chat.prices import ModelTables, Provider

KeyHome = tuple[str, str]
"""an environment variable and the base URL that its key goes to"""


def key_home(provider: Provider) -> KeyHome:
    return provider.key_env, provider.base_url.rstrip("/")


def who_sends(
    tables: ModelTables, provider: Provider, options: Mapping[str, str], home: KeyHome, where: str
) -> str:
    """The file that alone says that the key goes there; "" where the user or this package does.

    `options` are those of the model's name, which stands at `where` ("" = the user typed it).
    """
    if not home[0] or home in tables.own_keys:
        return ""
    is_named = "base_url" in options or "key_env" in options
    if where and is_named:
        return where
    is_whole = "base_url" in options and "key_env" in options
    return "" if is_whole else tables.strangers.get(provider.name, "")


def refusal(home: KeyHome, where: str) -> UsageError:
    from fieldmark.settings import user_config

    variable, host = home[0], host_of(home[1])
    return UsageError(
        f"{where}  would send the key in {variable} to {host}. Only this file names that address, "
        f"so nothing was sent. If you trust {host} with the key, add --send-key {variable}={host}. "
        "Or put a [[chat_providers]] row with this base_url and key_env into your own "
        f"configuration ({user_config()})."
    )


def is_redirect(trusted: ModelTables, provider: Provider) -> bool:
    """Does a row of a stranger's file give a known provider's name to another address, or to other
    requests (`body` can name another model)?

    Photos and questions would go there, and the results would carry the known name.
    """
    rows = trusted.providers.values()
    trusted_rows = {word: row for row in rows for word in (row.name, *row.aliases) if row.base_url}
    named = [trusted_rows[w] for w in (provider.name, *provider.aliases) if w in trusted_rows]
    return any(
        provider.base_url.rstrip("/") != row.base_url.rstrip("/")
        or (provider.body and provider.body != row.body)
        for row in named
    )


def redirect_refusal(provider: Provider, where: str) -> UsageError:
    from fieldmark.settings import user_config

    return UsageError(
        f"{where}  gives the known provider {provider.name!r} another address or other requests "
        f"({host_of(provider.base_url) or provider.base_url}), so nothing was sent. Give that row "
        f"a name of its own, or put it into your own configuration ({user_config()})."
    )


def host_of(url: str) -> str:
    return urlsplit(url).netloc.lower()


_WORDS = {
    "apikey", "auth", "cookie", "credential", "credentials", "key", "keys", "pass", "passphrase",
    "passwd", "password", "pat", "secret", "secrets", "token", "tokens",
}  # fmt: skip
_BEGINNINGS = ("AWS_", "AZURE_")


@lru_cache(maxsize=4096)
def is_secret(variable: str) -> bool:
    """Does a variable's name sound as if it held a secret?

    >>> [is_secret(name) for name in ("OPENAI_API_KEY", "HF_TOKEN", "TOKENIZERS_PARALLELISM")]
    [True, True, False]
    """
    is_cloud = variable.upper().startswith(_BEGINNINGS)
    return is_cloud or not _WORDS.isdisjoint(variable.lower().split("_"))


_named: set[str] = set()
"""variables that models of this process have their keys in, whatever they are called"""


def note_secret(variable: str) -> None:
    """From now on the variable counts as a secret."""
    if variable:
        _named.add(variable)


def read_key(variable: str) -> str:
    """The secret in a variable; "" where there is none."""
    return os.environ.get(variable, "").strip()


def open_environment(also: Iterable[str] = ()) -> dict[str, str]:
    """The environment without secrets: those whose names sound so, those that models have their
    keys in, and the variables of `also`.
    """
    named = {*also, *_named}
    items = os.environ.items()
    return {name: value for name, value in items if not is_secret(name) and name not in named}
