"""Write formulas as HTML, from the notation of the docstrings (θ_S', ∇_{θ_S}), without scripts or fonts."""

import html
import re

_MARKS = {"_": "sub", "^": "sup"}
_LETTER = re.compile(r"[A-Za-zα-ωŷθ]")
_WORDS = ("CE", "RandAugment", "StopGradient", "argmin", "min", "log", "softmax", "one", "hot", "PL", "MLP", "where")


def formula(text: str) -> str:
    """HTML of a formula: _ and ^ lower or raise the next letter, or the text in {…}; letters are italic, words not."""
    return f'<span class="formula">{_parts(text)}</span>'


def _parts(text: str) -> str:
    made, at = [], 0
    while at < len(text):
        if text[at] in _MARKS:
            inside, end = _argument(text, at + 1)
            tag = _MARKS[text[at]]
            made.append(f"<{tag}>{_parts(inside)}</{tag}>")
            at = end
        else:
            word = re.match(r"[A-Za-z]{2,}|.[\u0300-\u036f]?", text[at:], re.DOTALL)
            assert word is not None
            made.append(_word(word[0]))
            at += len(word[0])
    return "".join(made)


def _argument(text: str, at: int) -> tuple[str, int]:
    """What a _ or ^ applies to, and where it ends: one character, or the text in braces."""
    if text[at] != "{":
        return text[at], at + 1
    depth, end = 1, at + 1
    while depth:
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        end += 1
    return text[at + 1 : end - 1], end


def _word(word: str) -> str:
    if word in _WORDS:
        return word
    return f"<i>{html.escape(word)}</i>" if _LETTER.match(word) else html.escape(word)
