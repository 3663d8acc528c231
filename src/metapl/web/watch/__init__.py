"""`metapl watch`: the page of `metapl report`, kept up to date while runs train.

`scan` reads sizes and times of a few files, to see whether anything has changed. `live_page` counts these changes and
makes the page when a browser asks for it. `routes` says what is at which address. `sentences` says how far a run is and
how it ended.
"""
