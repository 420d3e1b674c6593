"""Plans: where replicas, merges and weights go, what devices carry, and what is refused before anything is loaded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer.catalog import ModelSignature
from composer.compiler.estimates import slice_rows
from composer.compiler.ir import Device
from composer.compiler.plan import DeviceTopology
from composer.compiler.planner import topology_for
from composer.errors import DeviceError, SpecError
from tests.compiler.specs import places, planned, resolved, signature


def refusal(text: str, catalog: dict[str, ModelSignature | None], match: str) -> list[str]:
    with pytest.raises(SpecError, match=match) as caught:
        planned(text, catalog)
    return [fault.code for fault in caught.value.diagnostics]


# Placement ---------------------------------------------------------------------------------------------------------


def test_largest_first_on_the_least_loaded_device() -> None:
    sizes = {"a": 10, "b": 70, "c": 40, "d": 30, "e": 60}
    found = planned("parallel(a, b, c, d, e) on gpus=2", {name: signature(size) for name, size in sizes.items()})
    assert places(found) == {"b": ["gpu:0"], "e": ["gpu:1"], "c": ["gpu:1"], "d": ["gpu:0"], "a": ["gpu:0"]}
    assert [load.flops_per_step for load in found.loads] == [3 * 32 * 110, 3 * 32 * 100]


def test_replicas_of_a_member_go_to_different_devices() -> None:
    found = planned("parallel(a x3, b x2) on gpus=4", {"a": signature(30), "b": signature(90)})
    assert places(found) == {"a": ["gpu:0", "gpu:2", "gpu:3"], "b": ["gpu:0", "gpu:1"]}
    assert found.notes == ()


def test_more_replicas_than_devices_go_around_and_are_noted() -> None:
    found = planned("parallel(a x5) on gpus=2")
    assert places(found) == {"a": ["gpu:0", "gpu:1", "gpu:0", "gpu:1", "gpu:0"]}
    assert "`a` has 5 replicas and 2 devices: replicas that share a device save no time" in found.notes


def test_auto_is_one_replica_a_device() -> None:
    assert places(planned("parallel(a x auto, b) on gpus=3")) == {"a": ["gpu:0", "gpu:1", "gpu:2"], "b": ["gpu:0"]}


def test_pins_are_kept_and_count_as_load() -> None:
    found = planned("parallel(a, b, p at=gpu:0, q x2 at=[gpu:2, gpu:0]) on gpus=3")
    assert places(found) == {"p": ["gpu:0"], "q": ["gpu:2", "gpu:0"], "a": ["gpu:1"], "b": ["gpu:1"]}
    assert [placed.reason for placed in found.members][2:] == ["pinned by `at=`"] * 2


def test_one_pin_holds_all_replicas() -> None:
    assert places(planned("parallel(a x3 at=gpu:1) on gpus=2")) == {"a": ["gpu:1"] * 3}


def test_a_slice_counts_for_its_rows() -> None:
    """Two halves of `a` weigh as much as `b` each, so `c` goes where `b` is not."""
    catalog = {"a": signature(100), "b": signature(60), "c": signature(5)}
    found = planned("parallel(a x2, b, c) on gpus=3", catalog)
    assert places(found) == {"b": ["gpu:0"], "a": ["gpu:1", "gpu:2"], "c": ["gpu:1"]}


def test_unknown_sizes_count_as_equal_and_are_noted() -> None:
    found = planned("parallel(a, b, c, d) on gpus=2", {"a": signature(90), "b": None, "c": signature(10)})
    assert places(found) == {"a": ["gpu:0"], "b": ["gpu:1"], "d": ["gpu:1"], "c": ["gpu:0"]}
    assert found.notes == ("FLOPs unknown, counted as the mean of the others: `b`, `d`",)


def test_listed_devices_are_the_only_ones() -> None:
    found = planned("parallel(a, b, c) on gpus=[3, 1] merge=gpu")
    assert places(found) == {"a": ["gpu:3"], "b": ["gpu:1"], "c": ["gpu:3"]}
    assert found.members[0].merge == Device("gpu", 3)


@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(1, 1000) | st.none()), min_size=1, max_size=12), st.integers(1, 5)
)
def test_replicas_are_spread_and_the_plan_is_repeatable(members: list[tuple[int, int | None]], devices: int) -> None:
    text = f"parallel({', '.join(f'm{i} x{count}' for i, (count, _) in enumerate(members))}) on gpus={devices}"
    catalog = {f"m{i}": signature(flops) for i, (_, flops) in enumerate(members)}
    found = planned(text, catalog)
    assert str(found) == str(planned(text, catalog))
    for placed, (count, _) in zip(found.members, members, strict=True):
        assert len(placed.devices) == count
        assert len(set(placed.devices)) == min(count, devices)
    known = [load.flops_per_step for load in found.loads if load.flops_per_step is not None]
    if len(known) == devices:  # no device is loaded more than the least loaded one and the largest replica
        largest = max(3 * (flops or 0) * slice_rows(32, count)[0] for count, flops in members)
        assert max(known) - min(known) <= largest * max(count for count, _ in members)


@given(st.integers(0, 500), st.integers(1, 40))
def test_slices_share_the_rows_larger_first(rows: int, parts: int) -> None:
    sizes = slice_rows(rows, parts)
    assert sum(sizes) == rows
    assert max(sizes) - min(sizes) <= 1
    assert list(sizes) == sorted(sizes, reverse=True)


# Merge and weights -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "merge"),
    [
        ("on gpus=2", "cpu:0"),
        ("on gpus=2 merge=cpu", "cpu:0"),
        ("on gpus=2 merge=gpu", "gpu:0"),
        ("on gpus=2 merge=gpu:1", "gpu:1"),
        ("on cpus=2", "cpu:0"),
        ("on cpus=2 merge=cpu:1", "cpu:1"),
    ],
)
def test_where_outputs_are_joined(options: str, merge: str) -> None:
    assert str(planned(f"parallel(a x2) {options}").members[0].merge) == merge


@pytest.mark.parametrize(
    ("weights", "homes"),
    [
        ("keep", ["gpu:0", None, "gpu:0", "gpu:1"]),
        ("cpu", ["cpu:0"] * 4),
        ("gpu", ["gpu:0"] * 4),
        ("spread", ["gpu:0", "gpu:1", "gpu:0", "gpu:1"]),
    ],
)
def test_where_weights_live(weights: str, homes: list[str | None]) -> None:
    """Of `keep`, a named model is loaded and a copy is made where it runs; a passed model stays as it is."""
    text = f'model named = "named.keras"\nparallel(named, passed, n copies=2) on gpus=2 weights={weights}'
    composition_catalog = {"passed": None, "n": None}
    source_plan = _planned_with(text, composition_catalog)
    assert [None if p.weights is None else str(p.weights) for p in source_plan.members] == homes


def _planned_with(text: str, catalog: dict[str, ModelSignature | None]):  # type: ignore[no-untyped-def]
    from composer.compiler.planner import plan

    composition = resolved(text, catalog)
    return plan(composition, topology_for(composition), catalog)


def test_members_that_share_weights_have_one_home() -> None:
    found = planned("parallel(m as day, m as night) on gpus=2 weights=spread", {"m": signature(10, 1000)})
    assert places(found) == {"day": ["gpu:0"], "night": ["gpu:1"]}
    assert {str(placed.weights) for placed in found.members} == {"gpu:0"}
    assert [load.parameters for load in found.loads] == [1000, 0]


def test_gpu_options_need_gpus() -> None:
    assert (
        refusal("parallel(a x2) on cpus=2 merge=gpu weights=gpu", {}, "the composition runs on CPUs") == ["MG307"] * 2
    )
    composition = resolved("parallel(a) on auto merge=gpu")
    from composer.compiler.planner import plan

    with pytest.raises(DeviceError, match="`merge=gpu` names gpu:0; this machine has no GPU") as caught:
        plan(composition, DeviceTopology())
    assert [fault.code for fault in caught.value.diagnostics] == ["MG402"]


# Devices -----------------------------------------------------------------------------------------------------------


def test_auto_takes_gpus_where_there_are_any_else_cpus() -> None:
    for on in ("", "on auto"):
        text = f"parallel(a, b) {on}"
        assert places(planned(text, topology=DeviceTopology(cpus=4, gpus=2))) == {"a": ["gpu:0"], "b": ["gpu:1"]}
        assert places(planned(text, topology=DeviceTopology(cpus=2))) == {"a": ["cpu:0"], "b": ["cpu:1"]}
        assert places(planned(text)) == {"a": ["cpu:0"], "b": ["cpu:0"]}


@pytest.mark.parametrize(
    ("on", "topology", "message"),
    [
        (
            "gpus=16",
            DeviceTopology(1, 4),
            r"`on gpus=16` asks for 16 GPUs; this machine has 4 \(gpu:0, gpu:1, gpu:2, gpu:3\)",
        ),
        ("gpus=1", DeviceTopology(), r"`on gpus=1` asks for 1 GPU; this machine has no GPU \(only cpu:0\)"),
        ("gpus=[0, 7, 9]", DeviceTopology(1, 8), r"`on gpus=\[0, 7, 9\]` asks for gpu:9; this machine has 8"),
        ("cpus=3", DeviceTopology(2), r"`on cpus=3` asks for 3 CPUs; this machine has 2 \(cpu:0, cpu:1\)"),
        ("gpus=5", DeviceTopology(4, 4, True), r"gpu:3, stood in for by CPU devices\)"),
    ],
)
def test_missing_devices_are_an_error_that_lists_what_is_there(on: str, topology: DeviceTopology, message: str) -> None:
    with pytest.raises(DeviceError, match=message) as caught:
        planned(f"parallel(a) on {on}", topology=topology)
    (fault,) = caught.value.diagnostics
    assert fault.code == "MG401"
    assert fault.span is not None
    wanted = {"gpus=16": 16, "gpus=1": 1, "gpus=[0, 7, 9]": 10, "cpus=3": 3, "gpus=5": 5}[on]
    assert f"`--simulate {wanted}`" in str(caught.value)
    assert f"`composer.simulate({wanted})`" in str(caught.value)


def test_pins_and_merges_on_absent_devices_come_together() -> None:
    with pytest.raises(DeviceError, match="gpu:1, gpu:2") as caught:
        planned("parallel(a at=gpu:5, b x2 at=[gpu:1, gpu:3]) merge=gpu:4", topology=DeviceTopology(1, 3))
    assert [fault.code for fault in caught.value.diagnostics] == ["MG402"] * 3


@pytest.mark.parametrize(
    ("text", "topology"),
    [
        ("parallel(a)", DeviceTopology(1, 0)),
        ("parallel(a) on gpus=4", DeviceTopology(1, 4)),
        ("parallel(a) on gpus=[2, 5]", DeviceTopology(1, 6)),
        ("parallel(a) on cpus=3", DeviceTopology(3, 0)),
        ("parallel(a at=gpu:2) merge=gpu:3", DeviceTopology(1, 4)),
        ("parallel(a x2) merge=gpu", DeviceTopology(1, 1)),
        ("parallel(a x2) weights=gpu", DeviceTopology(1, 1)),
    ],
)
def test_the_topology_of_a_spec_is_what_it_asks_for(text: str, topology: DeviceTopology) -> None:
    assert topology_for(resolved(text)) == topology
    planned(text)


def test_the_topology_of_auto_is_the_callers() -> None:
    machine = DeviceTopology(2, 3, simulated=True)
    assert topology_for(resolved("parallel(a)"), machine) == machine
    assert topology_for(resolved("parallel(a) on gpus=8"), machine) == DeviceTopology(2, 8, simulated=True)


# Estimates ---------------------------------------------------------------------------------------------------------


def test_loads_add_up_what_lives_and_what_runs_on_a_device() -> None:
    catalog = {"a": signature(1000, 500, 64), "b": signature(10, 20, 8)}
    text = """
    train a optimizer=adam batch=10
    train b optimizer=sgd batch=5
    parallel(a x4, b) on gpus=4 weights=gpu
    """
    first, second, third, fourth = planned(text, catalog).loads
    # `a`: 3, 3, 2, 2 of 10 rows; `b` goes where the least is to be done
    assert (first.device, first.replicas) == (Device("gpu", 0), ("a[0]", "b"))
    assert first.flops_per_step == 3 * (3 * 1000 + 5 * 10)
    assert (first.parameters, first.weight_bytes, first.slot_bytes) == (520, 2080, 2 * 4 * 500)
    assert first.activation_bytes == 3 * 64 + 5 * 8
    assert (second.replicas, second.flops_per_step, second.parameters) == (("a[1]",), 3 * 3000, 0)
    assert (third.replicas, third.flops_per_step, third.activation_bytes) == (("a[2]",), 3 * 2000, 2 * 64)
    assert fourth.replicas == ("a[3]",)


def test_weights_on_the_host_are_its_load() -> None:
    host = planned("parallel(a x2) on gpus=2 weights=cpu", {"a": signature(10, 20)}).loads[-1]
    assert (host.device, host.replicas, host.parameters, host.weight_bytes) == (Device("cpu", 0), (), 20, 80)
    assert host.slot_bytes is None, "an optimizer that nobody named keeps nobody knows how much"


def test_the_batch_counts_flat_rows() -> None:
    grouped = planned("parallel(a group=10)", {"a": signature(7)}).loads[0]
    assert grouped.flops_per_step == 3 * 7 * 320
    told = planned("train a batch=40\nparallel(a group=10)", {"a": signature(7)}).loads[0]
    assert told.flops_per_step == 3 * 7 * 40


def test_copies_have_weights_of_their_own() -> None:
    assert planned("parallel(a copies=3)", {"a": signature(1, 100)}).loads[0].parameters == 300


def test_one_unknown_size_makes_a_sum_unknown() -> None:
    load = planned("parallel(a, b)", {"a": signature(1, 100, 3), "b": signature(2)}).loads[0]
    assert (load.parameters, load.weight_bytes, load.activation_bytes) == (None, None, None)
    assert load.flops_per_step == 3 * 32 * 3


# Signatures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("branch", ["m x2", "m group=4", "m x auto"])
@pytest.mark.parametrize(
    ("traits", "code", "match"),
    [
        ({"fixed_batch": 8}, "MG301", "model `m` has a fixed batch size of 8"),
        ({"stateful_layers": ("memory",)}, "MG302", "layer `memory` of model `m` carries state"),
        ({"rank0_outputs": ("mean",)}, "MG304", "output `mean` of model `m` has no batch axis"),
    ],
)
def test_what_cannot_be_cut_is_refused_and_named(branch: str, traits: dict[str, object], code: str, match: str) -> None:
    assert refusal(f"parallel({branch}) on gpus=2", {"m": signature(**traits)}, match) == [code]  # type: ignore[arg-type]


def test_what_cannot_be_cut_runs_whole() -> None:
    traits = {"fixed_batch": 8, "stateful_layers": ("s",), "rank0_outputs": ("o",), "row_losses": ("r",)}
    catalog = {"m": signature(**traits)}  # type: ignore[arg-type]
    for branch in ("m", "m group=1", "m copies=2", "m x auto at=gpu:0", "m x1"):
        planned(f"train m batch=8\nparallel({branch}) on gpus=2", catalog)
    planned("parallel(m x auto) on gpus=1", catalog)


def test_losses_a_call_forbid_replicas_but_not_groups() -> None:
    catalog = {"m": signature(row_losses=("a", "b"))}
    assert refusal("parallel(m x2) on gpus=2", catalog, "layers `a`, `b` of model `m` add a loss") == ["MG303"]
    planned("parallel(m group=4)", catalog)


def test_a_fixed_batch_is_the_batch() -> None:
    assert refusal("train m batch=16\nparallel(m)", {"m": signature(fixed_batch=8)}, "cannot take `batch=16`") == [
        "MG301"
    ]


def test_a_model_that_only_predicts_takes_no_training_settings() -> None:
    catalog = {"m": signature(trainable=False)}
    assert refusal("train m loss=mse\nparallel(m)", catalog, "model `m` can only predict") == ["MG305"]
    planned("parallel(m x2) on gpus=2", catalog)


def test_batch_statistics_are_warned_of_where_replicas_see_only_a_part() -> None:
    catalog = {"m": signature(coupled_layers=("bn",))}
    (warning,) = planned("parallel(m x2) on gpus=2", catalog).warnings
    assert (warning.code, warning.severity) == ("MG320", "warning")
    assert "layer `bn` of model `m`" in warning.message
    assert planned("parallel(m, m as n) on gpus=2", catalog).warnings == ()


def test_members_that_share_weights_agree_on_the_optimizer() -> None:
    text = "train {} optimizer={}\ntrain night optimizer=adam\nparallel(m as day, m as night, m copies=2)"
    assert refusal(text.format("day", "sgd"), {}, "`day` and `night` share the weights") == ["MG306"]
    planned(text.format("day", "adam"))
    planned(text.format("m", "sgd"))


@pytest.mark.parametrize(
    ("said", "told", "mend"),
    [
        (
            "loss={yy: mse}",
            "for the output `yy`, which the model has not; its outputs are `y`",
            "did you mean `y`?",
        ),
        ("metrics={prize: mae}", "given for the output `prize`, which the model has not; its outputs are `y`", ""),
        (
            "loss=[mse, mae]",
            "is a list of 2, but the model has 1 output(s): `y`",
            "give one for each in that",
        ),
    ],
)
def test_losses_are_for_outputs_that_are_there(said: str, told: str, mend: str) -> None:
    text = f"train m optimizer=adam {said}\nparallel(m)"
    with pytest.raises(SpecError) as raised:
        planned(text, {"m": signature()})
    (fault,) = raised.value.diagnostics
    assert (fault.code, told in fault.message) == ("MG217", True)
    assert fault.span is not None
    assert text[fault.span.start : fault.span.end] == said.partition("=")[2]
    assert "".join(fault.help).startswith(mend)
    planned(f"train m optimizer=adam {said}\nparallel(m)", {})  # of a model that is not known


def test_members_that_are_trained_on_one_model_are_warned_of() -> None:
    text = "train {} optimizer=adam loss=mse\nparallel(m as day, m as night, m copies=2)"
    (warning,) = planned(text.format("*")).warnings
    assert (warning.code, warning.severity) == ("MG321", "warning")
    assert warning.message == "`day` and `night` are one model: neither trains as it would alone"
    assert warning.help == (
        "to train each as if it were alone, give `night` a model of its own: a second statement `model night = ...`, "
        "and `night` in the composition",
    )
    assert planned(text.format("day")).warnings == ()
    assert planned("parallel(m as day, m as night)").warnings == ()
    assert planned(text.format("*"), {"m": signature(parameters=0)}).warnings == ()


def test_faults_of_a_plan_come_together() -> None:
    catalog = {"a": signature(fixed_batch=4), "b": signature(row_losses=("r",))}
    assert refusal("parallel(a x2, b x2) on cpus=2 merge=gpu", catalog, "MG301") == ["MG301", "MG303", "MG307"]
