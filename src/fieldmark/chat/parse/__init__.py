"""Parsing answers: free text to a label, several labels, a count or a species name."""
