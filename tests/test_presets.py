"""Every preset: it is read, says what it is, and its steps can be traced; the list in the docs is the files' own."""

import dataclasses
import re
from importlib import resources
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from metapl import config as configs
from metapl import models
from metapl.augment import views
from metapl.data.loading import loader
from metapl.models import efficientnet, resnet
from metapl.models.efficientnet import EfficientNet
from metapl.models.wide_resnet import WideResNet
from metapl.schema import validate
from metapl.train.program import stage_functions
from metapl.types import ModelConfig

NAMES = list(configs.presets())
TEXTS = {name: (resources.files("metapl") / "presets" / f"{name}.toml").read_text("utf-8") for name in NAMES}
CLASSES = {"two_moons": 2, "tfrecord": 1000}
UNLABELED = 200_000  # more than a preset has clusters; nothing is computed
SHAPES = {"two_moons": (2,), "digits": (8, 8, 1), "tfrecord": (64, 64, 3)}  # others: 32×32; views have their own size


def header(name: str) -> dict[str, str]:
    """What stands after the words of a preset's header."""
    return dict(re.findall(r"^# (Command|Paper|Hardware|Measured) +(\S.*)$", TEXTS[name], re.MULTILINE))


@pytest.mark.parametrize("name", NAMES)
def test_it_is_read_checked_and_written_back_the_same(name):
    config = configs.load(name)
    validate(config)
    assert configs.parse(configs.dump(config), "dump") == config


@pytest.mark.parametrize("name", NAMES)
def test_its_header_says_what_it_is(name):
    assert len(configs.presets()[name]) > 20
    assert configs.presets()[name].endswith(".")
    found = header(name)
    assert set(found) == {"Command", "Paper", "Hardware", "Measured"}
    assert found["Command"].startswith(f"metapl train {name}")


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith("_small")])
def test_a_small_one_has_the_methods_of_its_sibling(name):
    if name.removesuffix("_small") in NAMES:
        sibling = configs.load(name.removesuffix("_small"))
        small = configs.load(name)
        assert [stage.method.name for stage in small.stages] == [stage.method.name for stage in sibling.stages]
        assert small.data == sibling.data
    assert sum(stage.steps for stage in configs.load(name).stages) < 10_000


@pytest.mark.parametrize("mpl", ["cifar10_4k_mpl", "svhn_1k_mpl", "imagenet10_mpl", "resnet50_imagenet_mpl"])
def test_the_uda_teacher_masks_confident_labels_as_uda_alone_does(mpl):
    """Appendix C.4; Section 3.3 says that ResNet-50's is the same as Section 3.2's."""
    uda = "imagenet10_uda" if mpl.startswith("resnet50") else mpl.replace("_mpl", "_uda")
    teacher, alone = (configs.load(name).stages[0].method for name in (mpl, uda))
    assert teacher.labeled_cap == alone.labeled_cap != "none"


@pytest.mark.parametrize("name", [name for name in NAMES if "_released" in name])
def test_as_released_the_teacher_labels_the_view_that_the_student_sees(name):
    method = configs.load(name).stages[0].method
    assert (method.teacher_view, method.student_view) == ("strong", "strong")


@pytest.mark.parametrize("name", ["efficientnet_l2_mpl", "efficientnet_b6_wide_mpl"])
def test_table_4_averages_weights_as_noisy_student_does(name):
    """Section 4: "the same hyper-parameters with Noisy Student", whose code has moving_average_decay = 0.9999."""
    method = configs.load(name).stages[0].method
    assert (method.student.average_decay, method.teacher.average_decay) == (0.9999, 0.0)


@pytest.mark.parametrize("name", NAMES)
def test_it_measures_imagenet_real_where_the_paper_does(name):
    config = configs.load(name)
    assert ("ImageNet-ReaL" in header(name)["Paper"]) == (getattr(config.data, "real_labels", "") == "real.json")


@pytest.mark.parametrize("method", ["{}_supervised", "noisy_student_{}", "reduced_mpl_{}"])
@pytest.mark.parametrize(("data", "split"), [("svhn", "svhn-val7300"), ("imagenet", "imagenet-100-val40")])
def test_table_11_holds_out_what_appendix_e_does(method, data, split):
    network = {"svhn": "efficientnet_b0_svhn", "imagenet": "efficientnet_b7_imagenet"}[data]
    name = method.format(network if method.startswith("{") else data)
    assert configs.load(name).data.split == split


CONTROLLED = [
    *("cifar10_4k_mpl", "svhn_1k_mpl", "imagenet10_mpl", "resnet50_imagenet_mpl", "imagenet10_mpl_supervised"),
    *("cifar10_4k_mpl_pseudo_labels", "cifar10_4k_mpl_mixup", "cifar10_4k_mpl_randaugment"),
    *("cifar10_4k_mpl_regularizer", "svhn_1k_mpl_regularizer"),
    *("reduced_mpl_cifar10", "reduced_mpl_svhn", "reduced_mpl_imagenet"),
    *(name for name in NAMES if re.fullmatch(r"digits_(reduced_)?mpl(?!.*none).*_small", name)),
]


@pytest.mark.parametrize("name", CONTROLLED)
def test_an_mpl_row_has_a_control_that_differs_in_feedback_alone(name):
    control = name.removesuffix("_small") + "_none" + ("_small" if name.endswith("_small") else "")
    config = configs.load(name)
    (stage,) = (stage for stage in config.stages if hasattr(stage.method, "feedback"))
    feedback = dataclasses.replace(stage.method.feedback, estimator="none")
    without = dataclasses.replace(stage, method=dataclasses.replace(stage.method, feedback=feedback))
    stages = tuple(without if one is stage else one for one in config.stages)
    assert configs.load(control) == dataclasses.replace(config, stages=stages)


