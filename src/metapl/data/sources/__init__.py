"""Where pictures come from: one file for each kind of source."""
