"""Abilities: the words by which a model says how it can be asked, and a protocol what it needs; and
whether it stands in for a model.
"""

from __future__ import annotations

EMBEDS_IMAGES, EMBEDS_TEXTS = "embeds_images", "embeds_texts"
ANSWERS, SCORES_CONTINUATIONS = "answers", "scores_continuations"
DUAL = frozenset({EMBEDS_IMAGES, EMBEDS_TEXTS})
"""of a dual encoder, whose images and texts live in one space"""

MOCK = "mock"
"""a stand-in that is told the right answers, and gives some of them: for rehearsals"""
CONTROL = "control"
"""a stand-in that cannot see: what it scores, a model must beat"""
