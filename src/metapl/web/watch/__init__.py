"""`metapl watch`: the page of `metapl report`, kept up to date while runs train.

`looking` sees from a few files' sizes and times whether anything has changed; `following` counts these changes, and
makes the page when a browser asks for it; `handler` says what is at which address of a server that is `serve`'s;
`told` has the words for how a run stands and ended; `verb` reads flags and ends with the run.
"""
