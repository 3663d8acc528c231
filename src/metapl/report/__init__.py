"""What runs have come to, to look at: contact sheets, pictures of TwoMoon, and `metapl report`'s page.

The page: `verb` reads flags, `read` the files of a run, `metrics` its curves; `compare` sets runs beside each other;
`content` says what stands on the page, as `blocks`; `html` and `markdown` write them down; `svg` draws.

The TwoMoon page: `moons_film` keeps the weights of a training, `moons_regions` makes outlines of what they say of the
plane, `moons_panels` draws them beside a slider, `moons_page` adds tables and charts.
"""
