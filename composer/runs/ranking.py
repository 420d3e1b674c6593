"""A sweep's members in order: which copy of a model came out best, and with what settings."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from composer.compiler import ir
from composer.runs.histories import Histories
from composer.runtime.history import best_epoch, in_order, more_is_better
from composer.runtime.members import Member


@dataclass(frozen=True)
class Ranked:
    """A member in its place.

    Args:
        member: its name.
        value: the best of its epochs; NaN where it has none.
        epoch: the one, from 1; 0 where there is none.
        settings: what sets it apart from the others, by the name of the argument.
    """

    member: str
    value: float
    epoch: int
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Ranking:
    """The members of one branch, best first.

    Args:
        branch: its name.
        metric: what they are ranked by.
        members: in order.
    """

    branch: str
    metric: str
    members: tuple[Ranked, ...]


def rankings(members: Mapping[str, Member], histories: Histories, metric: str | None = None) -> list[Ranking]:
    """The copies of each branch, ranked.

    Args:
        members: all members.
        histories: member -> metric -> one value an epoch.
        metric: what to rank by; `val_loss` where all copies of a branch log it, else `loss`. Whether more or less of it
            is better is told as Keras' callbacks tell it.

    Returns:
        A ranking for each branch with `copies=` whose members log the metric. NaN comes last.
    """
    branches: dict[str, list[Member]] = {}
    for member in members.values():
        if member.plan.member.copy_index is not None:
            branches.setdefault(member.plan.member.branch, []).append(member)
    found = []
    for branch, copies in branches.items():
        logged = [histories.get(member.name, {}) for member in copies]
        by = metric or ("val_loss" if all("val_loss" in history for history in logged) else "loss")
        if len(copies) > 1 and any(by in history for history in logged):
            found.append(Ranking(branch, by, _ranked(copies, logged, by)))
    return found


def _ranked(
    copies: Sequence[Member], logged: Sequence[Mapping[str, Sequence[float]]], metric: str
) -> tuple[Ranked, ...]:
    rising = more_is_better(metric, copies[0].trainer)
    settings = _settings_apart([member.plan.member for member in copies])
    ranked = [
        Ranked(member.name, *best_epoch(history.get(metric, ()), rising=rising), apart)
        for member, history, apart in zip(copies, logged, settings, strict=True)
    ]
    return tuple(sorted(ranked, key=lambda each: in_order(each.value, rising=rising)))


def _settings_apart(members: Sequence[ir.Member]) -> list[dict[str, Any]]:
    """By member, the arguments of the optimizer that are not the same for all; the seeds, where there are none."""
    optimizers = [{} if each.train.optimizer is None else dict(_flat(each.train.optimizer)) for each in members]
    names = [name for name in optimizers[0] if len({repr(each.get(name)) for each in optimizers}) > 1]
    if not names:
        return [{"seed": each.seed} for each in members]
    return [{name: each.get(name) for name in names} for each in optimizers]


def _flat(call: ir.Call, prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in call.arguments:
        found += _flat(value, f"{prefix}{name}.") if isinstance(value, ir.Call) else [(f"{prefix}{name}", value)]
    return found


def rankings_to_csv(ranked: Sequence[Ranking]) -> str:
    """One line a member: branch, rank (from 1), member, metric, value, epoch, and what sets it apart."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = list(dict.fromkeys(name for each in ranked for member in each.members for name in member.settings))
    writer.writerow(("branch", "rank", "member", "metric", "value", "epoch", *names))
    for each in ranked:
        for rank, member in enumerate(each.members, 1):
            settings = [member.settings.get(name, "") for name in names]
            writer.writerow(
                (each.branch, rank, member.member, each.metric, repr(member.value), member.epoch, *settings)
            )
    return out.getvalue()
