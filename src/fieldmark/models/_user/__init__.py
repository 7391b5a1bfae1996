"""Models of the user's own: built from a file or a factory, known by what they rest on."""

from fieldmark.models._user.fingerprint import (
    code_of,
    known_key,
    library_version,
    path_digest,
    read_closure,
    source_hash,
)
from fieldmark.models._user.load import adopt, load_file
from fieldmark.models._user.wrap import TEST_TEXTS, Basis, UserBackbone, test_pictures

__all__ = [
    "TEST_TEXTS",
    "Basis",
    "UserBackbone",
    "adopt",
    "code_of",
    "known_key",
    "library_version",
    "load_file",
    "path_digest",
    "read_closure",
    "source_hash",
    "test_pictures",
]
