"""Guards read a run's numbers and warn when it goes wrong; docs/watching.md describes them."""
