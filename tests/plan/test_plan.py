"""The whole verb, on a tiny network, also for eight simulated devices."""

import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

from metapl import config as configs
from metapl import models
from metapl.bench import flops
from metapl.cli import main as cli
from metapl.plan import estimate, example_shape, report, roofline
from metapl.plan.advice import advice
from metapl.plan.chips import CHIPS, GIB
from metapl.plan.target import Machine
from metapl.plan.traffic import Traffic
from metapl.schema import ConfigError
from metapl.system import runtime


def here(tmp_path, text: str, chip: str = "v3", stage: int = 0):
    """Plan for the one device that tests have."""
    path = tmp_path / "some.toml"
    path.write_text(text, "utf-8")
    config = configs.load(str(path))
    machine = Machine(jax.devices()[:1], CHIPS.get(chip))
    return estimate.plan(config, stage, example_shape.of(config), machine, lambda _: None)


TINY = """[data]
name = "digits"
[model]
name = "mlp"
[[stages]]
steps = 7
labeled_batch = 8
unlabeled_batch = 16
"""


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    return here(tmp_path_factory.mktemp("plan"), TINY)


def test_a_report_adds_up(planned):
    parameters = 64 * 8 + 8 + 8 * 8 + 8 + 8 * 10 + 10
    assert planned["parameters"] == parameters
    assert planned["memory"]["state"]["weights"] == 4 * parameters
    assert planned["memory"]["batch"] == 64 * (8 + 16) + 4 * 8
    # Forward, and the gradients of weights and inputs; that of the first layer's inputs is not needed.
    assert planned["flops"]["step"] == 2 * 8 * (3 * (64 * 8 + 8 * 8 + 8 * 10) - 64 * 8)
    assert planned["stage_s"]["at_least"] == pytest.approx(7 * planned["step_s"]["at_least"])
    assert planned["fits"]
    assert planned["advice"] == []
    assert planned["collectives"] == {}
    assert json.loads(json.dumps(planned)) == planned


def test_a_plan_is_a_table_and_a_sentence(planned):
    (sentence,) = report.sentences(planned)
    assert sentence.startswith("It fits: ")
    assert "of the 15.48 GiB of a device" in sentence
    rows = dict(zip(*(column.cells for column in report.table(planned).columns), strict=True))
    bounds = {name.partition(":")[0]: row for name, row in rows.items() if name.endswith("/s")}
    assert list(bounds) == ["arithmetic", "memory", "interconnect"]
    assert [name for name, row in bounds.items() if row.endswith("the bound")] == [planned["step_s"]["bound"]]
    told = planned | {"compiler": {"cycles": 94_000_000, "step_s": 0.1}}
    assert "94" in "".join(name for name in report.table(told).columns[0].cells if "as the compiler expects" in name)
    assert sum(planned["memory_traffic"].values()) == planned["memory_traffic_bytes"] > 0


def test_what_does_not_fit_comes_with_advice(planned):
    small = {"fits": False, "memory": planned["memory"] | {"limit": 1000}}
    model = 'name = "wide_resnet"\ndepth = 10'
    config = configs.parse(TINY.replace('name = "mlp"', model), "here")
    said = " ".join(report.sentences(planned | small | {"advice": advice(config, 0, devices=4)}))
    assert "it needs" in said
    assert said.startswith("It does not fit: ")
    assert "which has 1000 B" in said
    for setting in (
        "--model.precision bfloat16",
        "--model.remat",
        "--parallel.mode hybrid --parallel.model 2",
        "--stages.0.microbatches 2",
        "--stages.0.labeled_batch 4",
    ):
        assert setting in said
    thrifty = configs.parse(TINY.replace('name = "mlp"', model + '\nremat = true\nprecision = "bfloat16"'), "here")
    assert [line.split()[0] for line in advice(thrifty, 0, devices=1)] == [
        "--stages.0.microbatches",
        "--stages.0.labeled_batch",
    ]


MPL = "method.name = 'mpl'\n"


@pytest.mark.parametrize(
    ("stages", "devices", "words"),
    [
        ("", 6, ["--parallel.mode hybrid --parallel.model 2", "--stages.0.microbatches"]),
        ("labeled_batch = 4\nunlabeled_batch = 7", 1, ["--stages.0.microbatches 2", "--stages.0.labeled_batch 2"]),
        ("labeled_batch = 9", 9, ["--parallel.mode hybrid --parallel.model 3"]),
        ("labeled_batch = 1", 1, ["a smaller network"]),
        (MPL + "labeled_batch = 3\nunlabeled_batch = 8", 1, ["--stages.0.unlabeled_batch 4"]),
        (MPL + "labeled_batch = 3\nunlabeled_batch = 1", 1, ["a smaller network"]),
    ],
)
def test_advice_can_be_followed(stages, devices, words):
    """Groups and batches can be divided as advised, and the method uses the named batch."""
    given = stages or "labeled_batch = 12"
    found = advice(configs.parse(f"[[stages]]\n{given}", "here"), 0, devices)
    assert [line.startswith(start) for line, start in zip(found, words, strict=False)] == [True] * len(words), found
    assert stages == "" or len(found) == len(words), found


