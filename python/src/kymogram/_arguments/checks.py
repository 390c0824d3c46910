"""The checks of the table: each takes an argument's name and what was given for it."""

from __future__ import annotations

from .._exceptions import KymogramValidationError
from .._input import attributes, naming, numeric
from .._say import voice
from .._spool import folders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from enum import Enum
    from typing import Any

    Check = Callable[[str, Any], Any]

_UPLOADS = ("all", "triggered", "off")
_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")
_LEAST_INTERVAL_S = 0.1


def as_given(what: str, value: Any) -> Any:
    """Nothing is checked here."""
    return value


def choice(parse: Callable[[object], Enum]) -> Check:
    """One of a few words."""
    return lambda what, value: parse(value).value


def count(what: str, value: Any, least: int = 1) -> int:
    """A whole number that is not below the least."""
    try:
        number = int(str(value)) if isinstance(value, str) else numeric.exact_int(what, value)
    except ValueError:
        number = least - 1
    if number < least:
        raise KymogramValidationError(f"{what} is a whole number from {least} on, got {value!r}")
    return number


def retries(what: str, value: Any) -> int | None:
    """So many tries; None is no limit."""
    return None if value is None else count(what, value, 0)


def capacity(what: str, value: Any) -> int:
    """Most un-acked points; Metrana takes 0, where one finds room all the same."""
    return max(count(what, value, 0), 1)


def at_least_one(default: int) -> Check:
    """A number from 1 on; None is the default."""

    def check(what: str, value: Any) -> int:
        if value is None:
            return default
        number = numeric.exact_int(what, value)
        if number < 1:
            raise KymogramValidationError(f"{what} is {number}, it must be at least 1")
        return number

    return check


def milliseconds(what: str, value: Any) -> int:
    """Seconds, as whole milliseconds of at most a day."""
    return in_ms(numeric.seconds(what, value))


def in_ms(seconds: float) -> int:
    """Whole milliseconds of at most a day, at least one."""
    return max(1, round(min(seconds, 86_400.0) * 1000))


def limit(what: str, value: Any) -> float:
    """Seconds, with the name of the argument before any complaint."""
    try:
        return numeric.seconds(what, float(value))
    except (TypeError, ValueError) as error:
        raise KymogramValidationError(f"{what}: {error}") from None


def interval(what: str, value: Any) -> float:
    """Seconds between two samples."""
    seconds = numeric.seconds(what, value)
    if seconds < _LEAST_INTERVAL_S:
        raise KymogramValidationError(
            f"{what} is {seconds:g}, it must be at least {_LEAST_INTERVAL_S:g}"
        )
    return seconds


def yes_or_no(what: str, value: Any) -> bool:
    """A truth value, or a word for one."""
    if not isinstance(value, str):
        return bool(value)
    return _word(what, value, (*_FALSE, ""))


def variable(what: str, text: str) -> bool:
    """A yes or no of the environment."""
    return _word("KYMOGRAM_" + what.upper(), text, _FALSE)


def _word(what: str, text: str, false: tuple[str, ...]) -> bool:
    if text.lower() not in _TRUE + false:
        raise KymogramValidationError(f"{what} is {text!r}, it must be true or false")
    return text.lower() in _TRUE


def capture(what: str, text: str) -> bool:
    """A yes or no of the environment, about the machine."""
    return flag(what.upper(), text)


def flag(name: str, text: str) -> bool:
    """A yes or no of the variable KYMOGRAM_name."""
    if text.lower() in _TRUE or text.lower() in _FALSE:
        return text.lower() in _TRUE
    raise KymogramValidationError(f"KYMOGRAM_{name} is true or false, got {text!r}")


def run(what: str, value: Any) -> str:
    """A run's name."""
    return naming.run(value, what)


def logger_id(what: str, value: Any) -> str:
    """An unsigned 64-bit number; JSON carries it as text."""
    number = numeric.exact_int(what, value) if not isinstance(value, int) else value
    if not 0 <= number < 1 << 64:
        raise KymogramValidationError(f"{what} is from 0 to 2^64 - 1, got {value!r}")
    return str(number)


def dtype(what: str, value: Any) -> Any:
    """A dtype that values can have."""
    numeric.kind_of(value)
    return value


def tags(what: str, value: Any) -> list[dict[str, Any]]:
    """The updates that set the tags."""
    return attributes.tags("set_tags", value) if value else []


def description(what: str, value: Any) -> list[dict[str, Any]]:
    """The updates that set the description."""
    return [{"op": "set_description", "text": attributes.description(value)}] if value else []


def config(what: str, value: Any) -> list[dict[str, Any]]:
    """The updates of a configuration."""
    return attributes.config(value)


def disk(what: str, value: Any) -> tuple[str | None, int | None]:
    """The spool's folder and its cap in bytes: a path, or an object with `dir` and `max_bytes`."""
    if value is None:
        return None, None
    if isinstance(value, (str, bytes)) or hasattr(value, "__fspath__"):
        import os

        return folders.full(os.path.expanduser(os.fsdecode(value))), None
    folder, most = getattr(value, "dir", None), getattr(value, "max_bytes", None)
    if folder is None and most is None:
        raise KymogramValidationError(
            f"disk is a folder or a DiskConfig(dir, max_bytes), not {type(value).__name__}"
        )
    return disk(what, folder)[0], None if most is None else count("disk.max_bytes", most, 1 << 20)


def uploads(what: str, value: Any) -> Any:
    """Which videos are uploaded."""
    if value not in _UPLOADS:
        known = ", ".join(_UPLOADS)
        raise KymogramValidationError(f"{what} is {value!r}, not one of {known}")
    return value


def storage(what: str, value: Any) -> None:
    """A storage of Metrana's, which there is none of."""
    voice.warn(
        f"{what}={value!r} is not supported: videos are uploaded to the "
        "Kymogram server, which keeps them in its data folder",
        once=what,
    )
