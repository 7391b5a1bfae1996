"""All families of the table of fixtures, and a few beyond it."""

from __future__ import annotations

from lmms.families.beyond import BEYOND
from lmms.families.counts import COUNTS
from lmms.families.files import FILES
from lmms.families.letters import LETTERS, VISRES
from lmms.families.several import SEVERAL
from lmms.families.written import MMLU, WRITTEN
from lmms.families.yes_no import YES_NO

EVERY = (*YES_NO, *COUNTS, *LETTERS, *SEVERAL, *WRITTEN, *FILES, *BEYOND)
_LIKE_ANOTHER = (*VISRES[3:], *MMLU[2:])
"""files that differ from another one in a name: their prompts are compared, nothing is run"""
FAMILIES = tuple(each for each in EVERY if each not in _LIKE_ANOTHER)
