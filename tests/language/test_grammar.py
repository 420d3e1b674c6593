"""Where the grammar is found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from composer.errors import InternalError
from composer.language import grammar

CHECKOUT = Path(__file__).parents[2] / "grammar" / "mgpu.lark"


def test_checkout_has_the_grammar_at_its_top() -> None:
    assert CHECKOUT.is_file()
    assert [path.name for path in CHECKOUT.parent.iterdir()] == ["mgpu.lark"]  # the whole folder ships


def test_packaged_grammar_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, text in (("composer/_grammar", "packaged"), ("grammar", "checkout")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "mgpu.lark").write_text(text, encoding="utf-8")
    monkeypatch.setattr(grammar.resources, "files", lambda package: tmp_path / package)
    assert grammar.read_grammar() == "packaged"
    (tmp_path / "composer/_grammar/mgpu.lark").unlink()
    assert grammar.read_grammar() == "checkout"


def test_missing_grammar_names_both_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grammar.resources, "files", lambda package: tmp_path / package)
    places = (tmp_path / "composer/_grammar/mgpu.lark", tmp_path / "grammar/mgpu.lark")
    with pytest.raises(InternalError, match=f"{re.escape(str(places[0]))}.*{re.escape(str(places[1]))}"):
        grammar.read_grammar()


def test_rules_stand_before_terminals_and_are_named_like_the_nodes() -> None:
    from composer.language import nodes

    text = CHECKOUT.read_text(encoding="utf-8")
    defined = re.findall(r"^\??([A-Za-z_]+)(?:\.\d+)?:", text, re.MULTILINE)
    rules = [name for name in defined if name.islower()]
    assert defined[: len(rules)] == rules
    classes = {re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower() for name in vars(nodes) if name[0].isupper()}
    helpers = {"composition", "alias", "device_set", "value", "entry", "key", "identifier_key", "arguments", "source"}
    assert set(rules) - helpers <= classes
