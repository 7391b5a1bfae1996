"""Commands for what runs and what is kept: jobs, stored runs, caches, the installation."""
