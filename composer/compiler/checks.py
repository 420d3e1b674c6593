"""What a model's signature forbids: the same judgement for models read from files and for those passed in Python."""

from __future__ import annotations

from composer.catalog import ModelSignature
from composer.compiler.faults import Faults
from composer.compiler.ir import Map, Member, TrainSettings, Value
from composer.diagnostics import did_you_mean


def check_signature(member: Member, num_replicas: int, signature: ModelSignature, faults: Faults) -> None:
    """Reports replicas, groups and training settings that a member's model cannot take (MG217, MG301-MG305, MG320).

    Args:
        member: the member.
        num_replicas: how many replicas it gets, `x auto` counted out.
        signature: what is known of its model.
        faults: takes the errors, and warnings where results differ from the model alone.
    """
    split = f"x{num_replicas}" if num_replicas > 1 else ""
    grouped = f"group={member.group}" if member.group not in (None, 1) else ""
    asked = " and ".join(f"`{text}`" for text in (split, grouped) if text)
    if signature.fixed_batch is not None:
        _check_fixed_batch(member, signature.fixed_batch, asked, faults)
    if asked:
        _check_state(member, signature, asked, faults)
    if split:
        _check_split(member, signature, split, faults)
    _check_outputs(member, [tensor.name for tensor in signature.outputs], faults)
    if not signature.trainable and is_trained(member):
        faults.error(
            "MG305",
            f"`{member.name}` has training settings, but model `{member.model}` can only predict",
            member.span,
            label="a SavedModel folder cannot be trained",
            help=("remove its `train` statement, or give the model's `.keras` file",),
        )


_UNTRAINED = TrainSettings()


def is_trained(member: Member) -> bool:
    """Whether a spec says how a member is trained."""
    return member.train != _UNTRAINED


def train_together(one: Member, other: Member, signature: ModelSignature | None) -> bool:
    """Whether a spec trains two members that are one model.

    Args:
        one, other: the members.
        signature: what is known of the model of the first.
    """
    fixed = signature is not None and signature.trainable_parameters == 0
    shared = one.model == other.model and one.copy_index is None and other.copy_index is None
    return shared and not fixed and is_trained(one) and is_trained(other)


def weights_of_its_own(member: Member) -> str:
    """How a member that shares a model with another gets weights of its own and keeps its name."""
    name = member.name
    return f"give `{name}` a model of its own: a second statement `model {name} = ...`, and `{name}` in the composition"


def _check_outputs(member: Member, outputs: list[str], faults: Faults) -> None:
    spans = dict(member.train.spans)
    for option, value in (("loss", member.train.loss), ("metrics", member.train.metrics)):
        fault = outputs_fault(member.name, option, value, outputs)
        if fault is not None:
            message, label, help = fault
            faults.error("MG217", message, spans.get(option, member.span), label=label, help=(help,))


def outputs_fault(member: str, option: str, value: Value, outputs: list[str]) -> tuple[str, str, str] | None:
    """What is wrong with the outputs that losses or metrics are given for: a message, a label and the mend.

    Args:
        member: its name.
        option: `loss` or `metrics`.
        value: what it is given.
        outputs: the names of its model's outputs; empty where they are not known.
    """
    listed = ", ".join(f"`{name}`" for name in outputs)
    if outputs and isinstance(value, Map):
        for name, _ in value.items:
            if name not in outputs:
                told = f"`{option}` of `{member}` is given for the output `{name}`, which the model has not"
                near = next(iter(did_you_mean(str(name), outputs)), "")
                return f"{told}; its outputs are {listed}", "no such output", near
    counts = option == "loss" or len(outputs) > 1
    if outputs and isinstance(value, tuple) and len(value) != len(outputs) and counts:
        return (
            f"`{option}` of `{member}` is a list of {len(value)}, but the model has {len(outputs)} output(s): {listed}",
            f"expected {len(outputs)}",
            f"give one for each in that order, or a map by output name, as in `{option}={{{outputs[0]}: ...}}`",
        )
    return None


def _check_fixed_batch(member: Member, fixed: int, asked: str, faults: Faults) -> None:
    batch = member.train.batch
    if asked:
        problem = f"cannot take {asked}"
    elif batch is not None and batch != fixed:
        problem = f"cannot take `batch={batch}`"
    else:
        return
    faults.error(
        "MG301",
        f"`{member.name}` {problem}: model `{member.model}` has a fixed batch size of {fixed}",
        member.span,
        label=f"takes {fixed} rows a step, no more and no fewer",
        help=("build the model with an open batch axis (no `batch_size=` or `batch_shape=`)",),
    )


def _check_state(member: Member, signature: ModelSignature, asked: str, faults: Faults) -> None:
    if signature.stateful_layers:
        faults.error(
            "MG302",
            f"`{member.name}` cannot take {asked}: {_layers(signature.stateful_layers)} of model `{member.model}` "
            f"{_carry(signature.stateful_layers)} state from batch to batch",
            member.span,
            label="stateful",
            help=("run it as one replica without `group=`",),
        )
    if signature.rank0_outputs:
        outputs = ", ".join(f"`{name}`" for name in signature.rank0_outputs)
        faults.error(
            "MG304",
            f"`{member.name}` cannot take {asked}: output {outputs} of model `{member.model}` has no batch axis",
            member.span,
            label="nothing to join row by row",
            help=("run it as one replica without `group=`",),
        )


def _check_split(member: Member, signature: ModelSignature, split: str, faults: Faults) -> None:
    if signature.row_losses:
        layers = signature.row_losses
        adds = "adds a loss" if len(layers) == 1 else "add a loss"
        faults.error(
            "MG303",
            f"`{member.name}` cannot take `{split}`: {_layers(layers)} of model `{member.model}` {adds} at every call, "
            "which replicas would count several times",
            member.span,
            label="a loss a call",
            help=("run it as one replica",),
        )
    if signature.coupled_layers:
        layers = signature.coupled_layers
        take = "takes" if len(layers) == 1 else "take"
        faults.warning(
            "MG320",
            f"replicas of `{member.name}` do not train exactly like the model alone: {_layers(layers)} of model "
            f"`{member.model}` {take} statistics over the rows of one replica",
            member.span,
            label="batch statistics are per replica",
            help=("predictions are not affected; for training alike, run it as one replica",),
        )


def _layers(names: tuple[str, ...]) -> str:
    shown = [f"`{name}`" for name in names[:3]] + (["..."] if len(names) > 3 else [])
    return f"layer {shown[0]}" if len(names) == 1 else f"layers {', '.join(shown)}"


def _carry(names: tuple[str, ...]) -> str:
    return "carries" if len(names) == 1 else "carry"
