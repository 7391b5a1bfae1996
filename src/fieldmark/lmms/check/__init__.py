"""What is wrong with files in lmms-eval's form? Answered without data, network or running code."""

from fieldmark.lmms.check.code import code_problems
from fieldmark.lmms.check.fields import field_problems
from fieldmark.lmms.check.problems import LEVELS, Problem, problems_of, told_once

__all__ = [
    "LEVELS",
    "Problem",
    "code_problems",
    "field_problems",
    "problems_of",
    "told_once",
]
