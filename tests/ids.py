"""Names of parameters that are the same in every process, as pytest-xdist wants them."""

import re


def shown(value):
    """Return the repr of a value without addresses."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
