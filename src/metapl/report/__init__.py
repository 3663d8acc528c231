"""What runs have come to, to look at: contact sheets, pictures of TwoMoon, and `metapl report`'s page.

The page: `verb` reads flags, `read` the files of a run, `metrics` its curves; `compare` sets runs beside each other;
`content` says what stands on the page, as `blocks`; `html` and `markdown` write them down; `svg` draws.
"""
