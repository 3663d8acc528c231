"""tiers.toml names tests that exist."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
TIERS = tomllib.loads((ROOT / "tests" / "tiers.toml").read_text("utf-8"))
LONGEST = TIERS.pop("longest")
ENTRIES = [(tier, entry) for tier, entries in TIERS.items() for entry in entries]


def test_the_tiers_are_the_markers(pytestconfig):
    assert {tier.removesuffix("_except") for tier in TIERS} <= {
        line.split(":")[0] for line in pytestconfig.getini("markers")
    }


def test_every_entry_is_there():
    assert all((ROOT / file).is_file() for file in LONGEST)
    for _, entry in ENTRIES:
        file, _, name = entry.partition("::")
        text = (ROOT / file).read_text("utf-8")
        assert not name or re.search(rf"^def {re.escape(name.partition('[')[0])}\(", text, re.MULTILINE), entry
