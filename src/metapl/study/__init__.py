"""`metapl study`: a table of runs and paired comparisons, from one TOML file."""
