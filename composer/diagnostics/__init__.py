"""Diagnostics as data: the registry of codes, `Diagnostic`, and the renderers for people and for programs."""

from __future__ import annotations

from composer.diagnostics.code import Code as Code
from composer.diagnostics.codes import CODES as CODES
from composer.diagnostics.codes import FAMILIES as FAMILIES
from composer.diagnostics.diagnostic import Diagnostic as Diagnostic
from composer.diagnostics.diagnostic import Severity as Severity
from composer.diagnostics.near import did_you_mean as did_you_mean
from composer.diagnostics.near import near_files as near_files
from composer.diagnostics.near import near_names as near_names
from composer.diagnostics.near import quoted_list as quoted_list
from composer.diagnostics.report import render_json as render_json
from composer.diagnostics.report import to_dict as to_dict
from composer.diagnostics.text import render_text as render_text