def test_advice_names_the_networks_own_stage():
    text = "[model]\nname = 'wide_resnet'\n[[stages]]\n[[stages]]\n" + (
        "method.name = 'noisy_student'\nmodel = {name = 'wide_resnet', depth = 10}"
    )
    config = configs.parse("[data]\nname = 'digits'\n" + text, "here")
    assert advice(config, 0, 1)[0].startswith("--model.precision")
    assert [line.split()[0] for line in advice(config, 1, 1)][:2] == [
        "--stages.1.model.precision",
        "--stages.1.model.remat:",
    ]


def test_a_refusal_gives_a_sentence(planned, monkeypatch, tmp_path):
    class Refusing:
        def compile(self):
            raise RuntimeError("RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 28.20G of 15.48G hbm.")

    real = estimate.planned_program
    monkeypatch.setattr(estimate, "planned_program", lambda *args: real(*args)._replace(advance=Lowering(Refusing())))
    found = here(tmp_path, TINY)
    assert not found["fits"]
    first, *_ = report.sentences(found)
    assert first.startswith(
        "It does not fit: it needs 28.20 GiB on each device, which has 15.48 GiB; the compiler refuses it."
    )
    assert report.table(found).row_count > 3


class Lowering:
    def __init__(self, lowered):
        self.lowered = lowered

    def lower(self, *_):
        return self.lowered


def test_the_roofline():
    chip = CHIPS["v3"]
    seconds = roofline.step_time(chip, 61.5e12, Traffic({"all-reduce": 1}, {"all-reduce": 83e9}, {"copies": 225e9}))
    assert seconds == pytest.approx((1.0, 0.5, 0.5))
    assert (seconds.at_least, seconds.one_by_one) == pytest.approx((1.0, 2.0))
    assert seconds.bound == "arithmetic"
    assert (chip.memory, chip.limit) == (16 * GIB, int(15.48 * GIB))


def test_flops_of_blocks_in_a_loop_count_as_often_as_they_run():
    from metapl.models.wide_resnet import WideResNet

    def forward(scan):
        network = models.build(WideResNet(depth=22, width=1, scan=scan), 10)
        x = jax.ShapeDtypeStruct((2, 32, 32, 3), jnp.float32)
        weights = jax.eval_shape(network.init, jax.random.key(0), x)
        return flops.count(lambda w, x: network.apply(w.params, w.stats, x, train=False)[0], weights, x)

    assert forward(True) == forward(False) > 2 * 2 * 9 * 32**2 * 3 * 16


def test_the_shape_of_examples_is_known_or_must_be_given():
    assert example_shape.of(configs.load("efficientnet_l2_mpl")) == ((580, 580, 3), 1000)
    assert example_shape.of(configs.load("two_moons_mpl")) == ((2,), 2)
    own = configs.parse('data.name = "folder"\nmodel.name = "wide_resnet"', "here")
    with pytest.raises(ConfigError, match="plan reads no data: give --size"):
        example_shape.of(own)
    with pytest.raises(ConfigError, match="plan reads no data: give --classes"):
        example_shape.of(own, size=96)
    with pytest.raises(ConfigError, match="two_moons has points, not pictures: leave --size out"):
        example_shape.of(configs.load("two_moons_mpl"), size=96)
    assert example_shape.of(own, classes=7, size=96) == ((96, 96, 3), 7)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "plan needs a preset or a TOML file first"),
        (["digits_mpl_small"], "plan needs --topology (v3:32x32) or --devices (8)"),
        (["digits_mpl_small", "--devices", "8", "--chip", "v17"], "there is no chip 'v17' in the table"),
        (["digits_mpl_small", "--devices", "8", "--stage", "5"], "--stage 5: the stages are 0 to 1"),
        (["digits_mpl_smal", "--devices", "8"], "did you mean digits_mpl_small"),
    ],
)
def test_mistakes_are_one_sentence(args, message, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["plan", *args])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err.replace("\n", " ")


def test_eight_simulated_devices(tmp_path):
    (tmp_path / "some.toml").write_text(TINY.replace('name = "mlp"', 'name = "mlp"\nhidden = [8]'), "utf-8")
    command = [sys.executable, "-m", "metapl", "plan", "some.toml", "--devices", "8", "--json", "--chip", "a100"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["devices"] == 8
    assert found["collectives"]["all-reduce"]["bytes_sent"] >= 2 * 4 * found["parameters"] * 7 / 8
    assert found["memory"]["batch"] == (64 * (8 + 16) + 4 * 8) / 8


def test_a_tpu_that_this_machine_does_not_have():
    pytest.importorskip("libtpu", reason="libtpu, the compiler for TPUs, is not installed: pip install 'metapl[tpu]'")
    assert len(runtime.tpu_devices("v3:2x2")) == 8
    assert len(runtime.tpu_devices("v4:2x2x1")) == 4
    with pytest.raises(ConfigError, match="'v3:3x3' is not a topology, such as v3:32x32"):
        runtime.tpu_devices("v3:3x3")


def test_without_the_compiler_for_tpus_a_sentence_says_what_to_install(monkeypatch):
    if runtime.find_spec("libtpu"):
        pytest.skip("libtpu is installed")
    with pytest.raises(ConfigError, match=r"pip install 'metapl\[tpu\]'"):
        runtime.tpu_devices("v3:2x2")
