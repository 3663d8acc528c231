"""Pages on this machine: `metapl serve` and `metapl watch`.

`server` accepts connections, `connection` answers one request, `guard` checks its headers, `deadline` reads from slow
clients. `serve/routes.py` and `watch/routes.py` say which page is at which address.
"""
