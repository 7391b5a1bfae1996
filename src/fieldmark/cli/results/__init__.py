"""Commands on finished runs: tables, plots, pages and files of results."""
