"""From files to arrays. Code inside a file is never executed."""
