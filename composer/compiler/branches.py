"""The branches of a composition -> their members' names: `copies=` expanded, aliases applied, collisions reported."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from composer.compiler.faults import Faults
from composer.compiler.options import MOST_COPIES, BranchOptions, Read, read_options
from composer.language import nodes


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch with its names.

    Args:
        node: the branch as written.
        name: what data and options of all its members may be given under: the alias, or the model's name.
        model: the model's name.
        members: the members' names, in order.
        options: the branch's own options.
    """

    node: nodes.Branch
    name: str
    model: str
    members: tuple[str, ...]
    options: Read[BranchOptions]

    @property
    def copies(self) -> int | None:
        """How many copies the branch has, or None where its one member uses the model itself."""
        return self.options.values.copies


def expand(parallel: nodes.Parallel, faults: Faults) -> tuple[Branch, ...]:
    """All branches with their members; reports names that are taken twice and replica counts below 1."""
    branches = tuple(_branch(node, faults) for node in parallel.branches)
    _report_collisions(branches, faults)
    if not branches:
        faults.error(
            "MG201",
            "a composition needs at least one model",
            parallel.span,
            label="no branch",
            help=("name one: `parallel(model_a)`",),
        )
    return branches


def report_unknown_models(branches: tuple[Branch, ...], known: Collection[str], declared: bool, faults: Faults) -> bool:
    """Reports branches whose model is not among `known`, and returns whether there are any.

    Args:
        branches: the branches of a composition.
        known: the names of all models.
        declared: whether the spec has `model` statements.
        faults: takes the faults.
    """
    unknown = [branch for branch in branches if branch.model not in known]
    for branch in unknown:
        faults.error(
            "MG203",
            f"unknown model `{branch.model}`",
            branch.node.model.span,
            label="no `model` statement has this name" if declared else "no model was passed under this name",
            help=(faults.near(branch.model, known),),
            notes=() if known else ("no models were passed",),
        )
    return bool(unknown)


def _branch(node: nodes.Branch, faults: Faults) -> Branch:
    options = read_options(BranchOptions, node.options, faults)
    name = node.alias.text if node.alias is not None else node.model.text
    copies = options.values.copies
    members = (name,) if copies is None else tuple(f"{name}_{index}" for index in range(copies))
    count = node.replicas.count if node.replicas is not None else None
    if node.replicas is not None and count is not None and not 1 <= count <= MOST_COPIES:
        faults.error(
            "MG208",
            f"a replica count cannot be {count}: expected an integer from 1 to {MOST_COPIES}, or `x auto`",
            node.replicas.span,
            label="expected 1 or more" if count < 1 else f"expected {MOST_COPIES} or less",
        )
    return Branch(node, name, node.model.text, members, options)


def _report_collisions(branches: tuple[Branch, ...], faults: Faults) -> None:
    taken: dict[str, Branch] = {}
    for branch in branches:
        for name in dict.fromkeys((branch.name, *branch.members)):
            other = taken.setdefault(name, branch)
            if other is not branch:
                _report_collision(name, branch, other, faults)
                break  # one fault a branch says it


def _report_collision(name: str, branch: Branch, other: Branch, faults: Faults) -> None:
    span = (branch.node.alias or branch.node.model).span
    if branch.model == other.model and branch.node.alias is None and other.node.alias is None:
        label = f"`{name}` is in this composition already"
        mend = [
            f"give it a name of its own, `{name} as {name}_b`, to make two members that share weights",
            f"or write `{name} copies=2` for two members with weights of their own",
        ]
    else:
        origin = f"a member of `{other.name} copies={other.copies}`" if other.copies is not None else "a branch before"
        label = f"`{name}` is the name of {origin}" if name in other.members or other.name == name else ""
        mend = [f"rename one of them: `{branch.model} as NAME`"]
    faults.error("MG205", f"two members would be called `{name}`", span, label=label, help=mend)
