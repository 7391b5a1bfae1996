"""All families of the table of fixtures, and a few beyond it."""

from __future__ import annotations

from tasks.lmms.families.beyond import BEYOND
from tasks.lmms.families.counts import COUNTS
from tasks.lmms.families.files import FILES
from tasks.lmms.families.letters import LETTERS, VISRES
from tasks.lmms.families.several import SEVERAL
from tasks.lmms.families.written import MMLU, WRITTEN
from tasks.lmms.families.yes_no import YES_NO

EVERY = (*YES_NO, *COUNTS, *LETTERS, *SEVERAL, *WRITTEN, *FILES, *BEYOND)
_LIKE_ANOTHER = (*VISRES[3:], *MMLU[2:])
"""files that differ from another one in a name: their prompts are compared, nothing is run"""
FAMILIES = tuple(each for each in EVERY if each not in _LIKE_ANOTHER)
