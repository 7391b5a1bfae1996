"""Code behind !function: where it may come from, how it is imported, called and hashed."""
