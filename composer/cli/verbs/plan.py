"""`composer plan`: what would run where, and why."""

from __future__ import annotations

from pathlib import Path

import click

from composer.cli.options import graph_option, json_option, path_argument, shared_options
from composer.cli.specs import read_source
from composer.cli.start import start_tensorflow
from composer.cli.terminal import Terminal
from composer.compiler.plan import DeviceTopology
from composer.pipeline import missing, plan

_EXAMPLES = """\b
Examples:
  composer plan fleet.mgpu
  composer plan fleet.mgpu --json | jq '.devices'
  composer plan fleet.mgpu --simulate 2    # on a machine with 2 GPUs
  composer plan fleet.mgpu --machine       # on this machine
"""


@click.command(epilog=_EXAMPLES, short_help="Show what runs where, and why.")
@path_argument("spec", "SPEC")
@graph_option
@json_option
@click.option("--machine", is_flag=True, help="Plan for the devices that are there (starts TensorFlow).")
@shared_options()
@click.pass_obj
def command(terminal: Terminal, spec: Path, graph: str | None, as_json: bool, machine: bool) -> int:
    """Print what runs where, and why.

    The plan is for the devices that the spec asks for, so it can be made anywhere; no model is loaded. `--simulate N`
    plans for N GPUs, `--machine` for the devices of this machine.
    """
    source = read_source(spec)
    made = plan(source, graph=graph, topology=_topology(terminal, machine))
    terminal.diagnostics([*made.composition.warnings, *made.warnings, *missing([made], source)])
    terminal.result(made.to_json() if as_json else made.to_text())
    return 0


def _topology(terminal: Terminal, machine: bool) -> DeviceTopology | None:
    """The devices to plan for; None for those the spec asks for."""
    simulated = terminal.settings.simulate
    if machine:
        return start_tensorflow(terminal)
    return None if simulated is None else DeviceTopology(cpus=simulated, gpus=simulated, simulated=True)
