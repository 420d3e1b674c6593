"""What a spec must say before it can be trained, told from the plan alone: no framework is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from composer.catalog_files import fault_of_file, is_compiled
from composer.compiler import ir
from composer.compiler.faults import Faults
from composer.compiler.named_files import branches_without_data, report_missing_files
from composer.compiler.plan import Plan
from composer.diagnostics import near_files, quoted_list, render_text
from composer.errors import DataError, GraphError
from composer.language import nodes
from composer.source import SourceText, located

MODEL_SUFFIXES = (".keras", ".h5", ".hdf5")


def check_has_models(plan: Plan) -> None:
    """Refuse a plan with models that only Python could pass.

    Raises:
        GraphError: it names them and the statements to add.
    """
    missing = [name for name, source in plan.composition.models if source is None]
    if missing:
        raise GraphError(
            f"no model for {quoted_list(missing[:8], 'and')}{_more(missing[8:])}. Add to the spec:\n"
            + "\n".join(f'    model {name} = "{name}.keras"' for name in missing[:8])
        )


def check_has_data(plan: Plan, source: SourceText) -> None:
    """Refuse a plan with members that have no rows to train on.

    Raises:
        DataError: with a diagnostic for each branch, which names the statement to add.
    """
    faults = Faults(source)
    for branch, members in branches_without_data(plan.composition).items():
        names = [member.name for member in members]
        faults.error(
            "MG501",
            f"no data for {quoted_list(names[:8], 'and')}{_more(names[8:])}, and `fit` trains all members",
            members[0].span,
            help=(f'add to the spec: data {branch} = "{branch}.npz"',),
        )
    if errors := faults.errors:
        raise DataError(render_text(errors), errors, code="MG501")


def check_has_files(plan: Plan, source: SourceText, *, data: bool = True) -> None:
    """Refuse a plan with models or rows whose files are not there.

    Args:
        plan: of the spec.
        source: the spec.
        data: whether its rows are needed.

    Raises:
        SpecError: with a diagnostic for each file.
    """
    faults = Faults(source)
    report_missing_files(plan.composition, source.folder, faults, data=data)
    faults.raise_errors()


def check_models(plan: Plan, source: SourceText, *, allow_python: bool) -> None:
    """Refuse a plan with files that are no models, and with factories of models that may not run.

    Args:
        plan: of the spec.
        source: the spec.
        allow_python: whether factories may run.

    Raises:
        GraphError: with a diagnostic for each.
    """
    faults = Faults(source)
    for name, named in plan.composition.models:
        if isinstance(named, nodes.FactorySource) and not allow_python:
            faults.error(
                "MG405",
                f"the model `{name}` cannot be made: the source `{named.module}:{named.function}` runs Python code, "
                "and that is not allowed",
                named.span,
                help=("if you trust this spec, allow it with `--allow-python`",),
            )
        elif isinstance(named, nodes.PathSource):
            path = located(source.folder, named.path)
            if path.exists() and path.suffix.lower() in MODEL_SUFFIXES and (fault := fault_of_file(path)):
                told = f"the file of the model `{name}` cannot be read: {path}: {fault}"
                faults.error("MG404", told, named.span, help=("save the model again",))
    if errors := faults.errors:
        raise GraphError(render_text(errors), errors)


def check_data_factories(plan: Plan, source: SourceText, *, allow_python: bool) -> None:
    """Refuse a plan with factories of rows that may not run.

    Raises:
        DataError: with a diagnostic for each.
    """
    faults = Faults(source)
    for member in plan.composition.members:
        named = member.data.source if member.data is not None else None
        if isinstance(named, nodes.FactorySource) and not allow_python:
            faults.error(
                "MG513",
                f"the data of `{member.branch}` cannot be used: the source `{named.module}:{named.function}` runs "
                "Python code, and that is not allowed",
                named.span,
                help=("if you trust this spec, allow it with `--allow-python`",),
            )
    if errors := faults.errors:
        raise DataError(render_text(errors), errors, code="MG513")


def check_has_optimizers(plan: Plan, source: SourceText) -> None:
    """Refuse a plan with members whose file was not compiled and whose `train` statement gives no optimizer.

    Raises:
        GraphError: with a diagnostic for each branch.
    """
    files = {name: named.path for name, named in plan.composition.models if isinstance(named, nodes.PathSource)}
    faults = Faults(source)
    for member in plan.composition.members:
        path = files.get(member.model)
        if member.train.optimizer is None and path is not None and is_compiled(source.folder / path) is False:
            report_not_compiled(member, faults)
    if errors := faults.errors:
        raise GraphError(render_text(errors), errors)


def report_not_compiled(member: ir.Member, faults: Faults, lacks: str = "") -> None:
    """Reports a member without an optimizer, a loss or both (MG308).

    Args:
        member: which.
        faults: takes the error.
        lacks: what it lacks, `optimizer` or `loss`; if left out, what its `train` statement does not give.
    """
    train = member.train
    lacking = [lacks] if lacks else [key for key in ("optimizer", "loss") if getattr(train, key) is None]
    added = " ".join(_ADDED[key] for key in lacking)
    faults.error(
        "MG308",
        f"`{member.name}` has no {' and no '.join(lacking)}: its model was not compiled with one, and no `train` "
        "statement gives one",
        member.span,
        help=(f"add to the spec: train {member.branch} {added}",),
    )


_ADDED = {"optimizer": "optimizer=adam", "loss": "loss=mse"}


def check_given_files(files: Mapping[str, Path]) -> None:
    """Refuse files of rows that are not there.

    Args:
        files: by member or branch, as the command line names them.

    Raises:
        DataError: it names the first that is missing.
    """
    for name, path in files.items():
        if not path.exists():
            near = near_files(path)
            raise DataError(
                f"the data of `{name}` cannot be used: the file {path} is missing",
                code="MG502",
                member=name,
                mend=f"did you mean {quoted_list(near)}?" if near else "correct the path",
            )


def _more(rest: Sequence[str]) -> str:
    return f" and {len(rest)} more" if rest else ""
