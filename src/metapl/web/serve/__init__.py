"""`metapl serve`: a page and a JSON endpoint that show what a trained network predicts for a picture.

Every limit (hosts, origins, sizes, times, connections) is written in `web/guard.py`, `web/shield.py` or
`web/server.py`.
"""
