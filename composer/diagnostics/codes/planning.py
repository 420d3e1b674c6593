"""MG3xx: the plan."""

from __future__ import annotations

from composer.diagnostics.code import Code

CODES: tuple[Code, ...] = (
    Code(
        code="MG301",
        slug="fixed-batch-size",
        summary="A model with a fixed batch size is asked to take another one.",
        why="An input built with `batch_size=8` takes 8 rows and nothing else, so its batch cannot be cut or grouped.",
        example="parallel(m x2)    # where `m` has `Input((4,), batch_size=8)`",
        mend="Build the model with an open batch axis (`Input((4,))`), or run it as one replica.",
    ),
    Code(
        code="MG302",
        slug="stateful-layer",
        summary="A model that carries state from batch to batch cannot be split or grouped.",
        why="The second replica would start from the state that the first one left behind.",
        example="parallel(m x2)    # where `m` has `LSTM(8, stateful=True)`",
        mend="Run it as one replica without `group=`.",
    ),
    Code(
        code="MG303",
        slug="loss-per-call",
        summary="A model that adds a loss at every call cannot be split.",
        why="Activity regularizers and `add_loss` count once a call, so k replicas would count them k times.",
        example="parallel(m x2)    # where `m` has `Dense(4, activity_regularizer='l2')`",
        mend="Run it as one replica.",
    ),
    Code(
        code="MG304",
        slug="no-batch-axis",
        summary="A model with an output that has no batch axis cannot be split or grouped.",
        why="The parts of an output are joined row by row; a number without rows cannot be.",
        example="parallel(m x2)    # where `m` gives the mean over its batch",
        mend="Run it as one replica without `group=`.",
    ),
    Code(
        code="MG305",
        slug="not-trainable",
        summary="A model that can only predict has settings for training.",
        why="A SavedModel folder holds programs, not layers.",
        example='model m = "exported/"\ntrain m optimizer=adam loss=mse\nparallel(m)',
        mend="Remove the `train` statement, or give the `.keras` file of the model.",
    ),
    Code(
        code="MG306",
        slug="shared-weights-disagree",
        summary="Members that share weights have different optimizers.",
        why="Their gradients add, and one optimizer takes the step.",
        example=(
            "train day optimizer=adam loss=mse\ntrain night optimizer=sgd loss=mse\nparallel(m as day, m as night)"
        ),
        mend="Give both the same optimizer, or each a `model` statement of its own.",
    ),
    Code(
        code="MG307",
        slug="gpu-on-cpus",
        summary="`merge=gpu` or `weights=gpu` on CPUs.",
        why="`on cpus=...` gives no GPU that could hold anything.",
        example="parallel(a x2) on cpus=2 merge=gpu",
        mend="Leave the option out, or run on GPUs: `on gpus=2`.",
    ),
    Code(
        code="MG308",
        slug="not-compiled",
        summary="A member is to be trained and has no optimizer or no loss.",
        why="Its model was not compiled, and no `train` statement gives what is missing.",
        example='model a = "not_compiled.keras"\ndata a = "a.npz"\nparallel(a)    # composer fit',
        mend="Add it to the spec, e.g. `train a optimizer=adam loss=mse`, or leave the member out.",
    ),
    Code(
        code="MG320",
        slug="batch-coupled-layers",
        summary="Replicas of a model with batch statistics do not train exactly like the model alone.",
        why=(
            "Batch normalization takes its statistics over the rows it sees, which are those of one "
            "replica, and updates its "
            "moving averages once a replica. Predictions are not affected."
        ),
        example="parallel(m x2)    # where `m` has a BatchNormalization layer",
        mend="Use one replica, or a layer that normalizes each row (LayerNormalization, GroupNormalization).",
    ),
    Code(
        code="MG321",
        slug="shared-state",
        summary="Members share weights, statistics or random states, and train together instead of as if alone.",
        why=(
            "Their gradients add and one optimizer takes the step, so that each moves the weights of the other. Each "
            "has its own rows, loss, metrics and callbacks; a callback that sets weights sets those of both."
        ),
        example="train day optimizer=adam loss=mse\ntrain night loss=mse\nparallel(m as day, m as night)",
        mend="If that is not meant, give each a `model` statement of its own.",
    ),
)
