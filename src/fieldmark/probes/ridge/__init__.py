"""Ridge classifier with its strength from cross-validation: the probe `ridge`."""

from fieldmark.probes.ridge.probe import SUMMARY, Probe, Ridge

__all__ = ["SUMMARY", "Probe", "Ridge"]
