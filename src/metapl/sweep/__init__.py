"""`metapl sweep`: the same number of trials for every method, judged on validation data."""
