"""Names that would be markup."""

from metapl.fit import report


def test_markup_in_names_is_shown_and_not_obeyed():
    line = report.table(("class",), [['<script>alert("x")</script> | *bold* _a_ [b](c) `d`\nnext']])[2]
    assert line.startswith("| ")
    assert "<" not in line
    assert line.replace("\\|", "").count("|") == 2
    assert "\n" not in line
    assert "\\*bold\\*" in line


def test_a_table_of_pictures_keeps_odd_names_in_a_csv():
    row = {"path": 'a,"b"\n.png', "prediction": "=1+1", "probability": 0.5, "second": "y", "second_probability": 0.25}
    assert report.rows_as_csv([row]).decode().splitlines()[0] == "path,prediction,probability,second,second_probability"
    assert b'"a,""b""\n.png",\'=1+1,0.5,y,0.25' in report.rows_as_csv([row])
