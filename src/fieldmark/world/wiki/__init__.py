"""Synthetic encyclopedia: the world's species as pages of a wiki, and as a dump of them."""

from __future__ import annotations

from fieldmark.world.wiki.export import export_xml
from fieldmark.world.wiki.pages import WorldPage, WorldWiki, visual_sentences, wiki_pages

__all__ = ["WorldPage", "WorldWiki", "export_xml", "visual_sentences", "wiki_pages"]
