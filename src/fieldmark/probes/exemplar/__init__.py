"""Exemplar SVM for re-identification: the probe `exemplar`."""

from fieldmark.probes.exemplar.probe import SUMMARY, Exemplar, Probe

__all__ = ["SUMMARY", "Exemplar", "Probe"]
