"""Content keys of a job, and how they reach its executors."""
