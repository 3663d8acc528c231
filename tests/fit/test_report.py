"""Names that would be markup, and sentences of the verdict."""

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


def test_what_was_left_out_is_named_by_its_title_with_one_sentence_for_each_reason():
    said = report.left_out(
        {
            "left_out": {"uda": "no time was left", "mpl": "no time was left"},
            "not_tried": {"network": "there is no GPU"},
            "skipped": {"joint": "a file is damaged"},
        }
    )
    assert said == [
        "Left out: UDA heads, Meta Pseudo Labels heads, because no time was left.",
        "Left out: the same network with Meta Pseudo Labels, because there is no GPU.",
        "Left out: one head on several networks, because a file is damaged.",
    ]


def test_the_verdict_says_how_a_rung_was_made():
    ladder = [{"title": "self-training", "remark": ""}, {"title": "heads together", "remark": "C = 1"}]
    assert report.details({"ladder": ladder}) == ["Heads together: C = 1."]


def test_a_rung_that_was_not_trained_without_unlabelled_pictures_is_named():
    d = {"difference": 0.1, "low": 0.05, "high": 0.15, "better": 3, "worse": 1, "p": 0.01}
    rows = [{"name": name, "title": name, "uses_unlabeled": True} for name in ("aligned", "joint", "finetuned")]
    verdict = {"ladder": rows, "difference": d, "unlabeled": "helped", "recommended": "finetuned"}
    assert "did not train finetuned without them" in report.outcome(verdict)
    assert "did not train joint without them" in report.outcome(verdict | {"recommended": "aligned"})
    assert "unknown" not in report.outcome(verdict | {"ladder": rows[:1]})
