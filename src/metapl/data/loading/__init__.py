"""Batches for the loop, from the device or from files."""
