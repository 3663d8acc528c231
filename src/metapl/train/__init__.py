"""The one loop, what it compiles, and what feeds it."""
