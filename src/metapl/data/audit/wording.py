"""Words for counts."""


def counted(count: int, noun: str) -> str:
    """The count and the noun, in the plural unless the count is 1."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
