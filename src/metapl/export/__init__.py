"""`metapl export`: write a run's network, with its preprocessing, as files for other programs, and check them."""
