"""From files to arrays. Nothing that a file holds is ever run."""
