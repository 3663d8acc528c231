"""Guards look at a run's numbers and say in plain words when it goes wrong; docs/watching.md tells about them."""
