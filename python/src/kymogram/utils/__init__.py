"""Modules under the names that programs written for Metrana import."""

_MODULES = ("enums", "env_vars", "exceptions", "git_utils", "logging", "orchestration")


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f".{name}", __name__)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
