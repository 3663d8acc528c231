"""Pages on this machine: `metapl serve` and `metapl watch`."""
