"""Reads ``config.toml``, overlaid by ``JOBRUNNER_SECTION__KEY``, into the struct of all settings.

Everything that is wrong is told at once, each fault with the key, the value and what is allowed.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct

from jobrunner.config import settings
from jobrunner.config.contradictions import contradictions
from jobrunner.config.environment import FromEnvironment, overlay
from jobrunner.errors import Misconfigured

SIZES = {"": 1, "b": 1, "kb": 1000, "mb": 1000**2, "gb": 1000**3, "tb": 1000**4}
SIZES |= {"kib": 1024, "mib": 1024**2, "gib": 1024**3, "tib": 1024**4}
DURATIONS = {"": 1, "ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def load(path: Path | None, environ: Mapping[str, str]) -> settings.Config:
    """Read ``path``, or without one ``config.toml`` of the working folder if it is there.

    Raises: Misconfigured, with every fault.
    """
    faults: list[str] = []
    tree = _file(path, faults)
    overlay(tree, environ, get_type_hints(settings.Config), faults)
    config = _read(settings.Config, tree, "", faults)
    if not faults:
        faults += contradictions(config)
    if faults:
        raise Misconfigured(*faults)
    assert isinstance(config, settings.Config)
    return config


def _file(path: Path | None, faults: list[str]) -> dict[str, Any]:
    chosen = path or Path("config.toml")
    if path is None and not chosen.exists():
        return {}
    try:
        return tomllib.loads(chosen.read_text(encoding="utf-8"))
    except OSError as error:
        faults.append(f"{chosen}: cannot be read: {error.strerror}")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        faults.append(f"{chosen}: is not TOML: {error}")
    return {}


def _read(kind: Any, raw: Any, path: str, faults: list[str]) -> Any:
    """``raw`` as ``kind``; what does not fit is noted and None returned in its place."""
    kind = _without_none(kind)
    if kind is settings.RetentionSettings:
        return _read_retention(raw, path, faults)
    if kind is settings.RateSettings and not isinstance(raw, dict):
        raw = {"limit": raw}
    if isinstance(kind, type) and issubclass(kind, Struct):
        return _read_struct(kind, raw, path, faults)
    if get_origin(kind) is dict:
        return _read_table(get_args(kind)[1], raw, path, faults)
    return _read_value(kind, raw, path, faults)


def _without_none(kind: Any) -> Any:
    optional = NoneType in get_args(kind)
    return next(part for part in get_args(kind) if part is not NoneType) if optional else kind


def _read_struct(kind: type[Struct], raw: Any, path: str, faults: list[str]) -> Any:
    if not _is_table(raw, path, faults):
        return None
    hints = get_type_hints(kind, include_extras=True)
    for key in raw:
        if key not in hints:
            origin = f" (from {raw[key].variable})" if isinstance(raw[key], FromEnvironment) else ""
            hint = settings.nearest(key, list(hints))
            faults.append(f"{_join(path, key)}: no such key; {hint}{origin}")
    if kind is settings.WorkflowSettings and isinstance(raw.get("stages"), dict):
        raw = raw | {"stages": _flat(raw["stages"])}
    return kind(
        **{
            key: _read(hint, raw[key], _join(path, key), faults)
            for key, hint in hints.items()
            if key in raw
        }
    )


def _read_retention(raw: Any, path: str, faults: list[str]) -> Any:
    """A status has an age, whatever its name, and ``keep`` is none."""
    if not _is_table(raw, path, faults):
        return None
    ages = {name: value for name, value in raw.items() if name != "keep"}
    keep = (
        _read(settings.Amount, raw["keep"], _join(path, "keep"), faults) if "keep" in raw else None
    )
    return settings.RetentionSettings(keep, _read_table(settings.Duration, ages, path, faults))


def _read_table(kind: Any, raw: Any, path: str, faults: list[str]) -> Any:
    if not _is_table(raw, path, faults):
        return None
    defaults = settings.Config().resources if path == "resources" else {}
    return defaults | {key: _read(kind, raw[key], _join(path, key), faults) for key in raw}


def _is_table(raw: Any, path: str, faults: list[str]) -> bool:
    if isinstance(raw, dict):
        return True
    faults.append(_fault(path, raw, "a table of keys"))
    return False


def _flat(stages: dict[str, Any]) -> dict[str, Any]:
    """TOML reads an unquoted ``processing.tts`` as a table in a table; it means the same."""
    flat: dict[str, Any] = {}
    for key, value in stages.items():
        nested = value if isinstance(value, dict) else {}
        flat |= {f"{key}.{job_type}": stage for job_type, stage in nested.items()}
        if not nested:
            flat[key] = value
    return flat


def _read_value(kind: Any, raw: Any, path: str, faults: list[str]) -> Any:
    allowed = _allowed(kind)
    try:
        value = _plain(kind, raw)
        if kind in (settings.Size, settings.Space, settings.Duration) and isinstance(value, str):
            whole = kind is not settings.Duration
            value = _measure(value, SIZES if whole else DURATIONS, whole=whole)
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, ValueError):
        faults.append(_fault(path, raw, allowed))
        return None


def _allowed(kind: Any) -> str:
    return next(
        note.description
        for note in getattr(kind, "__metadata__", ())
        if isinstance(note, Meta) and note.description
    )


def _plain(kind: Any, raw: Any) -> Any:
    """Turn texts of the environment that no type has read yet into values, however deep they
    stand."""
    if isinstance(raw, FromEnvironment):
        return _from_text(kind, raw.text)
    if isinstance(raw, dict):
        return {key: _plain(settings.Anything, value) for key, value in raw.items()}
    return raw


def _from_text(kind: Any, text: str) -> Any:
    """Read a variable's text: itself where text is wanted, else a value as TOML writes it."""
    if kind in (settings.Text, settings.Address, settings.Mode, settings.Folder):
        return text
    if kind is settings.Texts and not text.lstrip().startswith("["):
        return [part.strip() for part in text.split(",") if part.strip()]
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _measure(text: str, units: Mapping[str, float], *, whole: bool) -> float:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", text)
    if not match or match[2].lower() not in units:
        raise ValueError(text)
    value = float(match[1]) * units[match[2].lower()]
    return int(value) if whole else value


def _fault(path: str, raw: Any, allowed: str) -> str:
    if isinstance(raw, FromEnvironment):
        return f"{path} = {raw.text!r}: must be {allowed} (from {raw.variable})"
    return f"{path} = {raw!r}: must be {allowed}"


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