@pytest.fixture
def few_layers(monkeypatch):
    """Networks of the same kind with few layers: they are traced in a fraction of the time."""
    monkeypatch.setattr(efficientnet, "STAGES", tuple(stage._replace(blocks=1) for stage in efficientnet.STAGES[:2]))
    monkeypatch.setattr(resnet, "BLOCKS", dict.fromkeys(resnet.BLOCKS, (1, 1, 1, 1)))


def shallow(model: ModelConfig) -> ModelConfig:
    """The same, of networks whose depth is a setting."""
    if isinstance(model, WideResNet):
        return dataclasses.replace(model, depth=10, width=1)
    return dataclasses.replace(model, depth=0.1) if isinstance(model, EfficientNet) else model


def facts(name: str) -> set[str]:
    """What can go wrong in a trace: a method's settings, a network under a method, the views of a source."""
    config = configs.load(name)
    network = config.model.name
    found = {repr((config.data.name, _without_numbers(config.augmentation)))}
    for stage in config.stages:
        settings = [
            f"{f.name}={_without_numbers(getattr(stage.method, f.name))}" for f in dataclasses.fields(stage.method)
        ]
        found |= {f"{stage.method.name} {setting}" for setting in settings}
        found |= {f"{stage.method.name} {network}", f"{stage.method.name} {stage.unlabeled}"}
    return found


def _without_numbers(setting):
    """A setting, but of its numbers only whether they are zero."""
    if dataclasses.is_dataclass(setting):
        return [(f.name, _without_numbers(getattr(setting, f.name))) for f in dataclasses.fields(setting)]
    return bool(setting) if isinstance(setting, int | float) else setting


FIRST = ("cifar10_4k_mpl", "features_mpl")  # tests/tiers.toml names them


def enough() -> list[str]:
    """Presets that have every fact among them: first those of `make test`, then always the one with most new facts."""
    cheap = sorted(NAMES, key=lambda name: ("efficientnet" in name, "imagenet" in name, not name.startswith("digits")))
    new = {name: facts(name) for name in cheap}
    chosen = []
    while any(new.values()):
        best = max(new, key=lambda name: (name in FIRST, len(new[name])))
        known = new.pop(best)
        new = {name: own - known for name, own in new.items()}
        chosen.append(best)
    return chosen


@pytest.mark.parametrize("name", enough())
def test_its_steps_can_be_traced(name, few_layers):
    """Nothing is computed: only whether the settings, the network, the views and the data's shapes go together."""
    config = configs.load(name)
    classes, shape = CLASSES.get(config.data.name, 10), SHAPES.get(config.data.name, (32, 32, 3))
    dtype = jnp.float32 if len(shape) == 1 else jnp.uint8

    def some(*shape: int, dtype: jnp.dtype) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, dtype)

    data = loader.Resident(
        some(12, *shape, dtype=dtype),
        some(12, dtype=jnp.int32),
        some(UNLABELED, *shape, dtype=dtype),
        some(UNLABELED, dtype=jnp.int32),
    )
    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), 1))
    weights = None
    for stage, model in zip(config.stages, config.stage_models, strict=True):
        answers = None
        if stage.method.uses_stored_predictions:
            answers = loader.PredictionsOnDevice(
                some(1, 12, classes, dtype=jnp.float16), some(1, UNLABELED, classes, dtype=jnp.float16)
            )
            weights = None
        small = dataclasses.replace(stage, labeled_batch=8, unlabeled_batch=8)  # into up to 8 microbatches
        network = models.build(shallow(model), classes)
        init, zeros, advance, predictor, *_ = stage_functions(config, small, network, own_data=False)
        state = jax.eval_shape(init, keys, weights, answers, data, None)
        number = some(dtype=jnp.int32)
        totals = jax.eval_shape(zeros, state, keys, answers, data)
        after, metrics = jax.eval_shape(advance, state, totals, keys, answers, data, number, number)
        assert jax.tree.structure(after) == jax.tree.structure(state)
        assert metrics
        weights = predictor(after)
    view = views.eval_view(config.augmentation)
    pictures = some(2, *shape, dtype=dtype)
    one = jax.tree.map(lambda leaf: some(*leaf.shape[1:], dtype=leaf.dtype), weights)
    logits, _ = jax.eval_shape(lambda w, x: network.apply(w.params, w.stats, view(x), train=False), one, pictures)
    assert logits.shape == (2, classes)


def test_the_list_in_the_docs_is_the_files_own():
    """`python tests/test_presets.py` writes it."""
    if not DOCS.is_file():
        pytest.skip("docs are not installed")
    assert DOCS.read_text("utf-8").split(MARK)[1] == table()


DOCS = Path(__file__).parents[1] / "docs" / "presets.md"
MARK = "<!-- written by python tests/test_presets.py -->\n"


def table() -> str:
    rows = ["", "| preset | what | the paper's number | measured here |", "|---|---|---|---|"]
    rows += [
        f"| `{name}` | {configs.presets()[name]} | {header(name)['Paper']} | {header(name)['Measured']} |"
        for name in NAMES
    ]
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    DOCS.write_text(DOCS.read_text("utf-8").split(MARK)[0] + MARK + table(), "utf-8")
