"""`KeyedModel`: one small model for each value of a column, as one Keras model. What `per=` makes of a model.

The weights of all of them are stacked on a leading axis, in the order of the keys. No key has a Keras model of its own
until somebody asks for it (`KeyedModel.model_of`): ten thousand of them would take longer to make than to train.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from composer.errors import DataError, GraphError
from composer.graph.layers import call_model, register
from composer.graph.private import unlocked, untrack
from composer.graph.signatures import input_structure, own_names

_BUCKETS = 2**62
_HASH_KEY = (0x6D67, 0x7075)  # any will do: keys are hashed anew wherever a model is made


@register
class KeyedLayer(keras.layers.Layer):
    """Runs each row through the weights of its key.

    Args:
        template: the model of which every key has one; all begin with its weights.
        column: the name of the input that holds the keys.
        keys: all keys, in order; none before the first training.
        slots: the shapes and dtypes of the optimizers' variables, stacked like the weights; none before that.

    Input shape: a dict of `(rows,)` strings under `column`, and the template's inputs under their names.
    Output shape: the template's, `(rows, ...)`.
    """

    def __init__(
        self,
        template: keras.Model,
        column: str,
        keys: Sequence[str] = (),
        slots: Sequence[tuple[Sequence[int], str]] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        # Keras tracks what it finds in attributes; the template's own weights are no part of this layer.
        self._held = SimpleNamespace(template=template, variables=template_variables(template))
        self.column = column
        self.keys: tuple[str, ...] = ()
        self.stacked: list[keras.Variable] = []
        self.slots: list[keras.Variable] = []
        self._hashes = np.zeros(0, np.int64)
        self._sorted = np.zeros(0, np.int64)
        if keys:
            self.learn(keys)
            self.make_slots([(tuple(shape), dtype) for shape, dtype in slots])

    @property
    def template(self) -> keras.Model:
        model: keras.Model = self._held.template
        return model

    def learn(self, keys: Sequence[str]) -> None:
        """Make the weights of all keys."""
        hashes = tf.strings.to_hash_bucket_strong(list(keys), _BUCKETS, _HASH_KEY).numpy()
        if len(set(hashes.tolist())) != len(keys):
            raise DataError(f"the keys of `{self.column}` are not distinct")
        self.keys = tuple(keys)
        self._sorted = np.argsort(hashes)
        self._hashes = hashes[self._sorted]
        with unlocked(self):
            self.stacked = [self._stack(number, each) for number, each in enumerate(self._held.variables)]

    def _stack(self, number: int, variable: keras.Variable) -> keras.Variable:
        """A variable for all keys, each beginning with the template's value. Seeds and counters are stacked too."""
        value = np.array(variable)
        return self.add_weight(
            name=f"{number}_{variable.name}",
            shape=(len(self.keys), *value.shape),
            dtype=variable.dtype,
            initializer=lambda shape, dtype=None: tf.broadcast_to(tf.constant(value, dtype), shape),
            trainable=bool(variable.trainable),
        )

    def make_slots(self, specs: Sequence[tuple[tuple[int, ...], str]]) -> None:
        """Make variables for what the optimizers of all keys keep, unless they are there."""
        if list(specs) == self.slot_specs:
            return
        untrack(self, self.slots)
        with unlocked(self):
            self.slots = [
                self.add_weight(name=f"slot_{number}", shape=shape, dtype=dtype, initializer="zeros", trainable=False)
                for number, (shape, dtype) in enumerate(specs)
            ]

    @property
    def slot_specs(self) -> list[tuple[tuple[int, ...], str]]:
        """The shapes and dtypes of the optimizers' variables."""
        return [(tuple(each.shape), str(each.dtype)) for each in self.slots]

    def build(self, *_: Any) -> None:
        self.built = True

    def call(self, inputs: dict[str, Any]) -> Any:
        if not self.keys:
            raise GraphError(
                f"`{self.name}` knows no key of `{self.column}` yet: it learns them from the rows of `fit`"
            )
        states = [tf.gather(variable.value, self._positions(inputs[self.column])) for variable in self.stacked]

        def one(each: Any) -> Any:
            state, row = each
            with keras.StatelessScope(list(zip(self._held.variables, state, strict=True))):
                outputs = call_model(self.template, keras.tree.map_structure(lambda x: x[None], row), False)
            return keras.tree.map_structure(lambda output: output[0], outputs)

        return tf.vectorized_map(one, (states, template_inputs(self.template, inputs)), warn=False)

    def _positions(self, keys: Any) -> Any:
        """Of each row the position of its key."""
        hashes = tf.strings.to_hash_bucket_strong(keys, _BUCKETS, _HASH_KEY)
        found = tf.minimum(tf.searchsorted(self._hashes, hashes), len(self.keys) - 1)
        known = tf.reduce_all(tf.equal(tf.gather(self._hashes, found), hashes))
        with tf.control_dependencies([tf.debugging.Assert(known, [f"a key of `{self.column}` is not known"])]):
            return tf.gather(self._sorted, found)

    def positions(self, keys: np.ndarray) -> np.ndarray:
        """Of each row the position of its key.

        Raises:
            DataError: naming those that are not known.
        """
        where = {key: position for position, key in enumerate(self.keys)}
        distinct, inverse = np.unique(keys, return_inverse=True)
        unknown = [key for key in distinct.tolist() if key not in where]
        if unknown:
            told = ", ".join(f"`{key}`" for key in unknown[:5])
            more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
            raise DataError(f"no model for {told}{more} of `{self.column}`: these were not among the rows trained on")
        return np.array([where[key] for key in distinct.tolist()], np.int64)[inverse]

    def compute_output_spec(self, inputs: dict[str, Any]) -> Any:
        return self.template.compute_output_spec(template_inputs(self.template, inputs))

    def get_config(self) -> dict[str, Any]:
        template = keras.saving.serialize_keras_object(self.template)
        own = {"template": template, "column": self.column, "keys": list(self.keys), "slots": self.slot_specs}
        return {**super().get_config(), **own}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> KeyedLayer:
        template = keras.saving.deserialize_keras_object(config.pop("template"))
        return cls(template=template, **config)


