"""A run's life on disk: start, resume, lock, checkpoint, log, find."""
