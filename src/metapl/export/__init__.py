"""`metapl export`: a run's network in files that other programs read, the preprocessing inside, checked on pictures."""
