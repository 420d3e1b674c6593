"""`nodes.Spec` + catalog -> `ir.Composition`: names looked up, copies expanded, options judged, seeds derived.

All faults (MG2xx) are reported together. Nothing is placed, nothing is imported or run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from composer.catalog import ModelCatalog
from composer.compiler import ir, training
from composer.compiler.branches import Branch, expand, report_unknown_models
from composer.compiler.faults import Faults
from composer.compiler.options import CompositionOptions, DataOptions, Read, read_options
from composer.compiler.pins import device_request, report_outside, resolve_pins
from composer.compiler.statements import Statements, choose, collect
from composer.compiler.training import Place, Training, read_training
from composer.compiler.verify import verify_composition
from composer.diagnostics import Diagnostic, quoted_list
from composer.language import nodes
from composer.source import SourceText


def resolve(
    spec: nodes.Spec, source: SourceText, catalog: ModelCatalog | None = None, graph: str | None = None
) -> ir.Composition:
    """Resolves the names of a spec and judges its options.

    Args:
        spec: the syntax tree.
        source: the text it came from, for the places of diagnostics.
        catalog: the models the caller passes by name, besides those the spec declares. Without it, and without a
            `model` statement, every name is free: each is a model that will be passed later.
        graph: the composition to take, by its `let` name; the unnamed one where None.

    Returns:
        The composition, all members expanded, with the warnings found.

    Raises:
        SpecError: the spec has faults; `diagnostics` holds all of them.

    Example:
        >>> from composer.language import nodes
        >>> branches = (nodes.Branch(nodes.Name("a")), nodes.Branch(nodes.Name("b"), nodes.Replicas(2)))
        >>> spec = nodes.Spec((nodes.Parallel(branches),))
        >>> [(m.name, m.replicas) for m in resolve(spec, SourceText("parallel(a, b x2)")).members]
        [('a', 1), ('b', 2)]
    """
    faults = Faults(source)
    statements = collect(spec, source, faults)
    chosen = choose(statements, graph, faults)
    scopes = _open_scopes(statements, chosen, catalog, faults)
    settings = _read_statements(statements, faults)
    _report_unknown_members(statements, scopes, faults)
    scope = next((scope for scope in scopes if scope.parallel is chosen), None)
    composition = _build(scope, statements, settings, faults) if scope is not None else None
    faults.raise_errors()
    assert composition is not None  # a choice that fails is an error
    return verify_composition(composition)


def diagnose(
    spec: nodes.Spec, source: SourceText, catalog: ModelCatalog | None = None, graph: str | None = None
) -> tuple[Diagnostic, ...]:
    """All faults and warnings of a spec, those of every composition in it; an empty tuple for a clean one.

    A spec that holds several named compositions is fine here: none has to be picked.
    """
    faults = Faults(source)
    statements = collect(spec, source, faults)
    if graph is not None or not statements.compositions:
        choose(statements, graph, faults)
    scopes = _open_scopes(statements, None, catalog, faults)
    settings = _read_statements(statements, faults)
    _report_unknown_members(statements, scopes, faults)
    for scope in scopes:
        _build(scope, statements, settings, faults)
    return faults.all


@dataclass(frozen=True, slots=True)
class _Scope:
    """One composition of the spec with its branches and options judged."""

    name: str | None
    parallel: nodes.Parallel
    branches: tuple[Branch, ...]
    options: Read[CompositionOptions]
    devices: ir.DeviceRequest


@dataclass(frozen=True, slots=True)
class _Settings:
    """The `data` and `train` statements, judged, by name."""

    data: Mapping[str, ir.DataSource]
    train: Mapping[str, Training]
    default: Training | None


def _open_scopes(
    statements: Statements, chosen: nodes.Parallel | None, catalog: ModelCatalog | None, faults: Faults
) -> list[_Scope]:
    """Every composition of the spec.

    Models are looked up in those not chosen only where the spec declares its models: a caller passes what the chosen
    one needs.
    """
    known: Collection[str] | None = {**statements.models, **(catalog or {})}
    if catalog is None and not statements.models:
        known = None
    scopes, unknown = [], False
    for name, parallel in statements.compositions:
        branches = expand(parallel, faults)
        if known is not None and (statements.models or chosen is None or parallel is chosen):
            unknown |= report_unknown_models(branches, known, bool(statements.models), faults)
        options = read_options(CompositionOptions, parallel.options, faults)
        devices = device_request(parallel.devices, faults)
        report_outside(options, devices, faults)
        scopes.append(_Scope(name, parallel, branches, options, devices))
    if not unknown:  # else the unused model is most likely the one that was misspelt
        _warn_unused_models(statements, scopes, faults)
    return scopes


def _warn_unused_models(statements: Statements, scopes: Sequence[_Scope], faults: Faults) -> None:
    used = {branch.model for scope in scopes for branch in scope.branches}
    for name, model in statements.models.items():
        if scopes and name not in used:
            faults.warning("MG220", f"model `{name}` is not used", model.name.span, label="no composition names it")


def _read_statements(statements: Statements, faults: Faults) -> _Settings:
    return _Settings(
        {name: _read_data(data, faults) for name, data in statements.data.items()},
        {name: read_training(train, faults) for name, train in statements.train.items()},
        read_training(statements.default_train, faults) if statements.default_train is not None else None,
    )


def _read_data(statement: nodes.Data, faults: Faults) -> ir.DataSource:
    read = read_options(DataOptions, statement.options, faults)
    target, features = _columns(read.values.target), _columns(read.values.features)
    both = [name for name in features or () if name in (target or ())]
    option = read.written("features")
    if both and option is not None:
        faults.error(
            "MG216",
            f"`{both[0]}` of `data {statement.name.text}` is a target and a feature",
            option.value.span,
            label=f"`{both[0]}` is the target",
            help=("leave `features=` out to take all columns but the target",),
        )
    validation = read.written("validation")
    return ir.DataSource(
        statement.source,
        target,
        features,
        read.values.validation,
        read.values.shuffle,
        statement.span,
        validation.value.span if validation is not None else None,
    )


def _columns(value: str | tuple[str, ...] | None) -> tuple[str, ...] | None:
    return (str(value),) if isinstance(value, str) else value


def _report_unknown_members(statements: Statements, scopes: Sequence[_Scope], faults: Faults) -> None:
    """`data` and `train` name a branch or a member of some composition of the spec."""
    if not scopes:
        return
    names = {name: None for scope in scopes for branch in scope.branches for name in (branch.name, *branch.members)}
    aliases: dict[str, dict[str, None]] = {}
    for branch in (branch for scope in scopes for branch in scope.branches):
        aliases.setdefault(branch.model, {})[branch.name] = None
    found: list[tuple[str, nodes.Name]] = [("data", data.name) for data in statements.data.values()]
    found += [("train", train.name) for train in statements.train.values() if train.name is not None]
    misspelt = any(branch.model not in statements.models for scope in scopes for branch in scope.branches)
    for kind, name in found:
        if name.text in names:
            continue
        if name.text in aliases:
            called = list(aliases[name.text])
            noun = "its branch is" if len(called) == 1 else "its branches are"
            faults.error(
                "MG206",
                f"`{kind} {name.text}` names a model; {noun} called {quoted_list(called, 'and')}",
                name.span,
                label=f"called {quoted_list(called, 'and')} in the composition",
                help=(f"write `{kind} {called[0]}`",),
            )
        elif name.text in statements.models:
            if not misspelt:  # else this is most likely the model that a branch misspells
                faults.warning(
                    "MG221", f"`{kind} {name.text}` is not used", name.span, label="no composition names this model"
                )
        else:
            faults.error(
                "MG206",
                f"`{kind} {name.text}` belongs to no member",
                name.span,
                label="no branch or member has this name",
                help=(faults.near(name.text, names),),
            )


def _build(scope: _Scope, statements: Statements, settings: _Settings, faults: Faults) -> ir.Composition:
    members = tuple(member for branch in scope.branches for member in _members(branch, scope, settings, faults))
    used = dict.fromkeys(branch.model for branch in scope.branches)
    models = tuple((name, statements.models[name].source if name in statements.models else None) for name in used)
    options = scope.options.values
    spans = tuple((name, option.span) for name, option in scope.options.given.items())
    return ir.Composition(
        members,
        scope.devices,
        models,
        options.merge,
        options.weights,
        options.fuse,
        options.jit,
        scope.name,
        faults.warnings,
        spans,
    )


def _members(branch: Branch, scope: _Scope, settings: _Settings, faults: Faults) -> list[ir.Member]:
    replicas, pins = resolve_pins(branch, scope.devices, faults)
    options = branch.options.values
    _report_split_keys(branch, faults)
    members = []
    for index, name in enumerate(branch.members):
        place = Place(name, branch.name, index, branch.copies)
        own = (settings.train.get(name),) if name != branch.name else ()
        trainings = [t for t in (settings.default, settings.train.get(branch.name), *own) if t is not None]
        train = training.settings(trainings, place, faults) if trainings else _NO_SETTINGS
        _report_broken_groups(options.group, train, trainings, name, faults)
        members.append(
            ir.Member(
                name=name,
                model=branch.model,
                branch=branch.name,
                copy_index=index if branch.copies is not None else None,
                replicas=replicas,
                group=options.group,
                per=None if options.per is None else str(options.per),
                at=pins,
                seed=training.seed(trainings, place, faults),
                train=train,
                data=settings.data.get(name) or settings.data.get(branch.name),
                span=branch.node.span,
            )
        )
    return members


def _report_split_keys(branch: Branch, faults: Faults) -> None:
    """A model for each key goes with none of the other ways to make several of one."""
    per = branch.options.written("per")
    if per is None:
        return
    others = [f"`{name}=`" for name in ("copies", "group") if branch.options.written(name) is not None]
    others += ["replicas"] if branch.node.replicas is not None and branch.node.replicas.count != 1 else []
    if others:
        faults.error(
            "MG216",
            f"`per=` of `{branch.name}` does not go with {others[0]}",
            per.span,
            label="one model for each key",
            help=(f"leave {others[0]} out: all keys of `{branch.name}` are one batched program on one device",),
        )


_NO_SETTINGS = ir.TrainSettings()


def _report_broken_groups(
    group: int | str | None, train: ir.TrainSettings, trainings: Sequence[Training], name: str, faults: Faults
) -> None:
    """A batch counts flat rows, so it holds whole groups."""
    if isinstance(group, int) and train.batch is not None and train.batch % group:
        span = next(t.spans["batch"] for t in reversed(trainings) if "batch" in t.spans)
        below = train.batch - train.batch % group
        nearest = " or ".join(f"`batch={size}`" for size in (below, below + group) if size)
        faults.error(
            "MG216",
            f"`batch={train.batch}` of `{name}` does not hold whole groups of {group} rows",
            span,
            label=f"not a multiple of {group}",
            help=(f"a batch counts flat rows: {nearest}",),
        )
