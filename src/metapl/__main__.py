"""`python -m metapl` is `metapl`."""

from metapl.cli.main import main

main()
