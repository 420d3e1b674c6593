"""Whatever a spec says, the compiler answers with a plan or with diagnostics."""

from __future__ import annotations

from hypothesis import given, settings

from composer.compiler.planner import plan, topology_for
from composer.compiler.resolver import diagnose, resolve
from composer.compiler.schema import validate_plan
from composer.errors import SpecError
from composer.language import nodes
from composer.source import SourceText
from tests.language.strategies import specs

SOURCE = SourceText("")


@settings(max_examples=200, deadline=None)
@given(specs)
def test_any_tree_gives_a_plan_or_diagnostics(spec: nodes.Spec) -> None:
    errors = [fault for fault in diagnose(spec, SOURCE) if fault.severity == "error"]
    if errors:
        return
    try:
        composition = resolve(spec, SOURCE)
        document = plan(composition, topology_for(composition), source=SOURCE).to_dict()
    except SpecError as error:  # which composition is meant, or what only a plan tells
        codes = {fault.code for fault in error.diagnostics}
        assert codes == {"MG202"} or all(code.startswith("MG3") for code in codes)
    else:
        validate_plan(document)
