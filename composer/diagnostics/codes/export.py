"""MG6xx: export."""

from __future__ import annotations

from composer.diagnostics.code import Code

CODES: tuple[Code, ...] = (
    Code(
        code="MG601",
        slug="reserved-endpoint-name",
        summary="A member's name cannot be an endpoint of a SavedModel.",
        why=(
            "Every member becomes a signature of its own name and an input of the joint signature. TensorFlow keeps "
            "some names for itself (`signatures`, `variables`, `serving_default`), takes no name that starts with an "
            "underscore, and no word that Python reserves."
        ),
        example="parallel(model as variables)",
        mend="Name the member otherwise with `as`, e.g. `parallel(model as model_variables)`.",
    ),
    Code(
        code="MG602",
        slug="joint-name-clash",
        summary="Two inputs or outputs of the joint signature would have one name.",
        why=(
            "In `serving_default` an input is named `<member>`, or `<member>_<input>` where the member has several, "
            "and outputs likewise. Names that differ only in upper and lower case are one to TensorFlow."
        ),
        example="parallel(a, b as a_x)    # where `a` has the inputs `x` and `y`",
        mend="Name one of the members otherwise with `as`.",
    ),
    Code(
        code="MG603",
        slug="unservable-tensor",
        summary="A member takes or gives something that a signature cannot carry.",
        why="Signatures carry dense tensors. A model that has never been built has no shapes to write down either.",
        example="joint.export(folder)    # a member has a ragged or sparse input",
        mend=(
            "Make the input or output dense inside the model (`to_tensor`), or call the model once on data before "
            "exporting."
        ),
    ),
    Code(
        code="MG604",
        slug="untraceable-member",
        summary="TensorFlow cannot write a member's forward pass down as a graph.",
        why="An export holds graphs. A `call` that runs NumPy or other plain Python on its tensors has none.",
        example="joint.export(folder)    # a layer's `call` does `x.numpy()`",
        mend="Use TensorFlow or `keras.ops` in the layer that the message quotes.",
    ),
    Code(
        code="MG605",
        slug="export-not-written",
        summary="The export's folder cannot be written.",
        why=(
            "A version is written beside its place and moved there when it is whole, so nothing half-written is left "
            "and earlier versions stay as they are."
        ),
        example="composer compile fleet.mgpu -o /read-only/fleet",
        mend="Give a folder that can be written, on a disk with room for all the members' weights, or free some.",
    ),
    Code(
        code="MG606",
        slug="version-taken",
        summary="The version that was asked for is there already, or is no version number.",
        why="A server may be reading an earlier version: it is never replaced. Versions are whole numbers from 1.",
        example="export_saved_model(joint, folder, force_version=1)    # the second time",
        mend="Leave the version out to get the next one, or give a number that is free.",
    ),
    Code(
        code="MG607",
        slug="not-an-export",
        summary="A folder is not an export of composer's, or its manifest cannot be read.",
        why="`composer inspect` reads `assets.extra/composer/manifest.json`, which `composer compile` writes.",
        example="composer inspect models/",
        mend="Give the folder that `composer compile -o` wrote, or one of the numbered versions in it.",
    ),
)
