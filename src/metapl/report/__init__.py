"""From results to tables and figures."""
