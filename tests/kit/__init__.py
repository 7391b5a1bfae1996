"""The one kit of tests: fakes, made data and results, by what they stand for."""
