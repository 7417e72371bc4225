"""Where the providers of this plugin are, by its settings."""

import os
from collections.abc import Mapping
from typing import Any

from jobrunner import RetryableFailure, openai_like


def account(
    settings: Mapping[str, Any], url: str, key_env: str, otherwise: str = ""
) -> openai_like.Account:
    """Raises: RetryableFailure PROVIDER_KEY_MISSING or PROVIDER_MISSING, until the operator sets
    what is missing: nobody's work goes to a provider that nobody named."""
    variable = str(settings.get(key_env) or "")
    key = os.environ.get(variable, "") if variable else ""
    if variable and not key:
        text = f"the environment has no {variable}, which {key_env} names: set it and start again"
        raise RetryableFailure("PROVIDER_KEY_MISSING", text)
    base_url = str(settings.get(url) or otherwise)
    if not base_url:
        text = f"the built-in provider is not open, and {url} names no other: see the log"
        raise RetryableFailure("PROVIDER_MISSING", text)
    return openai_like.Account(base_url, key)
