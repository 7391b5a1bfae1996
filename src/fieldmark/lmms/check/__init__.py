"""What is wrong with task files, answered without data and network: for `fieldmark check`."""
