"""Rows from files and factories: what arrives, and what is said of files that hold none."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from composer.catalog import ModelSignature, TensorSignature
from composer.compiler.ir import DataSource
from composer.data_files.files import load_rows
from composer.errors import ComposerWarning, DataError
from composer.language import nodes

WINE = "ash,hue,cultivar\n1.5,2,barolo\n2.5,4,grignolino\n3.5,8,barbera\n4.5,16,barolo\n"


def path(text: str, **options: object) -> DataSource:
    return DataSource(nodes.PathSource(text), **options)  # type: ignore[arg-type]


def factory(text: str, *arguments: nodes.Option, **options: object) -> DataSource:
    module, function = text.split(":")
    return DataSource(nodes.FactorySource(module, function, arguments), **options)  # type: ignore[arg-type]


def signature(
    inputs: dict[str, tuple], outputs: dict[str, tuple] | None = None, dtype: str = "float32"
) -> ModelSignature:
    outputs = outputs or {"out": (None, 1)}
    return ModelSignature(
        tuple(TensorSignature(name, shape, dtype) for name, shape in inputs.items()),
        tuple(TensorSignature(name, shape, "float32") for name, shape in outputs.items()),
    )


# Arrays ------------------------------------------------------------------------------------------------------------


def test_npz_gives_x_y_and_weights(tmp_path: Path) -> None:
    x, y, w = np.arange(6.0).reshape(3, 2), np.array([0, 1, 2]), np.array([1.0, 0.5, 2.0])
    np.savez(tmp_path / "a.npz", x=x, y=y, sample_weight=w, notes=np.array("ignored"))
    rows = load_rows("a", path("a.npz"), tmp_path, signature({"x": (None, 2)}))
    np.testing.assert_array_equal(rows.x, x)
    np.testing.assert_array_equal(rows.y, y)
    np.testing.assert_array_equal(rows.sample_weight, w)
    assert rows.validation is None
    assert rows.num_rows == 3


def test_npz_of_several_inputs_and_outputs_is_read_by_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x_left=np.ones((2, 3)), x_right=np.zeros((2, 1)), y_p=[1, 2], y_q=[3, 4])
    known = signature({"right": (None, 1), "left": (None, 3)}, {"p": (None, 1), "q": (None, 1)})
    for given in (known, None):
        rows = load_rows("a", path("a.npz"), tmp_path, given)
        assert {name: array.shape for name, array in rows.x.items()} == {"left": (2, 3), "right": (2, 1)}
        assert {name: array.tolist() for name, array in rows.y.items()} == {"p": [1, 2], "q": [3, 4]}


def test_npz_without_targets_will_do_for_predicting_only(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.ones((2, 3)))
    assert load_rows("a", path("a.npz"), tmp_path, targets=False).y is None
    with pytest.raises(DataError, match=r"the data of `a` cannot be used: .*a\.npz lacks `y`; it has `x`"):
        load_rows("a", path("a.npz"), tmp_path)


def test_npy_pair_is_found_by_its_names(tmp_path: Path) -> None:
    for stem in ("a_", ""):
        np.save(tmp_path / f"{stem}x.npy", np.ones((4, 2)))
        np.save(tmp_path / f"{stem}y.npy", np.arange(4))
        np.save(tmp_path / f"{stem}sample_weight.npy", np.full(4, 0.5))
        rows = load_rows("a", path(f"{stem}x.npy"), tmp_path)
        assert rows.x.shape == (4, 2)
        assert rows.y.tolist() == [0, 1, 2, 3]
        assert rows.sample_weight.tolist() == [0.5] * 4


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rows.npy", r"does not say where the targets are. Expected a pair `NAME_x.npy` and `NAME_y.npy`"),
        ("b_x.npy", r"the file .*b_y\.npy, the targets of b_x\.npy, is missing"),
    ],
)
def test_npy_without_a_partner_is_refused(tmp_path: Path, name: str, message: str) -> None:
    np.save(tmp_path / name, np.ones((4, 2)))
    with pytest.raises(DataError, match=message):
        load_rows("a", path(name), tmp_path)
    assert load_rows("a", path(name), tmp_path, targets=False).x.shape == (4, 2)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.ones((3, 2)), "y": np.ones(4)}, r"differ in their number of rows: `x` has 3, `y` has 4"),
        ({"x": np.ones((3, 2)), "y": np.ones(3), "sample_weight": np.ones(2)}, r"`sample_weight` has 2"),
        ({"x": np.ones((0, 2)), "y": np.ones(0)}, r"a\.npz has no rows"),
        ({"x": np.ones((3, 5)), "y": np.ones(3)}, r"a row of `x` .* has the shape \(5,\), and the model takes \(2,\)"),
        (
            {"x": np.array([["a", "b"]]), "y": np.ones(1)},
            r"`x` .* holds strings, and the model's input `in` takes float32",
        ),
        ({"x": np.ones((2, 2)), "y": np.array(["a", "b"])}, r"`y` .* holds strings such as 'a'\. Expected numbers"),
        ({"x": np.float32(1), "y": np.ones(1)}, r"`x` of .* is a single value"),
        ({"x": np.array([[1], "a", None], object), "y": np.ones(3)}, r"holds Python objects, .*unpickling runs code"),
        ({"xs": np.ones((3, 2)), "y": np.ones(3)}, r"lacks `x`; it has `xs`, `y`; did you mean `xs`\?"),
        ({"x": np.ones((3, 2)), "y": np.ones(3), "sample_weights": np.ones(3)}, r"did you mean `sample_weight`\?"),
    ],
)
def test_npz_faults_name_the_member_the_file_and_the_array(tmp_path: Path, arrays: dict, message: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=r"the data of `m` cannot be used: .*" + message):
        load_rows("m", path("a.npz"), tmp_path, signature({"in": (None, 2)}))


def test_rows_that_keras_reshapes_itself_are_taken(tmp_path: Path) -> None:
    np.savez(tmp_path / "flat.npz", x=np.ones(3), y=np.ones(3))
    assert load_rows("a", path("flat.npz"), tmp_path, signature({"in": (None, 1)})).x.shape == (3,)
    np.savez(tmp_path / "image.npz", x=np.ones((3, 8, 8)), y=np.ones(3))
    assert load_rows("a", path("image.npz"), tmp_path, signature({"in": (None, 8, 8, 1)})).x.shape == (3, 8, 8)
    with pytest.raises(DataError, match=r"the shape \(8, 8\), and the model takes \(8, 8, 3\)"):
        load_rows("a", path("image.npz"), tmp_path, signature({"in": (None, 8, 8, 3)}))


@pytest.mark.parametrize("content", [b"\x93NUMPY junk", b"PK\x03\x04 torn archive", b"not an archive"])
def test_damaged_archive_is_one_message(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(
        DataError, match=r"the data of `m` cannot be used: .*a\.npz (cannot be read|holds Python objects)"
    ):
        load_rows("m", path("a.npz"), tmp_path)


# Files that are not there ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wines.csv", r"the file .*wines\.csv is missing; did you mean `wine\.csv`\?"),
        ("no/wine.csv", r"is missing\. The folder .*no is missing as well"),
        ("rows.tfrecord", r"`\.tfrecord` files are not supported yet"),
        ("wine.txt", r"wine\.txt is of no kind that can be read. Expected `\.npz`"),
        ("empty.csv", r"the file .*empty\.csv is empty"),
        ("folder.npz", r"folder\.npz is a folder"),
    ],
)
def test_missing_and_unknown_files_name_the_mend(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "wine.csv").write_text(WINE)
    (tmp_path / "empty.csv").touch()
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(DataError, match=r"the data of `m` cannot be used: .*" + message):
        load_rows("m", path(name, target=("cultivar",)), tmp_path)


def test_a_near_file_of_another_kind_is_named_only_where_there_is_none_of_this(tmp_path: Path) -> None:
    for name in ("wine.csv", "wine.keras", "wine.mgpu", "digit.npz", "sweeps.mgpu"):
        (tmp_path / name).touch()
    for name, hint in (
        ("wines.csv", r"; did you mean `wine\.csv`\?"),
        ("digit.csv", r"; did you mean `digit\.npz`\?"),
        ("sweep.csv", ""),
    ):
        with pytest.raises(DataError, match=rf"{name} is missing{hint}$"):
            load_rows("m", path(name), tmp_path)


# Tables ------------------------------------------------------------------------------------------------------------


def test_csv_takes_all_the_rest_as_features_and_strings_as_classes(tmp_path: Path) -> None:
    (tmp_path / "wine.csv").write_text(WINE)
    rows = load_rows("wine", path("wine.csv", target=("cultivar",)), tmp_path, signature({"in": (None, 2)}))
    assert rows.x.dtype == np.float32
    assert rows.x.tolist() == [[1.5, 2], [2.5, 4], [3.5, 8], [4.5, 16]]
    assert rows.y.dtype == np.int64
    assert rows.y.tolist() == [1, 2, 0, 1]
    assert rows.classes == {"cultivar": ("barbera", "barolo", "grignolino")}
    assert rows.features == ("ash", "hue")


def test_csv_features_come_in_the_order_asked_for(tmp_path: Path) -> None:
    (tmp_path / "wine.csv").write_text(WINE)
    rows = load_rows("wine", path("wine.csv", target=("ash",), features=("hue",)), tmp_path)
    assert rows.x.tolist() == [[2], [4], [8], [16]]
    assert rows.y.tolist() == [1.5, 2.5, 3.5, 4.5]
    rows = load_rows("wine", path("wine.csv", target=("cultivar",), features=("hue", "ash")), tmp_path)
    assert rows.x[0].tolist() == [2, 1.5]


def test_csv_several_targets(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("f,p,q\n1,2,3.5\n4,5,6.5\n")
    data = path("a.csv", target=("p", "q"))
    assert load_rows("a", data, tmp_path).y.tolist() == [[2, 3.5], [5, 6.5]]
    two = signature({"in": (None, 1)}, {"q": (None, 1), "p": (None, 1)})
    y = load_rows("a", data, tmp_path, two).y
    assert (y["p"].tolist(), y["q"].tolist()) == ([2, 5], [3.5, 6.5])
    with pytest.raises(
        DataError, match=r"the model has the outputs `r`, `p`, and the target columns of .* are `p`, `q`"
    ):
        load_rows("a", data, tmp_path, signature({"in": (None, 1)}, {"r": (None, 1), "p": (None, 1)}))


def test_csv_one_column_for_each_of_several_inputs(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("user,item,stars\n3,70,5\n4,80,1\n")
    two = signature({"item": (None, 1), "user": (None, 1)}, dtype="int32")
    rows = load_rows("a", path("a.csv", target=("stars",)), tmp_path, two)
    assert {name: (array.dtype.name, array.tolist()) for name, array in rows.x.items()} == {
        "item": ("int32", [[70], [80]]),
        "user": ("int32", [[3], [4]]),
    }


def test_csv_for_an_integer_input_refuses_fractions(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("t,y\n3,0\n4.5,1\n")
    with pytest.raises(DataError, match=r"the column `t` of .* holds 4\.5 in row 1, and the model's input takes int32"):
        load_rows("a", path("a.csv", target=("y",)), tmp_path, signature({"in": (None, 1)}, dtype="int32"))


def test_csv_strings_reach_a_model_that_takes_them(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('text,y\n"good, really",1\n007,0\n')
    rows = load_rows("a", path("a.csv", target=("y",)), tmp_path, signature({"in": (None, 1)}, dtype="string"))
    assert rows.x.tolist() == [["good, really"], ["007"]]
    assert rows.y.tolist() == [1, 0]


def test_csv_columns_nobody_asked_for_may_hold_anything(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("\ufeffid,f,note,y\n1,2,,0\nx7,3,hm,1\n\n", encoding="utf-8")
    rows = load_rows("a", path("a.csv", target=("y",), features=("f",)), tmp_path)
    assert (rows.x.tolist(), rows.y.tolist()) == ([[2], [3]], [0, 1])


def test_csv_target_that_turns_out_to_be_strings_late_is_all_strings(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("f,label\n1,7\n2,10\n3,other\n4,7\n")
    rows = load_rows("a", path("a.csv", target=("label",)), tmp_path)
    assert rows.classes == {"label": ("10", "7", "other")}
    assert rows.y.tolist() == [1, 0, 2, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f,g,y\n1,a,0\n", r"the column `g` of .* holds 'a' in line 2, which is no number, and it is a feature"),
        ("f,g,y\n1,2,0\n1,,0\n", r"the column `g` of .* has an empty cell in line 3"),
        ("f,g,y\n1,2,0\n1,2\n", r"line 3 of .* has 2 cells, and there are 3 columns"),
        ("f,g,y\n1,2,0,9\n1,2,0,9\n", r"line 2 of .* has 4 cells, and there are 3 columns"),
        ("f,g,y\n1,2,0.5\n1,2,n/a\n", r"the column `y` of .*, a target, holds 'n/a' among its values"),
        ("f,g,y\n1,2,a\n1,2,\n", r"the column `y` of .*, a target, holds '' among its values"),
        ("f,g,y\n1,2,0.5\n1,2,high\n", r"the column `y` of .*, a target, holds 'high' among its values"),
        ("f,g,Y\n1,2,0\n", r"has no column `y` \(a target\); it has `f`, `g`, `Y`; did you mean `Y`\?"),
        ("1.5,2,0\n1,2,0\n", r"the first line of .* holds numbers \(1\.5, 2, 0, \.\.\.\)"),
        ("f;g;y\n1;2;0\n", r"are separated by ';'\. Expected commas"),
        ("f,f,y\n1,2,0\n", r"has two columns `f`"),
        (",g,y\n1,2,0\n", r"column 1 of .* has no name"),
        ("f,g,y\n", r"has no rows below its column names"),
        ("y\n1\n", r"has no feature columns"),
        ("f,y\n1,0\n", r"has 1 feature columns \(`f`\), and the model takes 2"),
        ("\n1,2,0\n", r"the first line of .* is empty"),
    ],
)
def test_csv_faults_name_the_column_and_the_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(DataError, match=r"the data of `m` cannot be used: .*" + message):
        load_rows("m", path("a.csv", target=("y",)), tmp_path, signature({"in": (None, 2)}))


def test_csv_in_another_encoding_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("f,y\n1,Nebbiolo\n2,Müller\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"`m` cannot be used: .*a\.csv is no UTF-8 text"):
        load_rows("m", path("a.csv", target=("y",)), tmp_path)


def test_csv_without_its_target_will_do_for_predicting(tmp_path: Path) -> None:
    (tmp_path / "with.csv").write_text(WINE)
    (tmp_path / "without.csv").write_text("ash,hue\n1.5,2\n")
    for name, y in (("with.csv", [1, 2, 0, 1]), ("without.csv", None)):
        rows = load_rows("wine", path(name, target=("cultivar",)), tmp_path, targets=False)
        assert rows.features == ("ash", "hue")
        assert (None if rows.y is None else rows.y.tolist()) == y


def test_target_on_arrays_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.ones((2, 1)), y=np.ones(2))
    with pytest.raises(DataError, match=r"`target=` and `features=` name columns of a table"):
        load_rows("a", path("a.npz", target=("y",)), tmp_path)


def test_csv_with_no_target_named_says_how_to_name_it(tmp_path: Path) -> None:
    (tmp_path / "wine.csv").write_text("ash,hue\n1.5,2\n")
    with pytest.raises(DataError, match=r"wine\.csv has no targets\. Name the column with `target=`"):
        load_rows("wine", path("wine.csv"), tmp_path)


def test_parquet_reads_as_csv_does(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is an optional dependency")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = arrow.table({"ash": [1.5, 2.5], "hue": [2, 4], "old": [True, False], "cultivar": ["barolo", "asti"]})
    parquet.write_table(table, tmp_path / "wine.parquet")
    rows = load_rows("wine", path("wine.parquet", target=("cultivar",)), tmp_path)
    assert rows.x.tolist() == [[1.5, 2, 1], [2.5, 4, 0]]
    assert rows.x.dtype == np.float32
    assert rows.y.tolist() == [1, 0]
    assert rows.classes == {"cultivar": ("asti", "barolo")}
    with pytest.raises(DataError, match=r"`cultivar` of .* holds strings such as 'barolo', and it is a feature"):
        load_rows("wine", path("wine.parquet", target=("hue",)), tmp_path)
    parquet.write_table(arrow.table({"f": [1.0, None], "y": [0, 1]}), tmp_path / "gap.parquet")
    with pytest.raises(DataError, match=r"the column `f` of .* has 1 empty cell"):
        load_rows("wine", path("gap.parquet", target=("y",)), tmp_path)


def test_parquet_without_pyarrow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(DataError, match=r"`m` cannot be used: .* needs pyarrow to be read. Install it"):
        load_rows("m", path("a.parquet", target=("y",)), tmp_path)


# Validation --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "fraction"), [(10, 0.2), (10, 0.25), (7, 0.1), (90, 0.3), (3, 0.99), (1797, 0.2)])
def test_validation_fraction_cuts_where_keras_cuts(tmp_path: Path, count: int, fraction: float) -> None:
    import keras

    x = np.arange(count, dtype="float32")[:, None]
    np.savez(tmp_path / "a.npz", x=x, y=x[:, 0], sample_weight=np.ones(count))
    if int(count * (1.0 - fraction)) == 0:
        with pytest.raises(
            DataError, match=r"`validation=0.99` of 3 row\(s\) leaves 0 to train on and 3 to validate on"
        ):
            load_rows("a", path("a.npz", validation=fraction), tmp_path)
        return
    rows = load_rows("a", path("a.npz", validation=fraction), tmp_path)
    seen: list[int] = []

    class Probe(keras.Model):
        def train_step(self, data: tuple) -> dict:
            seen.append(int(tf.reduce_max(data[0])))
            return {"loss": tf.constant(0.0)}

        def test_step(self, data: tuple) -> dict:
            return {"loss": tf.constant(0.0)}

    probe = Probe()
    probe.compile(run_eagerly=True)
    probe.fit(x, x[:, 0], validation_split=fraction, batch_size=count, verbose=0, shuffle=False)
    assert rows.x[-1, 0] == seen[0]
    assert rows.validation.x[0, 0] == seen[0] + 1
    assert len(rows.x) + len(rows.validation.x) == count
    assert len(rows.validation.sample_weight) == len(rows.validation.y) == len(rows.validation.x)


def test_validation_file_keeps_the_features_and_classes_of_the_training_rows(tmp_path: Path) -> None:
    (tmp_path / "wine.csv").write_text(WINE)
    (tmp_path / "val.csv").write_text("hue,cultivar,ash\n3,grignolino,1\n5,barbera,2\n")
    rows = load_rows("wine", path("wine.csv", target=("cultivar",), validation="val.csv"), tmp_path)
    assert rows.validation.x.tolist() == [[1, 3], [2, 5]]
    assert rows.validation.y.tolist() == [2, 0]
    (tmp_path / "val.csv").write_text("hue,cultivar,ash\n3,asti,1\n")
    with pytest.raises(DataError, match=r"holds the class 'asti', and the training rows have only `barbera`"):
        load_rows("wine", path("wine.csv", target=("cultivar",), validation="val.csv"), tmp_path)


def test_class_names_that_read_as_numbers_stay_strings_in_the_validation_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("f,label\n1,7\n2,10\n3,other\n")
    (tmp_path / "val.csv").write_text("f,label\n1,10\n2,7\n")
    rows = load_rows("a", path("a.csv", target=("label",), validation="val.csv"), tmp_path)
    assert rows.validation.y.tolist() == [0, 1]


# Factories ---------------------------------------------------------------------------------------------------------

MODULE = """
import numpy as np, tensorflow as tf
def pair(n=3): return np.ones((n, 2)), list(range(n))
def weighted(): return np.ones((3, 2)), np.zeros(3), [1, 2, 3]
def dataset(): return tf.data.Dataset.range(3).map(lambda i: (i, i)).batch(2)
def two(): return (np.ones((3, 2)), np.zeros((3, 1))), np.zeros(3)
def mnist(): return (np.ones((3, 2)), np.zeros(3)), (np.ones((1, 2)), np.zeros(1))
def alone(): return np.ones(3)
def ragged(): return [[1, 2], [3]], [0, 1]
def objects(): return np.array([object(), 1], dtype=object), [0, 1]
def boom(): raise OSError("disk on fire")
def random(): return np.random.normal(size=(3, 2)), np.zeros(3)
"""


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    (tmp_path / "rows_zoo.py").write_text(MODULE)
    return tmp_path


def test_factory_needs_permission(zoo: Path) -> None:
    with pytest.raises(DataError, match=r"`m` cannot be used: .*`--allow-python` .* `allow_python=True`"):
        load_rows("m", factory("rows_zoo:pair"), zoo)
    assert "rows_zoo" not in sys.modules


def test_factory_gives_arrays_weights_or_a_dataset(zoo: Path) -> None:
    n = nodes.Option(nodes.Name("n"), nodes.Literal(5))
    rows = load_rows("m", factory("rows_zoo:pair", n), zoo, signature({"in": (None, 2)}), allow_python=True)
    assert (rows.x.shape, rows.y.tolist()) == ((5, 2), [0, 1, 2, 3, 4])
    assert load_rows("m", factory("rows_zoo:weighted"), zoo, allow_python=True).sample_weight.tolist() == [1, 2, 3]
    rows = load_rows("m", factory("rows_zoo:dataset"), zoo, allow_python=True)
    assert isinstance(rows.x, tf.data.Dataset)
    assert (rows.y, rows.num_rows) == (None, None)
    two = load_rows("m", factory("rows_zoo:two"), zoo, signature({"p": (None, 2), "q": (None, 1)}), allow_python=True)
    assert {name: array.shape for name, array in two.x.items()} == {"p": (3, 2), "q": (3, 1)}


def test_factory_is_seeded_by_the_members_name(zoo: Path) -> None:
    def draw(member: str) -> list:
        return load_rows(member, factory("rows_zoo:random"), zoo, allow_python=True).x.tolist()

    np.random.seed(1)
    before = np.random.get_state()[1].tolist()
    assert draw("a") == draw("a") != draw("b")
    assert np.random.get_state()[1].tolist() == before


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "rows_zoo:alone",
            r"returned a ndarray. Expected `\(x, y\)`, `\(x, y, sample_weight\)` or a `tf.data.Dataset`",
        ),
        ("rows_zoo:mnist", r"x of `rows_zoo:mnist` is a tuple of 2, and the model has 1 \(`in`\) of them"),
        ("rows_zoo:ragged", r"x of `rows_zoo:ragged` is no array"),
        ("rows_zoo:objects", r"holds Python objects \(a object among them\)"),
        ("rows_zoo:boom", r"the factory `rows_zoo:boom` raised OSError: disk on fire \(.*rows_zoo\.py:11\)"),
        ("rows_zoo:pairs", r"has no function `pairs`; did you mean `pair`\?"),
        ("rows_zoos:pair", r"the module `rows_zoos` .* was not found in .*; did you mean `rows_zoo`\?"),
    ],
)
def test_factory_faults_name_the_member_and_the_function(zoo: Path, name: str, message: str) -> None:
    with pytest.raises(DataError, match=r"the data of `m` cannot be used: .*" + message):
        load_rows("m", factory(name), zoo, signature({"in": (None, 2)}), allow_python=True)


def test_factory_dataset_cannot_be_cut(zoo: Path) -> None:
    with pytest.raises(DataError, match=r"`validation=0.2` cuts rows off arrays, and the factory returned"):
        load_rows("m", factory("rows_zoo:dataset", validation=0.2), zoo, allow_python=True)


# Gaps --------------------------------------------------------------------------------------------------------------


def test_nan_in_targets_warns_and_names_the_member(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.ones((4, 1)), y=[1.0, np.nan, 2.0, np.inf])
    with pytest.warns(ComposerWarning, match=r"the targets of `m` hold NaN or infinity in 2 of 4 rows, first in row 1"):
        rows = load_rows("m", path("a.npz"), tmp_path)
    assert rows.num_rows == 4
    (tmp_path / "a.csv").write_text("f,y\n1,0.5\n2,nan\n")
    with pytest.warns(ComposerWarning, match=r"`m` hold NaN or infinity in 1 of 2 rows"):
        load_rows("m", path("a.csv", target=("y",)), tmp_path)
