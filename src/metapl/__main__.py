"""`python -m metapl` is `metapl`."""

from metapl.cli import main

main()
