"""Sizes of a whole model, added up layer by layer; a size is None as soon as one part of it is unknown."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from composer.catalog_files.sizes import Config, LayerSizes, Shape, product, total

_COUPLED = frozenset({"BatchNormalization"})


@dataclass(slots=True)
class Tally:
    """What is counted: weights once for each layer, work and outputs once for each call."""

    trainable: int | None = 0
    fixed: int | None = 0
    weight_bytes: int | None = 0
    flops: int | None = 0
    activation_bytes: int | None = 0
    stateful: list[str] = field(default_factory=list)
    coupled: list[str] = field(default_factory=list)
    row_losses: list[str] = field(default_factory=list)
    _weighed: set[Hashable] = field(default_factory=set)

    def add_weights(self, key: Hashable, sizes: LayerSizes, trainable: bool, bytes_each: int | None) -> None:
        """Counts a layer's weights; a second time under the same key counts nothing."""
        if key in self._weighed:
            return
        self._weighed.add(key)
        if trainable:
            self.trainable = total((self.trainable, sizes.trainable))
            self.fixed = total((self.fixed, sizes.fixed))
        else:
            self.fixed = total((self.fixed, sizes.trainable, sizes.fixed))
            self.trainable = total((self.trainable, None if sizes.trainable is None else 0))
        weights = total((sizes.trainable, sizes.fixed))
        self.weight_bytes = total((self.weight_bytes, product((weights, bytes_each)), sizes.wide_bytes))

    def add_call(self, flops: int | None, outputs: Sequence[Shape | None], bytes_each: int | None) -> None:
        """Counts the work of one call and its outputs; no outputs at all means that they are not known."""
        self.flops = total((self.flops, flops))
        shapes = [None if shape is None else product((*shape[1:], bytes_each)) for shape in outputs] or [None]
        self.activation_bytes = total((self.activation_bytes, *shapes))

    def add_traits(self, class_name: str, config: Config) -> None:
        """Notes what forbids or changes a split, which a config tells of any layer, known or not."""
        name = str(config.get("name", class_name))
        if config.get("stateful") is True:
            self.stateful.append(name)
        if class_name in _COUPLED:
            self.coupled.append(name)
        if config.get("activity_regularizer") is not None or class_name == "ActivityRegularization":
            self.row_losses.append(name)

    def add_repeated(self, part: Tally, times: int | None) -> None:
        """Counts a part that is called `times` over, its weights once."""
        self.trainable = total((self.trainable, part.trainable))
        self.fixed = total((self.fixed, part.fixed))
        self.weight_bytes = total((self.weight_bytes, part.weight_bytes))
        self.flops = total((self.flops, product((part.flops, times))))
        self.activation_bytes = total((self.activation_bytes, product((part.activation_bytes, times))))
        self.stateful += part.stateful
        self.coupled += part.coupled
        self.row_losses += part.row_losses
