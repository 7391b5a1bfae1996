"""What follows from features: honest scores, a choice, promises, claims. Reads no photo."""
