"""Options that several verbs share, and what they were set to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., Any])
ColorMode = Literal["auto", "always", "never"]


@dataclass
class Settings:
    """What the shared options say. They may stand before or behind the verb; the last one wins."""

    simulate: int | None = None
    color: ColorMode = "auto"
    traceback: bool = False


def shared_options(*, simulate: bool = True) -> Callable[[Function], Function]:
    """The options that every verb takes and the program itself takes before the verb.

    Args:
        simulate: whether `--simulate` means something to the verb; its help leaves it out otherwise.
    """

    def add(function: Function) -> Function:
        for option in reversed(
            (
                click.option(
                    "--simulate",
                    type=click.IntRange(min=1),
                    metavar="N",
                    hidden=not simulate,
                    help="Let N logical CPU devices stand in for GPUs.",
                    **_kept,
                ),
                click.option(
                    "--color",
                    type=click.Choice(["auto", "always", "never"]),
                    help="Colours: on a terminal (auto; NO_COLOR turns them off), always or never.",
                    **_kept,
                ),
                click.option(
                    "--traceback", is_flag=True, default=None, help="Show where in the code an error arose.", **_kept
                ),
            )
        ):
            function = option(function)
        return function

    return add


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value is not None and parameter.name is not None:
        setattr(context.obj.settings, parameter.name, value)


_kept: dict[str, Any] = {"expose_value": False, "callback": _keep}

graph_option = click.option(
    "--graph", metavar="NAME", help="The composition to take, by its `let` name, where a spec holds several."
)
allow_python_option = click.option(
    "--allow-python", is_flag=True, help="Let factories that the spec names run; only for a spec you trust."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


def path_argument(name: str, metavar: str, **more: Any) -> Callable[[Function], Function]:
    """A path that the verb itself looks for, so that its absence is told in composer's own words."""
    return click.argument(name, metavar=metavar, type=click.Path(path_type=Path, readable=False), **more)


def out_option(metavar: str, help: str, *, required: bool = True) -> Callable[[Function], Function]:
    """`-o`, the folder that a verb writes into."""
    kind = click.Path(path_type=Path, readable=False)
    return click.option("-o", "--out", metavar=metavar, type=kind, required=required, help=help)
