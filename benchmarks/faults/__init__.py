"""Faults on purpose: kill every verb that writes, break its disk, and feed it damaged files (docs/reliability.md)."""