@register
class KeyedModel(keras.Model):
    """One model for each value of a column, as one Keras model.

    It takes `{column: keys, input: rows}` and gives the template's outputs, row by row. Keys are strings; whole numbers
    stand for the strings that they are written as.

    Args:
        layer: see `KeyedLayer`.

    Example:
        >>> template = keras.Sequential([keras.layers.Input((3,), name="x"), keras.layers.Dense(1)])
        >>> keyed = KeyedModel(KeyedLayer(template, "store", ["north", "south"]))
        >>> keyed({"store": tf.constant(["south"]), "x": tf.zeros((1, 3))}).shape
        TensorShape([1, 1])
    """

    def __init__(self, layer: KeyedLayer, name: str | None = None) -> None:
        structure = input_structure(layer.template)
        leaves, names = keras.tree.flatten(structure), own_names(structure, "x")
        if layer.column in names:
            raise GraphError(f"the model has an input `{layer.column}`, which is the column of its keys")
        given = {layer.column: keras.Input((), dtype="string", name=layer.column)}
        for each, leaf in zip(names, leaves, strict=True):
            given[each] = keras.Input(leaf.shape[1:], dtype=leaf.dtype, name=each)
        super().__init__(inputs=given, outputs=layer(given), name=name or layer.template.name)

    @property
    def layer(self) -> KeyedLayer:
        """Holds the weights of all keys."""
        found: KeyedLayer = next(layer for layer in self.layers if isinstance(layer, KeyedLayer))
        return found

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys, in the order of the stacked weights; none before the first training."""
        return self.layer.keys

    def model_of(self, key: str) -> keras.Model:
        """A Keras model of its own with the weights of a key.

        Raises:
            DataError: if the key is not known.
        """
        (position,) = self.layer.positions(np.array([str(key)]))
        model = keras.models.clone_model(self.layer.template)
        for variable, stacked in zip(template_variables(model), self.layer.stacked, strict=True):
            variable.assign(stacked.value[position])
        return model

    def get_config(self) -> dict[str, Any]:
        return {"layer": keras.saving.serialize_keras_object(self.layer), "name": self.name}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> KeyedModel:
        return cls(keras.saving.deserialize_keras_object(config["layer"], custom_objects), name=config["name"])

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """As Keras does, but for the optimizer's slots: each key has its own, among the layer's weights."""
        self.compile(**keras.saving.deserialize_keras_object(config))


def keyed_model(name: str, template: keras.Model, column: str) -> KeyedModel:
    """A model for each key, all beginning as the template is now; that is left as it is.

    Raises:
        GraphError: if the template cannot be made again from its config.
    """
    try:
        own = keras.models.clone_model(template)
        own.set_weights(template.get_weights())
    except Exception as error:  # whatever a class of the user's own raises
        raise GraphError(
            f"`{name}` cannot be made for each `{column}`: its model cannot be copied ({error})"
        ) from error
    keyed = KeyedModel(KeyedLayer(own, column, name=f"{name}.keyed"), name=template.name)
    if template.compiled:
        keyed.compile_from_config(template.get_compile_config())
    return keyed


def last_rows(keys: np.ndarray, fraction: float) -> np.ndarray:
    """Which rows are to validate on: of each key the last ones, as Keras' `validation_split` cuts. A key with too few
    to be cut trains on all it has.

    Args:
        keys: of each row.
        fraction: of the rows of a key.
    """
    positions, counts = np.unique(keys, return_inverse=True, return_counts=True)[1:]
    cut = np.floor(counts * (1.0 - fraction))
    return places_in_key(positions) >= np.where(cut > 0, cut, counts)[positions]


def places_in_key(positions: np.ndarray) -> np.ndarray:
    """Of each row, the how manyth of its key it is, from 0; keys are given by their positions."""
    order = np.argsort(positions, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(positions))])
    places = np.empty_like(order)
    places[order] = np.arange(len(order)) - starts[positions[order]]
    return places


def template_variables(template: keras.Model) -> list[keras.Variable]:
    """The variables that every key has its own of: weights, then statistics and seeds."""
    return [*template.trainable_variables, *template.non_trainable_variables]


def template_inputs(template: keras.Model, inputs: dict[str, Any]) -> Any:
    """A template's inputs in its own structure, from a dict by name."""
    structure = input_structure(template)
    return keras.tree.pack_sequence_as(structure, [inputs[name] for name in own_names(structure, "x")])
