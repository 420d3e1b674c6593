"""What a spec must say before it can be trained, told from the plan alone: no framework is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from composer.compiler.faults import Faults
from composer.compiler.named_files import branches_without_data, report_missing_files
from composer.compiler.plan import Plan
from composer.diagnostics import near_files, quoted_list, render_text
from composer.errors import DataError, GraphError
from composer.source import SourceText


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
