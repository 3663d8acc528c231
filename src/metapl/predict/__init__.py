"""`metapl predict` and `metapl pseudo-label`: a run's predictions for any number of new pictures."""
