import pytest

from metapl.system.escape import clean, markdown, markup


def test_markup_is_shown_and_not_obeyed():
    assert markup("<b a=\"1\" c='2'>&") == "&lt;b a=&quot;1&quot; c=&#x27;2&#x27;&gt;&amp;"


@pytest.mark.parametrize("text", ["a\x00b", "a\x1bb", "a\udc80b", "a\u202eb"])
def test_what_cannot_be_shown_is_replaced(text):
    assert clean(text) == "a\ufffdb"
    assert markup(text).encode() == markdown(text).encode() == "a\ufffdb".encode()


def test_markdown_stays_one_line_without_markup():
    assert markdown("a | b\n<c> [d](e) *f* `g`") == r"a \| b &#60;c&#62; \[d\](e) \*f\* \`g\`"
    assert markdown("# no heading") == r"\# no heading"
    assert markdown("1. no list, -1 neither") == r"1\. no list, -1 neither"
    assert [markdown(text) for text in ("79.44", "-0.25", "+1.5", "1)")] == ["79.44", "-0.25", "+1.5", r"1\)"]
