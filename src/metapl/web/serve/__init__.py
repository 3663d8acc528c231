"""`metapl serve`: a page and a JSON endpoint that show what a trained network says of a picture.

Python's own http.server carries it: one user on one machine needs no framework, nothing has to be installed, and every
limit (hosts, origins, sizes, times, connections) is in sight, in `guard` and `server`.
"""
