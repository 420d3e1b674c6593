"""A composition or a plan that breaks an invariant is a bug of composer's own, and is called one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from composer.compiler import ir
from composer.compiler.ir import Composition, Device
from composer.compiler.plan import Plan
from composer.compiler.verify import verify_composition, verify_plan
from composer.errors import ComposerError, InternalError
from tests.compiler.specs import planned, resolved

TEXT = "parallel(a x2, m copies=2, m as n at=gpu:1) on gpus=2 weights=spread"


def first(composition: Composition, **changes: object) -> Composition:
    head, *rest = composition.members
    return replace(composition, members=(replace(head, **changes), *rest))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "invariant"),
    [
        (lambda c: replace(c, members=()), "a composition has members"),
        (lambda c: replace(c, members=c.members + c.members[:1]), "member names are distinct"),
        (lambda c: replace(c, models=c.models + c.models[:1]), "models are listed once"),
        (lambda c: replace(c, models=c.models[:1]), "`models` holds what the members use"),
        (lambda c: replace(c, devices=ir.DeviceRequest("gpu")), "only `auto` lists no devices"),
        (lambda c: replace(c, devices=ir.DeviceRequest("gpu", (0, 0))), "devices are distinct"),
        (lambda c: replace(c, members=c.members[:1] + c.members[2:]), "`m_1` follows the copy before"),
        (lambda c: first(c, branch="m"), "`m_0` follows the copy before"),
        (lambda c: first(c, replicas=0), "`a` has a replica"),
        (lambda c: first(c, group=0), "a group of `a` has a row"),
        (lambda c: first(c, at=(Device("gpu", 0),) * 3), "pins of `a` are none, one, or one a replica"),
        (lambda c: first(c, seed=-1), "the seed of `a` fits 31 bits"),
    ],
)
def test_a_broken_composition_is_a_bug(change: Callable[[Composition], Composition], invariant: str) -> None:
    composition = resolved(TEXT)
    assert verify_composition(composition) is composition
    with pytest.raises(InternalError, match=invariant):
        verify_composition(change(composition))


def member(plan: Plan, index: int, **changes: object) -> Plan:
    members = list(plan.members)
    members[index] = replace(members[index], **changes)  # type: ignore[arg-type]
    return replace(plan, members=tuple(members))


ZERO, ONE = Device("gpu", 0), Device("gpu", 1)


@pytest.mark.parametrize(
    ("change", "invariant"),
    [
        (lambda p: replace(p, members=p.members[::-1]), "every member is planned, in order"),
        (lambda p: member(p, 0, devices=(ZERO,)), "`a` is placed"),
        (lambda p: member(p, 0, devices=(ZERO, Device("gpu", 2))), "devices of `a` exist"),
        (lambda p: member(p, 0, merge=Device("cpu", 1)), "devices of `a` exist"),
        (lambda p: member(p, 0, weights=Device("gpu", 9)), "devices of `a` exist"),
        (lambda p: member(p, 0, devices=(ZERO, ZERO)), "replicas of `a` are apart"),
        (lambda p: member(p, 3, devices=(ZERO,)), "pins of `n` are kept"),
        (lambda p: replace(p, loads=p.loads[:1]), "loads name each replica once"),
    ],
)
def test_a_broken_plan_is_a_bug(change: Callable[[Plan], Plan], invariant: str) -> None:
    plan = planned(TEXT)
    assert verify_plan(plan) is plan
    with pytest.raises(InternalError, match=invariant):
        verify_plan(change(plan))


def test_weights_that_are_shared_have_one_home() -> None:
    plan = planned("parallel(m as day, m as night) on gpus=2 weights=spread")
    with pytest.raises(InternalError, match="`night` shares the home of its weights"):
        verify_plan(member(plan, 1, weights=ONE))


def test_a_bug_is_no_fault_of_the_caller() -> None:
    assert not issubclass(InternalError, ComposerError)
