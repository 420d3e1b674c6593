"""The statements of a spec, sorted by kind and name; what is declared twice is reported."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from composer.compiler.faults import Faults
from composer.diagnostics import quoted_list
from composer.language import nodes
from composer.source import SourceText

StatementT = TypeVar("StatementT", nodes.Model, nodes.Data, nodes.Train, nodes.Let)


@dataclass(frozen=True, slots=True)
class Statements:
    """A spec by kind of statement. Of what was declared twice, the first is kept.

    Args:
        models, data, train: by name.
        default_train: `train *`, if any.
        compositions: name (None for the unnamed) and composition, in the order of the text.
    """

    models: dict[str, nodes.Model]
    data: dict[str, nodes.Data]
    train: dict[str, nodes.Train]
    default_train: nodes.Train | None
    compositions: tuple[tuple[str | None, nodes.Parallel], ...]


def collect(spec: nodes.Spec, source: SourceText, faults: Faults) -> Statements:
    """Sorts the statements; reports names declared twice and a second unnamed composition."""
    train = [s for s in spec.statements if isinstance(s, nodes.Train)]
    lets = _by_name("let", (s for s in spec.statements if isinstance(s, nodes.Let)), source, faults)
    defaults = [s for s in train if s.name is None]
    for extra in defaults[1:]:
        faults.error(
            "MG204",
            "`train *` is given twice",
            extra.span,
            label="given again",
            help=("merge both into one statement",),
        )
    unnamed = [s for s in spec.statements if isinstance(s, nodes.Parallel)]
    for again in unnamed[1:]:
        faults.error(
            "MG202",
            "a spec has at most one unnamed composition",
            again.span,
            label="a second one",
            help=("name them, `let NAME = parallel(...)`, and pick one with `--graph NAME`",),
        )
    compositions = [(None, s) for s in unnamed[:1]] + [(name, let.composition) for name, let in lets.items()]
    return Statements(
        _by_name("model", (s for s in spec.statements if isinstance(s, nodes.Model)), source, faults),
        _by_name("data", (s for s in spec.statements if isinstance(s, nodes.Data)), source, faults),
        _by_name("train", (s for s in train if s.name is not None), source, faults),
        defaults[0] if defaults else None,
        tuple(sorted(compositions, key=lambda item: item[1].span.start)),
    )


def choose(statements: Statements, graph: str | None, faults: Faults) -> nodes.Parallel | None:
    """The composition that is asked for: the one named `graph`, else the unnamed one, else the only one.

    Returns:
        None where there is none to choose; the reason is reported.
    """
    named = {name: composition for name, composition in statements.compositions}
    lets = [name for name in named if name is not None]
    if graph is not None:
        if graph in named:
            return named[graph]
        there = (
            f"the spec names {quoted_list(lets)}" if lets else "the spec names none: `let NAME = parallel(...)` would"
        )
        faults.error("MG202", f"no composition is called `{graph}`", None, help=(faults.near(graph, lets), there))
        return None
    if None in named:
        return named[None]
    if len(lets) == 1:
        return named[lets[0]]
    if lets:
        faults.error(
            "MG202",
            f"the spec holds {len(lets)} named compositions and no unnamed one",
            named[lets[1]].span,
            label="which one is meant?",
            help=(f"pick one of {', '.join(f'`{name}`' for name in lets)} with `--graph NAME` (`graph=` in Python)",),
        )
    else:
        faults.error(
            "MG201",
            "the spec has no composition",
            None,
            help=("add one, such as `parallel(model_a, model_b x2) on gpus=2`",),
        )
    return None


def _by_name(kind: str, found: Iterable[StatementT], source: SourceText, faults: Faults) -> dict[str, StatementT]:
    statements: dict[str, StatementT] = {}
    for statement in found:
        assert statement.name is not None  # `train *` is told apart by the caller
        name = statement.name.text
        first = statements.setdefault(name, statement)
        if first is not statement:
            assert first.name is not None
            faults.error(
                "MG204",
                f"{kind} `{name}` is declared twice" if kind != "train" else f"`train {name}` is given twice",
                statement.name.span,
                label="declared again",
                notes=(f"first on line {source.position(first.name.span.start)[0]}",),
            )
    return statements
