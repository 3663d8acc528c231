"""Evaluate trained networks: load them, compute their predictions, and score these."""
