"""Meta Pseudo Labels as a scikit-learn classifier, on arrays: digits, 50 of them with a label.

    python examples/classifier.py [--steps 2000]        50 labels alone: 82.9 %; with the others unlabelled: 91.8 %
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from metapl import MetaPseudoLabels


def compare(steps: int, folder: Path) -> dict[str, float]:
    """Learn with the unlabelled pictures and without them; the test pictures are in neither."""
    pictures = (load_digits().images * 15.9375).astype(np.uint8)  # [1797, 8, 8], bytes
    train, test, y_train, y_test = train_test_split(pictures, load_digits().target, random_state=0)
    y = np.where(np.arange(len(train)) < 50, y_train, -1)  # −1: this picture has no label

    model = MetaPseudoLabels(steps=steps, mirror=False, random_state=0)
    alone = model.fit(train[:50], y[:50]).score(test, y_test)
    together = model.fit(train, y).score(test, y_test)  # or: model.fit(train[:50], y[:50], unlabeled=train[50:])

    model.save(folder / "model")  # safetensors, TOML and JSON: nothing that runs when it is loaded
    again = MetaPseudoLabels.load(folder / "model")
    assert np.array_equal(again.predict_proba(test), model.predict_proba(test))
    return {"50 labels alone": alone, "with the others unlabelled": together}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000)
    with tempfile.TemporaryDirectory() as folder:
        for name, accuracy in compare(parser.parse_args().steps, Path(folder)).items():
            print(f"{name}: {accuracy:.1%} of the test pictures")
