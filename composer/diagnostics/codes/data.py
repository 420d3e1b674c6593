"""MG5xx: data."""

from __future__ import annotations

from composer.diagnostics.code import Code

CODES: tuple[Code, ...] = (
    Code(
        code="MG500",
        slug="unfit-rows",
        summary="The rows of a member cannot be used, for a reason that has no code of its own.",
        why="Rows are checked before anything runs, and what would fail later or train on something else is refused.",
        example='joint.predict({"a": iter(rows)})',
        mend="Do what the message says.",
    ),
    Code(
        code="MG501",
        slug="no-data",
        summary="A member has no rows to train on.",
        why="`fit` trains all members of a composition, and a member without rows would silently stay as it is.",
        example='model a = "a.keras"\ntrain a optimizer=adam loss=mse\nparallel(a)    # composer fit',
        mend='Add a `data` statement, e.g. `data a = "a.npz"`, or leave the member out of the composition.',
    ),
    Code(
        code="MG502",
        slug="data-file-missing",
        summary="A file of rows is not there.",
        why=(
            "Paths start from the folder of the spec. `composer check` only warns, since the rows may be made later; "
            "`composer fit` cannot go on without them."
        ),
        example='model a = "a.keras"\ndata a = "no_such_file.npz"\nparallel(a)',
        mend="Correct the path, or make the file.",
    ),
    Code(
        code="MG503",
        slug="unreadable-data",
        summary="A file of rows cannot be read as what it is.",
        why="It is damaged, of another kind than its name says, of a kind that is not known, or holds pickled objects.",
        example='data a = "rows.xlsx"    # composer fit',
        mend="Save the rows as `.npz`, `.npy`, `.csv` or `.parquet`.",
    ),
    Code(
        code="MG504",
        slug="missing-part",
        summary="A file of rows lacks an array or a column, or its columns have no proper names.",
        why="Arrays and columns are found by their names.",
        example='data wine = "wine.csv" target=cultivr    # the column is called `cultivar`',
        mend="Correct the name in the spec or in the file; the message lists what there is.",
    ),
    Code(
        code="MG505",
        slug="no-targets",
        summary="A member is to be trained on rows without targets.",
        why="Its loss compares what it predicts with targets.",
        example='data wine = "wine.csv"    # without `target=`',
        mend="Name the target column with `target=`, or add an array `y`.",
    ),
    Code(
        code="MG506",
        slug="unfit-inputs",
        summary="Rows have another shape, type or number of inputs than the model takes.",
        why="The model was built for one kind of rows, and would fail on others or read them wrongly.",
        example='data a = "a.npz"    # rows of shape (3,) for a model that takes (4,)',
        mend="Give the rows that the model was built for, or the model that fits the rows.",
    ),
    Code(
        code="MG507",
        slug="unfit-targets",
        summary="Targets do not fit the outputs of the model or its loss.",
        why="A loss would fail on them, or compare each column with each.",
        example='data a = "a.npz"    # the class 3 for a model that predicts 3 classes, 0 to 2',
        mend="Give one target for each output, of its shape; class labels count from 0.",
    ),
    Code(
        code="MG508",
        slug="unequal-lengths",
        summary="The arrays of a member differ in their number of rows.",
        why="Row i of x goes with row i of y and of `sample_weight`.",
        example='data a = "a.npz"    # 10 rows in `x`, 9 in `y`',
        mend="Give as many rows in each.",
    ),
    Code(
        code="MG509",
        slug="no-rows",
        summary="A member's file or array has no rows.",
        why="There is nothing to train on.",
        example='data a = "empty.csv"    # column names and nothing below them',
        mend="Give at least one row.",
    ),
    Code(
        code="MG510",
        slug="unfit-cell",
        summary="A column of a table holds something that its use does not take.",
        why="Features are numbers; a target holds numbers alone, or the names of classes. Gaps are never filled.",
        example='data wine = "wine.csv" target=cultivar    # a cell of the column `ash` is empty',
        mend="Correct the cell, leave its row out, or leave the column out with `features=[...]`.",
    ),
    Code(
        code="MG511",
        slug="unfit-validation",
        summary="`validation=` cannot cut off the rows it asks for.",
        why="Both parts need at least one row, and only arrays can be cut.",
        example='data a = "a.npz" validation=0.99    # of 3 rows',
        mend="Give another fraction, more rows, or the path of a file.",
    ),
    Code(
        code="MG512",
        slug="unfit-settings",
        summary="Class weights or a batch size do not go with a member's rows.",
        why="Class weights need one array of class labels; the batch of a grouped member holds whole groups.",
        example="train a class_weight={0: 1.0, 1: 4.0}    # where the rows have sample weights as well",
        mend="Leave the setting out, or change it as the message says.",
    ),
    Code(
        code="MG513",
        slug="data-factory",
        summary="A factory gives no rows.",
        why="It failed, may not run, or returned something else than rows.",
        example="data a = shop.rows:load()    # without `--allow-python`",
        mend="Allow it with `--allow-python` if you trust the spec; return `(x, y)` or a `tf.data.Dataset`.",
    ),
    Code(
        code="MG514",
        slug="step-failed",
        summary="TensorFlow refuses a batch of a member's rows.",
        why="Some values show only when they are used: an index outside an embedding, a string that is no number.",
        example='data a = "a.npz"    # the index 9 for `Embedding(3, ...)`',
        mend="Correct the rows that the message tells of.",
    ),
    Code(
        code="MG515",
        slug="resumed-otherwise",
        summary="A training that was cut off is to go on with other data, models or settings than it began with.",
        why=(
            "It would end as neither the one nor the other. Files are known by their SHA-256, rows in memory as well; "
            "what datasets and generators yield, and what functions compute, cannot be compared."
        ),
        example="composer fit --resume runs/first    # after a row of its `data/wine.csv` was changed",
        mend="Put back what has changed, or train anew, into another folder.",
    ),
    Code(
        code="MG516",
        slug="loss-not-finite",
        summary="A member's loss has become NaN or infinite.",
        why=(
            "Its weights follow, and no later epoch mends them; the other members are not affected. `composer fit` "
            "warns of each such member, and exits with 1 where it is all of them."
        ),
        example="train a optimizer=sgd(learning_rate=1e30) loss=mse",
        mend="Look for NaN or infinity in its rows, or train it with a lower learning rate or `clipnorm=`.",
    ),
)
