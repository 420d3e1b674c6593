"""MG4xx: devices and the graph."""

from __future__ import annotations

from composer.diagnostics.code import Code

CODES: tuple[Code, ...] = (
    Code(
        code="MG401",
        slug="devices-missing",
        summary="A machine has fewer devices than `on` asks for.",
        why="TensorFlow would run the rest on the CPU without a word; composer never falls back silently.",
        example="parallel(a x16) on gpus=16    # on a machine with 4 GPUs",
        mend="Ask for what is there (`on auto` takes it all), or let CPU devices stand in: `--simulate 16`.",
    ),
    Code(
        code="MG402",
        slug="device-missing",
        summary="A pin, `merge=` or `weights=` names a device that is not there.",
        why="A device that is missing is an error, never a silent fallback.",
        example="parallel(a at=gpu:1)    # on a machine with one GPU",
        mend="Name a device that is there, or let CPU devices stand in: `--simulate 2`.",
    ),
)
