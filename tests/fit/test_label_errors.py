"""Hints of wrong labels, by hand."""

import numpy as np

from metapl.fit.label_errors import suspected

NAMES, CLASSES = [f"{i}.png" for i in range(6)], ("cat", "dog")


def log_p(cat: list[float]) -> np.ndarray:
    p = np.array(cat)
    return np.log(np.stack([p, 1 - p], -1)).astype(np.float32)


def test_a_picture_that_looks_typical_of_another_class_is_suspected():
    """Of cats the mean probability of "cat" is 0.65: picture 2 is above it, though its label is "dog"."""
    logits, labels = log_p([0.9, 0.8, 0.95, 0.1, 0.25, 0.6]), np.array([0, 0, 1, 1, 0, 1], np.int32)
    hints = suspected(logits, labels, NAMES, CLASSES)
    assert [(hint["path"], hint["label"], hint["prediction"]) for hint in hints] == [
        ("2.png", "dog", "cat"),
        ("4.png", "cat", "dog"),
    ]
    assert hints[0]["probability"] == 0.95


def test_wrong_labels_are_found_among_right_ones():
    draw = np.random.RandomState(0)
    truth = draw.randint(0, 3, 300).astype(np.int32)
    labels, wrong = truth.copy(), draw.permutation(300)[:30]
    labels[wrong] = (labels[wrong] + 1) % 3
    logits = (3 * np.eye(3)[truth] + draw.normal(size=(300, 3))).astype(np.float32)
    hints = suspected(logits, labels, [str(i) for i in range(300)], ("a", "b", "c"))
    right = {int(hint["path"]) for hint in hints} & set(wrong.tolist())
    assert len(right) >= 20
    assert len(hints) - len(right) <= 15
    assert {int(hint["path"]) for hint in hints[:10]} <= set(wrong.tolist())


def test_pictures_that_nobody_predicted_are_left_out():
    logits = log_p([0.9, 0.1, 0.9])
    logits[1] = np.nan
    assert suspected(logits, np.array([0, 0, 0], np.int32), NAMES, CLASSES) == []
    assert suspected(np.full((2, 2), np.nan, np.float32), np.array([0, 1], np.int32), NAMES, CLASSES) == []
