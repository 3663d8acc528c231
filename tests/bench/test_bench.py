"""`metapl bench` on a tiny network: its numbers must be consistent on any machine."""

import json
import math

import pytest

from metapl.bench import settings, start
from metapl.bench.timing import measure
from metapl.cli import main as cli
from metapl.models.mlp import MLP
from metapl.schema import ConfigError
from metapl.system import runtime

TINY = ("--size", "4", "--channels", "1", "--classes", "3", "--repeats", "2")
PARAMETERS = 16 * 8 + 8 + 8 * 8 + 8 + 8 * 3 + 3
PRODUCTS = 16 * 8 + 8 * 8 + 8 * 3


@pytest.fixture(autouse=True)
def slow_machine(monkeypatch):
    """Small products for a quick peak, and no change of the process's own settings."""
    monkeypatch.setattr("metapl.bench.peak.SIZES", (64,))
    monkeypatch.setattr(runtime, "start", lambda: None)


def bench(tmp_path, capsys, *args: str) -> tuple[dict, str]:
    cli.main(["bench", *args, *TINY, "--out", str(tmp_path / "out")])
    return json.loads((tmp_path / "out/bench.json").read_text("utf-8")), capsys.readouterr().out


def test_every_batch_gets_a_training_step_and_inference(tmp_path, capsys):
    report, out = bench(tmp_path, capsys, "mlp", "--batch", "2", "5", "--no-starts")
    assert [(case["work"], case["batch"]) for case in report["cases"]] == [
        ("training", 2),
        ("inference", 2),
        ("training", 5),
        ("inference", 5),
    ]
    assert report["parameters"] == PARAMETERS
    assert report["starts"] == []
    for case in report["cases"]:
        ms = case["ms"]
        assert 0 < ms["best"] <= ms["low"] <= ms["median"] <= ms["high"]
        assert math.isclose(case["images_per_s"] * ms["median"] / 1e3, case["batch"])
        assert math.isclose(case["share_of_peak"], case["gflop"] / ms["median"] * 1e3 / report["peak"]["gflops"])
        memory = case["memory_mib"]
        assert memory["total"] == memory["arguments"] + memory["outputs"] + memory["temporaries"]
        assert memory["total"] * 2**20 >= 4 * (PARAMETERS + 16 * case["batch"])  # weights and pictures, at least
    assert f"mlp, supervised, 4×4 pictures, {PARAMETERS} parameters" in " ".join(out.split())
    assert "batch 5: compiling" in out


def test_flops_are_those_of_the_layers(tmp_path, capsys):
    report, _ = bench(tmp_path, capsys, "mlp", "--batch", "5", "--no-starts")
    training, inference = report["cases"]
    assert inference["gflop"] * 1e9 == pytest.approx(2 * 5 * PRODUCTS)
    no_first = PRODUCTS + PRODUCTS + (PRODUCTS - 16 * 8)  # the gradient of the pictures is not needed
    assert training["gflop"] * 1e9 == pytest.approx(2 * 5 * no_first)


@pytest.mark.parametrize(
    ("method", "unlabeled"), [("supervised", 0), ("pseudo_labels", 7), ("uda", 7), ("mpl", 7), ("noisy_student", 7)]
)
def test_every_method_can_be_measured_and_only_pictures_that_it_sees_count(tmp_path, capsys, method, unlabeled):
    report, _ = bench(tmp_path, capsys, "mlp", method, "--batch", "2", "--unlabeled-batch", "7", "--no-starts")
    training, inference = report["cases"]
    assert (training["unlabeled_batch"], inference["unlabeled_batch"]) == (unlabeled, 0)
    assert math.isclose(training["images_per_s"] * training["ms"]["median"] / 1e3, 2 + unlabeled)


def test_the_report_describes_the_machine(tmp_path, capsys):
    report, _ = bench(tmp_path, capsys, "mlp", "--batch", "2", "--no-starts", "--model.hidden", "3")
    machine = report["machine"]
    assert machine["cores"] == runtime.cores()
    assert machine["devices"] >= 1
    assert {"metapl", "jax", "jaxlib", "python"} <= set(machine["versions"])
    assert "xla_flags" in machine
    assert report["settings"]["model"] == {"name": "mlp", "hidden": [3], "activation": "sigmoid", "init_range": 0.1}
    assert report["peak"]["gflops"] == max(report["peak"]["each"].values()) > 0


def test_two_starts_with_one_cache(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "mine"))
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")  # a program that compiles fast is kept, too
    report, out = bench(tmp_path, capsys, "mlp", "mpl", "--batch", "2")
    (both,) = report["starts"]
    for kind in ("cold", "cached"):
        parts = [both[kind][part] for part in ("init_s", "trace_s", "compile_s", "step_s")]
        assert min(parts) > 0
        assert sum(parts) < both[kind]["first_step_s"]
        assert both[kind]["peak_rss_mib"] > 10
    assert both["cold"]["programs_from_cache"] == 0 < both["cached"]["programs_from_cache"]
    assert not (tmp_path / "mine").exists()  # the user's own cache is neither read nor filled
    assert all(f" {kind} " in out for kind in ("cold", "cached"))


def test_a_start_that_fails_says_why():
    broken = settings.Bench(MLP(hidden=(-3,)), batch=(2,))
    with pytest.raises(ConfigError, match=r"a new process ended before its first step: .*Error"):
        start.cold_and_cached(broken, 2)


def test_a_preset_brings_its_network_method_and_batches():
    bench = settings.choose(["two_moons_mpl"])
    assert (bench.model.name, bench.method.name, bench.batch, bench.unlabeled_batch) == ("mlp", "mpl", (6,), 32)
    assert bench.method.feedback.estimator == "soft"
    assert settings.choose(["two_moons_mpl", "uda"]).method.name == "uda"


def test_quick_work_is_repeated():
    calls = []
    timing = measure(calls.append, repeats=3)
    assert calls[:2] == [2, 1]  # a warm-up, and one call to see how long it takes
    assert len(calls) == 5
    assert len(set(calls[2:])) == 1
    assert calls[2] > 100
    assert timing.best <= timing.low <= timing.median <= timing.high
