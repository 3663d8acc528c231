"""`metapl fit`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from metapl.cli.flags import parse
from metapl.fit.request import Request
from metapl.schema import validate
from metapl.system.terminal import Terminal


@dataclass(frozen=True)
class FitFlags:
    """Which pictures, what to do with them, and where the results go."""

    data: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="DATA")]
    """A folder, or a file: .csv, .npz, .tar or .parquet."""
    request: Annotated[Request, tyro.conf.arg(name="")] = Request()
    out: Path | None = None
    """Folder for the results: new, empty, or of a fit to continue. Default: runs/fit, or the next free name."""


def fit(args: Sequence[str]) -> None:
    """Train on your own pictures: a folder in, a model out.

    DATA is a folder (labeled/CLASS/…, unlabeled/…, and optionally val/CLASS/…, test/CLASS/…), a .csv or an .npz, or a
    folder of tar shards or Parquet files (docs/data.md). Looks for bad files and copies, and holds pictures out if
    there is no test part. Then it encodes all pictures once, and leaves out unlabelled ones that show something else.

    It climbs a ladder of models, as far as the budget allows: scikit-learn's logistic regression, aligned
    self-training, scikit-learn's self-training and label spreading, one head on several networks, the pretrained
    network finetuned, one head on all of these, and heads by UDA, FixMatch and MPL. If nothing is
    pretrained, it also trains a small network on your pictures alone. On a GPU, it trains a whole network, too. All are
    judged on the same pictures.

    The verdict (report.html) says which one to use, what it gains over logistic regression, whether the unlabelled
    pictures helped, and what to label next. Ctrl-C gives the best model so far; the same command continues.
    docs/own_pictures.md explains more.

    Examples:
      metapl fit ./my_pictures --out runs/mine
      metapl fit pictures.csv --budget 2h --out runs/mine
      metapl fit ./my_pictures --init-from timm/resnet18.a1_in1k --out runs/mine
      metapl fit ./letters --no-mirror --init-from resnet18.safetensors --out runs/letters
    """
    flags = parse(FitFlags, "metapl fit", fit, args)
    validate(flags)
    from metapl.fit.fit import fit as fit_pictures
    from metapl.fit.folder import usual_folder
    from metapl.system import runtime

    runtime.start()
    out = flags.out or usual_folder(flags.data, flags.request)
    fit_pictures(flags.data, flags.request, out, Terminal())
