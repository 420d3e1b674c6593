"""A plan prints itself the same each time, and its JSON form fits its schema."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from pydantic import ValidationError

from composer.catalog import TensorSignature
from composer.compiler.schema import SCHEMA_URI, plan_schema, validate_plan
from tests.compiler.specs import planned, signature

FULL = """
model net = zoo.vision:lenet(filters=16, sizes=[1, 2], act=relu(alpha=0.1), by={1: "a"})
model wine = "wine.keras"
data net = "x.npz" validation=0.2
data wine = "wine.csv" target=[a, b] features=[c] validation="held.csv" shuffle=false
train net_0 optimizer=adam(learning_rate=cosine_decay(initial_learning_rate=1e-3, decay_steps=9)) class_weight={0: 2}
train wine loss={up: mse, down: mae} metrics=[[accuracy], none] callbacks=[early_stopping(patience=3)] batch=8
let fleet = parallel(net copies=2, wine x2 group=auto, wine as red at=gpu:1) on gpus=2 merge=gpu:1 weights=cpu
"""
ENDS = tuple(TensorSignature(name, (None, 1), "float32") for name in ("up", "down"))
CATALOG = {"wine": replace(signature(100, 1_234_567, 4096, coupled_layers=("bn",)), outputs=ENDS)}


def test_text_and_json_are_the_same_each_time() -> None:
    one, two = planned(FULL, CATALOG), planned(FULL, CATALOG)
    assert str(one) == one.to_text() == str(two)
    assert one.to_json() == two.to_json()
    assert one.to_dict() == json.loads(one.to_json())


def test_text_shows_members_devices_notes_and_warnings() -> None:
    text = str(planned(FULL, CATALOG))
    lines = text.splitlines()
    assert lines[0] == "plan `fleet`: 4 members on gpu:0 gpu:1"
    assert lines[1] == "merge=gpu:1 weights=cpu fuse=auto jit=auto"
    assert "1,234,567" in text
    assert "MG320: replicas of `wine`" in text
    table = lines[lines.index("members") + 1 : lines.index("devices") - 1]
    starts = {line.index("gpu:") for line in table[1:]}
    assert starts == {table[0].index("replicas")}, "columns are aligned"


def test_the_json_form_fits_the_schema() -> None:
    document = planned(FULL, CATALOG).to_dict()
    validate_plan(document)
    assert document["models"][0]["source"] == {
        "factory": "zoo.vision:lenet",
        "arguments": {
            "filters": 16,
            "sizes": [1, 2],
            "act": {"call": "relu", "arguments": {"alpha": 0.1}},
            "by": {"map": [[1, "a"]]},
        },
    }
    assert document["members"][0]["train"]["optimizer"]["arguments"]["learning_rate"]["call"] == "CosineDecay"
    assert document["members"][2]["train"]["loss"]["map"][1] == ["down", {"call": "mae", "arguments": {}}]
    assert document["members"][3]["devices"] == ["gpu:1"]
    assert document["warnings"][0]["range"]["start"]["line"] == 8


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("format",), "other"),
        (("format_version",), 2),
        (("members", 0, "devices"), []),
        (("members", 0, "devices"), ["tpu:0"]),
        (("members", 0, "surplus"), 1),
        (("devices", 0, "parameters"), -1),
        (("options", "weights"), "somewhere"),
    ],
)
def test_another_document_does_not_fit(path: tuple[str | int, ...], value: object) -> None:
    document = planned(FULL, CATALOG).to_dict()
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(ValidationError, match="for PlanDocument"):
        validate_plan(document)


def test_the_schema_is_published_with_its_version() -> None:
    schema = plan_schema()
    assert schema["$schema"] == SCHEMA_URI
    assert schema["$id"] == "composer-plan-1"
    assert set(schema["required"]) == set(schema["properties"]) == set(planned(FULL).to_dict())
    json.dumps(schema)
