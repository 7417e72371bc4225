"""The addresses that we hand out, as those who get them reach us.

A proxy may have us under a path of its own; then every path of ours begins with that one, wherever
it is told: in headers, in what is said of files and results, in what a workflow answers. It is kept
without, so that another path tomorrow makes no stored address wrong.
"""

from typing import Any

from jobrunner.http.frame.endpoint import HttpCall


def link(call: HttpCall, path: str) -> str:
    """A path of ours as it is reached; what is no path of ours stays as it is."""
    base = call.door.settings.base_path
    ours = path.startswith("/") and not path.startswith("//")
    return base + path if base and ours and not path.startswith(f"{base}/") else path


def linked(call: HttpCall, fields: dict[str, Any]) -> dict[str, Any]:
    """The same for everything in there that is called a url."""
    return _walked(call, fields) if call.door.settings.base_path else fields


def _walked(call: HttpCall, value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _walked(call, one, str(key)) for key, one in value.items()}
    if isinstance(value, list):
        return [_walked(call, one, name) for one in value]
    if isinstance(value, str) and name.lower().endswith("url"):
        return link(call, value)
    return value
