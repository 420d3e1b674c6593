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
    Code(
        code="MG403",
        slug="model-file-missing",
        summary="The file of a model is not there.",
        why=(
            "Paths start from the folder of the spec. `composer check` only warns, since the file may be made later; "
            "the commands that load models cannot go on without it."
        ),
        example='model a = "no_such_file.keras"\nparallel(a)',
        mend="Correct the path, or save the model there.",
    ),
    Code(
        code="MG404",
        slug="unreadable-model",
        summary="The file of a model cannot be loaded.",
        why="It is damaged, of another kind than its name says, or needs code that is not there or not allowed.",
        example='model a = "notes.keras"    # a text\nparallel(a)',
        mend="Save the model again, or do what the message says.",
    ),
    Code(
        code="MG405",
        slug="model-factory",
        summary="A factory gives no model.",
        why="It may not run, was not found, failed, or returned something else than a Keras model.",
        example="model a = zoo:net()    # without `--allow-python`\nparallel(a)",
        mend="Allow it with `--allow-python` if you trust the spec; return a `keras.Model`.",
    ),
)
