"""A solver's configuration, some integers, as the databases hold it: ``8,3,64,256``."""

from __future__ import annotations

import re

Config = tuple[int, ...]


def config_text(config: Config) -> str:
    """Return the text of a configuration."""
    return ",".join(map(str, config))


def parse_config(text: str) -> Config | None:
    """Return the configuration that a text stands for, None for anything but integers between commas."""
    whole = re.fullmatch(r"-?\d{1,18}(?:,-?\d{1,18})*", text, re.ASCII)
    return tuple(map(int, text.split(","))) if whole else None
