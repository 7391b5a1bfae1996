"""Pages of a MediaWiki: fetched through its API or read from a dump, kept in one store."""
