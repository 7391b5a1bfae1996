"""Images decoded and prepared on the CPU, in threads, while a model works on those before."""
