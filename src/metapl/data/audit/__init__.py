"""Check pictures before training: unreadable files, copies, leaks; and select unlabelled ones."""
