"""`metapl serve`: a page and a JSON endpoint that show what a trained network predicts for a picture.

It is built on Python's own http.server: one user on one machine needs no framework, nothing has to be installed, and
every limit (hosts, origins, sizes, times, connections) is written in `web/guard.py` and `web/server.py`.
"""
