"""`metapl data`: the verbs that look at data."""

from collections.abc import Sequence

from metapl.cli.verbs import Verb, listing, print_help
from metapl.schema import ConfigError
from metapl.system.terminal import Terminal

VERBS = {
    "check": Verb("data_check:check", "Look for bad files, copies and leaks in a data source."),
    "show": Verb("data_show:show", "Draw pictures beside their weak and strong views."),
    "select": Verb("data_select:select", "Keep the most probable extra unlabelled pictures of each class."),
}


def data(args: Sequence[str]) -> None:
    """Check data for leaks, show views, select extra pictures.

    The sources are digits, cifar10, cifar100, svhn, mnist, fashion_mnist, tfrecord (ImageNet), and your own pictures
    as a folder, a .csv, an .npz, tar shards (webdataset) or Parquet files.

    Examples:
      metapl data check digits
      metapl data show digits --out sheets/digits
      metapl data select probabilities.npy --names paths.txt
    """
    verb, *rest = list(args) or ["--help"]
    if verb in ("-h", "--help"):
        rows = {name: entry.summary for name, entry in VERBS.items()}
        last = "metapl data VERB --help explains a verb and lists its flags."
        print_help("metapl data VERB [--out FOLDER] [FLAGS]", data, listing(rows, Terminal().width), last)
    elif verb in VERBS:
        VERBS[verb](rest)
    else:
        raise ConfigError(f"there is no verb {verb!r} of data; the verbs are {', '.join(VERBS)}")
