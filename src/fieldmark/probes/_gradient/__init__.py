"""Probes that are fitted by gradients: AdamW for small networks, L-BFGS for logistic regression."""
