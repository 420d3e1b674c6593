"""What a spec must say before it can be trained, told from the plan alone: no framework is needed."""

from __future__ import annotations

from collections.abc import Sequence

from composer.compiler.plan import Plan
from composer.diagnostics import quoted_list
from composer.errors import DataError, GraphError


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


def check_has_data(plan: Plan) -> None:
    """Refuse a plan with members that have no rows to train on.

    Raises:
        DataError: it names them and the statements to add.
    """
    missing = [placed.member for placed in plan.members if placed.member.data is None]
    if missing:
        names = [member.name for member in missing]
        branches = list(dict.fromkeys(member.branch for member in missing))[:8]
        raise DataError(
            f"no data for {quoted_list(names[:8], 'and')}{_more(names[8:])}, and `fit` trains all members. "
            f"Add to the spec:\n" + "\n".join(f'    data {branch} = "{branch}.npz"' for branch in branches)
        )


def _more(rest: Sequence[str]) -> str:
    return f" and {len(rest)} more" if rest else ""
