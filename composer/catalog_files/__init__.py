"""Model files -> what they tell of their models, without a framework and without running anything of theirs."""

from __future__ import annotations

from composer.catalog_files.files import catalog_of as catalog_of
from composer.catalog_files.files import fault_of_file as fault_of_file
from composer.catalog_files.files import is_compiled as is_compiled
from composer.catalog_files.files import signature_of_file as signature_of_file
