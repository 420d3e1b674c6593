"""The program: its verbs, each imported when it is called, and how a run of it ends."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

import click

from composer.cli import endings
from composer.cli.options import Settings, shared_options
from composer.cli.terminal import Terminal, open_missing_streams, shown_warnings
from composer.version import __version__

VERBS = ("check", "plan", "fmt", "explain", "fit", "predict", "compile", "inspect")
"""In the order of a working day, which `--help` keeps."""

_EXAMPLES = """\b
Examples:
  composer check fleet.mgpu
  composer fit fleet.mgpu -o runs/first
  composer compile runs/first -o export/fleet
"""


class Verbs(click.Group):
    """The verbs of `VERBS`. A verb's module is loaded when it is asked for, so `check` does not pay for `fit`."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:  # click would exit with 1
            raise endings.PipeClosed from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name in VERBS and name not in self.commands:
            module = importlib.import_module(f"composer.cli.verbs.{name}")
            self.add_command(module.command, name)
        return self.commands.get(name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS:
            for name in VERBS:  # click offers the near ones of those it knows
                self.get_command(ctx, name)
        return super().resolve_command(ctx, args)


@click.group(
    cls=Verbs,
    epilog=_EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@shared_options()
@click.version_option(__version__, "--version", message="composer %(version)s")
def program() -> None:
    """Train, split and serve several Keras models as one program, from a `.mgpu` spec."""


def run(argv: Sequence[str] | None) -> int:
    """Run the program and return its exit code; nothing but a bug of the caller's own leaves it as an exception."""
    open_missing_streams()
    settings = Settings()
    terminal = Terminal(settings)
    name = "composer" if argv is not None else None
    with shown_warnings(terminal):
        try:
            code = program.main(argv, prog_name=name, standalone_mode=False, obj=terminal)
            code = code if isinstance(code, int) else 0
            terminal.flush()
        except BaseException as error:
            code = endings.end(error, terminal)
    return code
