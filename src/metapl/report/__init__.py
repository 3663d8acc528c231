"""The results of runs, for people: the page of `metapl report`, the TwoMoon page, and contact sheets.

The page: `read` reads the files of a run, `metrics` its curves; `compare` compares runs; `build` puts the page together
from `blocks`: `overview` for all runs, `run_section` for each; `html` and `markdown` write it; `svg`,
`bars` and `heat_map` draw.

The TwoMoon page: `moons_film` keeps the weights during a training, `moons_regions` makes outlines of their decision
regions, `moons_panels` draws them with a slider, `moons_page` adds tables and charts.
"""
