"""MG2xx: names, types and options."""

from __future__ import annotations

from composer.diagnostics.code import Code

CODES: tuple[Code, ...] = (
    Code(
        code="MG201",
        slug="no-composition",
        summary="A spec composes nothing.",
        why=(
            "A spec says what its models, data and training are for in one composition; without one there "
            "is nothing to run."
        ),
        example='model wine = "models/wine.keras"',
        mend="Add a composition, e.g. `parallel(wine)`.",
    ),
    Code(
        code="MG202",
        slug="which-composition",
        summary="It is not clear which composition is meant.",
        why=(
            "A spec holds at most one unnamed composition, which is the one that runs. Named ones (`let "
            "NAME = ...`) run when "
            "they are picked by a name that exists."
        ),
        example="let small = parallel(a)\nlet large = parallel(a, b)",
        mend="Pick one with `--graph NAME` (`graph=` in Python), or leave one of them unnamed.",
    ),
    Code(
        code="MG203",
        slug="unknown-model",
        summary="A branch names a model that does not exist.",
        why="Every branch runs a model that a `model` statement declares or that the caller passes by name.",
        example='model wine = "models/wine.keras"\nparallel(wines)',
        mend="Correct the name, or declare the model.",
    ),
    Code(
        code="MG204",
        slug="declared-twice",
        summary="A name, a statement or an argument is given twice.",
        why="Of two declarations of one name composer could only guess which one is meant.",
        example='model a = "a.keras"\nmodel a = "b.keras"\nparallel(a)',
        mend="Remove or rename one of them.",
    ),
    Code(
        code="MG205",
        slug="duplicate-member",
        summary="Two members would have the same name.",
        why=(
            "A member's name is the key of its data, history, metrics, predictions and export. `copies=3` "
            "names its members "
            "`model_0` to `model_2`, so these count too."
        ),
        example="parallel(a, a)",
        mend="Rename one with `as`; for two members with weights of their own write `copies=2`.",
    ),
    Code(
        code="MG206",
        slug="unknown-member",
        summary="A `data` or `train` statement, or the rows to predict for, belong to no member.",
        why=("Both go by the name of a branch or of one of its members; the alias (`as`) is the branch's name."),
        example='data wines = "wine.csv" target=cultivar\nparallel(wine)',
        mend="Correct the name.",
    ),
    Code(
        code="MG207",
        slug="unknown-option",
        summary="An option does not exist where it stands.",
        why="An option that nobody reads would be a setting that silently does nothing.",
        example="parallel(a, b) on gpus=2 merg=gpu",
        mend="Correct the name, or move the option to the statement it belongs to.",
    ),
    Code(
        code="MG208",
        slug="bad-value",
        summary="A value is of the wrong kind or out of range.",
        why="Values are checked before anything is loaded, so that no run fails after an hour because of a zero.",
        example="parallel(a copies=0)",
        mend="Give a value of the kind that the message names.",
    ),
    Code(
        code="MG209",
        slug="length-mismatch",
        summary="A list has not as many entries as there are copies or replicas.",
        why=(
            "A list inside `optimizer=` or as `seed=` gives one value to each copy; a list of `at=` one "
            "device to each replica."
        ),
        example="train a optimizer=sgd(learning_rate=[0.1, 0.01])\nparallel(a copies=3)",
        mend="Make both of one length, or give one value for all.",
    ),
    Code(
        code="MG210",
        slug="device-outside",
        summary="A branch or the merge is pinned to a device that `on` does not give.",
        why="`on` says what the composition may use; a pin chooses among these devices.",
        example="parallel(a at=gpu:3) on gpus=2",
        mend="Pin to one of the devices of `on`, or let `on` give more.",
    ),
    Code(
        code="MG211",
        slug="not-supported",
        summary="A spec asks for something that composer cannot do yet.",
        why="What is not ready is refused, so that it never gives a wrong number.",
        example="train a optimizer=adam loss=mse callbacks=[lambda_callback()]\nparallel(a)",
        mend="Leave it out, or do this part in Python.",
    ),
    Code(
        code="MG212",
        slug="unknown-keras-name",
        summary="Keras has no optimizer, loss, metric or callback of this name.",
        why=(
            "These are Keras' own, by class name (`EarlyStopping`), in snake case (`early_stopping`) or in "
            "short (`mse`)."
        ),
        example="train a optimizer=adamm loss=mse\nparallel(a)",
        mend="Correct the name. What you wrote yourself is passed in Python.",
    ),
    Code(
        code="MG213",
        slug="unknown-argument",
        summary="A Keras class has no such argument.",
        why="Arguments are those of the class in Keras.",
        example="train a optimizer=adam(lr=0.1) loss=mse\nparallel(a)",
        mend="Correct the name; the note lists the arguments there are.",
    ),
    Code(
        code="MG214",
        slug="bad-argument",
        summary="An argument of a Keras class is of the wrong kind.",
        why="Keras would fail later, or take a string for a number without a word.",
        example='train a callbacks=[early_stopping(patience="long")]\nparallel(a)',
        mend="Give a value of the kind that the message names.",
    ),
    Code(
        code="MG215",
        slug="missing-argument",
        summary="A Keras class cannot be made without an argument.",
        why="The class has no default for it.",
        example="train a optimizer=adam(learning_rate=cosine_decay(decay_steps=100)) loss=mse\nparallel(a)",
        mend="Give the argument.",
    ),
    Code(
        code="MG216",
        slug="options-conflict",
        summary="Two options contradict each other.",
        why="No reading of the statement gives both what they ask for.",
        example='data a = "a.csv" target=y features=[x, y]\nparallel(a)',
        mend="Change one of them.",
    ),
    Code(
        code="MG217",
        slug="unknown-output",
        summary="A loss or metric is given for an output that the model has not.",
        why="Losses and metrics by output go by the names of the model's outputs; a list has one for each.",
        example='model a = "two_outputs.keras"\ntrain a optimizer=adam loss={prize: mse}\nparallel(a)',
        mend="Correct the name; the message lists the outputs there are.",
    ),
    Code(
        code="MG220",
        slug="unused-model",
        summary="A declared model is in no composition.",
        why="Most often a branch was left out or renamed.",
        example='model a = "a.keras"\nmodel b = "b.keras"\nparallel(a)',
        mend="Name it in a composition, or remove the statement.",
    ),
    Code(
        code="MG221",
        slug="unused-statement",
        summary="A `data` or `train` statement is for a model that is in no composition.",
        why="Most often a branch was left out for a while.",
        example='model a = "a.keras"\nmodel b = "b.keras"\ntrain b epochs=3\nparallel(a)',
        mend="Name the model in a composition, or remove the statement.",
    ),
)
