"""Support vector machine with or without a random search: the probe `svm`."""

from fieldmark.probes.svm.probe import SUMMARY, Probe, SupportVectors

__all__ = ["SUMMARY", "Probe", "SupportVectors"]
