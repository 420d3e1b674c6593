"""The verbs, one module each: `command` in it is what `composer VERB` runs."""
