"""Formulas become HTML: subscripts, superscripts, italic letters, upright words."""

import formulas
import pytest


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("θ_S'", "<i>θ</i><sub><i>S</i></sub>&#x27;"),
        ("∇_{θ_S} L", "∇<sub><i>θ</i><sub><i>S</i></sub></sub> <i>L</i>"),
        ("CE(q, p)", "CE(<i>q</i>, <i>p</i>)"),
        ("v^⊤ < θ̄", "<i>v</i><sup>⊤</sup> &lt; <i>θ̄</i>"),
    ],
)
def test_marks_become_tags(text, made):
    assert formulas.formula(text) == f'<span class="formula">{made}</span>'
