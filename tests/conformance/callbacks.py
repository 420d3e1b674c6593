"""Every callback of Keras, each on a training in which it has something to do."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tests.conformance.found import classes
from tests.conformance.optimizers import net, numbers
from tests.conformance.trials import Entry, Rows, Trained, Trial

REASONS = {
    "Callback": "the base class",
    "CallbackList": "what `fit` makes of a list of callbacks",
    "OrbaxCheckpoint": "needs the package orbax-checkpoint, which composer does not depend on",
}

if find_spec("tensorboard") is None:
    REASONS["TensorBoard"] = "needs the package tensorboard, which is not installed"

EPOCHS = 4


@dataclass(frozen=True)
class Watched:
    """A callback in a training.

    Args:
        make: makes the callbacks, which may write to a folder.
        shows: asserts that the callback did its work in a training.
        optimizer: makes the optimizer.
        rows: makes the rows.
    """

    make: Callable[[Path], list[keras.callbacks.Callback]]
    shows: Callable[[Trained], None]
    optimizer: Callable[[], Any] = lambda: keras.optimizers.SGD(0.1)
    rows: Callable[[int], Rows] = numbers


def entries() -> Iterator[Entry]:
    for name in classes(keras.callbacks, keras.callbacks.Callback):
        if name in WATCHED and name not in REASONS:
            watched = WATCHED[name]
            trial = Trial(
                f"callback {name}",
                net,
                watched.rows,
                lambda watched=watched: {"optimizer": watched.optimizer(), "loss": "mse"},
                watched.make,
                {"epochs": EPOCHS},
                validated=True,
            )
            yield Entry("callback", name, trial)


# What each one does --------------------------------------------------------------------------------------------------


def _stopped_early(trained: Trained) -> None:
    (early,) = trained.callbacks
    assert (early.best_epoch, early.stopped_epoch, len(trained.history["loss"])) == (0, 2, 3)
    for weight, best in zip(trained.model.get_weights(), early.best_weights, strict=True):
        np.testing.assert_array_equal(weight, best)


def _rates(*expected: float) -> Callable[[Trained], None]:
    def shows(trained: Trained) -> None:
        np.testing.assert_allclose(trained.history["learning_rate"], expected, rtol=1e-6)

    return shows


def _wrote(*names: str) -> Callable[[Trained], None]:
    def shows(trained: Trained) -> None:
        assert set(trained.files) == set(names)
        assert all(len(values) > 0 for values in trained.files.values())

    return shows


def _logged_curves(trained: Trained) -> None:
    assert set(trained.files) == {"logs/train/events", "logs/validation/events"}
    curve = [trained.files["logs/validation/events"][f"epoch_loss {epoch}"] for epoch in range(EPOCHS)]
    np.testing.assert_allclose(curve, trained.history["val_loss"], rtol=1e-6)


def _stopped_at_nan(trained: Trained) -> None:
    assert trained.model.stop_training
    assert len(trained.history["loss"]) == 1
    assert np.isnan(trained.history["loss"][0])
    assert int(trained.model.optimizer.iterations) == 2


def _averaged(trained: Trained) -> None:
    """The run ends with the averages in place of the weights."""
    for weight, average in zip(
        trained.model.trainable_variables, trained.model.optimizer._model_variables_moving_average, strict=True
    ):
        np.testing.assert_array_equal(weight, average)


def _heard(trained: Trained) -> None:
    (listener,) = trained.callbacks
    assert [epoch for epoch, _ in listener.heard] == list(range(EPOCHS))
    assert listener.heard[-1][1]["val_loss"] == trained.history["val_loss"][-1]


def _posted(trained: Trained) -> None:
    (monitor,) = trained.callbacks
    assert [post["epoch"] for post in _posts()[monitor.path]] == list(range(EPOCHS))
    assert [post["loss"] for post in _posts()[monitor.path]] == trained.history["loss"]


def _kept(trained: Trained) -> None:
    (history,) = trained.callbacks
    assert history.history == trained.history
    assert history.epoch == list(range(EPOCHS))


def _trained_on(trained: Trained) -> None:
    assert len(trained.history["loss"]) == EPOCHS


# How each one is made ------------------------------------------------------------------------------------------------


def _with_a_hole(n: int) -> Rows:
    """Rows of which the sixth is NaN: in the second batch, whatever its size."""
    x, y = numbers(n)
    if n > 6:  # the validation rows are whole
        x[5] = np.nan
    return x, y


def _listener(folder: Path) -> list[keras.callbacks.Callback]:
    heard: list[Any] = []
    listener = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: heard.append((epoch, dict(logs))))
    listener.heard = heard
    return [listener]


def _checkpoints(folder: Path) -> list[keras.callbacks.Callback]:
    make = keras.callbacks.ModelCheckpoint
    return [
        make(folder / "best.keras", monitor="val_loss", save_best_only=True),
        make(str(folder / "{epoch:02d}.weights.h5"), save_weights_only=True),
    ]


@cache
def _server() -> tuple[ThreadingHTTPServer, dict[str, list[Any]]]:
    """A server in this process that keeps what is posted to it, by path."""
    posts: dict[str, list[Any]] = {}

    class Keep(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            posts.setdefault(self.path, []).append(json.loads(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Keep)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, posts


def _posts() -> dict[str, list[Any]]:
    return _server()[1]


def _monitor(folder: Path) -> list[keras.callbacks.Callback]:
    root = f"http://127.0.0.1:{_server()[0].server_port}"
    return [keras.callbacks.RemoteMonitor(root=root, path=f"/{folder.name}", send_as_json=True)]


WATCHED: dict[str, Watched] = {
    "BackupAndRestore": Watched(
        lambda folder: [keras.callbacks.BackupAndRestore(folder / "backup", delete_checkpoint=False)],
        _wrote("backup/latest.weights.h5", "backup/training_metadata.json"),
        lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    ),
    "CSVLogger": Watched(lambda folder: [keras.callbacks.CSVLogger(folder / "log.csv")], _wrote("log.csv")),
    "EarlyStopping": Watched(
        lambda folder: [keras.callbacks.EarlyStopping(patience=2, min_delta=10.0, restore_best_weights=True)],
        _stopped_early,
    ),
    "History": Watched(lambda folder: [keras.callbacks.History()], _kept),
    "LambdaCallback": Watched(_listener, _heard),
    "LearningRateScheduler": Watched(
        lambda folder: [keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.5)],
        _rates(0.05, 0.025, 0.0125, 0.00625),
    ),
    "ModelCheckpoint": Watched(
        _checkpoints, _wrote("best.keras", *(f"{epoch:02d}.weights.h5" for epoch in range(1, EPOCHS + 1)))
    ),
    "ProgbarLogger": Watched(lambda folder: [keras.callbacks.ProgbarLogger()], _trained_on),
    "ReduceLROnPlateau": Watched(
        lambda folder: [keras.callbacks.ReduceLROnPlateau(factor=0.5, patience=1, min_delta=10.0)],
        _rates(0.1, 0.1, 0.05, 0.025),
    ),
    "RemoteMonitor": Watched(_monitor, _posted),
    "SwapEMAWeights": Watched(
        lambda folder: [keras.callbacks.SwapEMAWeights(swap_on_epoch=True)],
        _averaged,
        lambda: keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5),
    ),
    "TensorBoard": Watched(lambda folder: [keras.callbacks.TensorBoard(folder / "logs")], _logged_curves),
    "TerminateOnNaN": Watched(lambda folder: [keras.callbacks.TerminateOnNaN()], _stopped_at_nan, rows=_with_a_hole),
}
