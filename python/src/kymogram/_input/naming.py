"""The rules of names. Each error says which character broke which rule."""

from __future__ import annotations

from enum import Enum

from .._exceptions import KymogramValidationError
from .._say import voice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_PATH_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:/")
_PLAIN_ID = _PATH_CHARACTERS - {"/"}
QUERY_CHARACTERS = '()[],=<>!~"|'  # reserved by the query language
METRIC_BYTES = 1024
SCALE_BYTES = 128
LABELS = 64
LABEL_NAME_BYTES = 128
LABEL_VALUE_BYTES = 1024
ENV_BYTES = 128
PATH_BYTES = 512
RUN_NAME_BYTES = 256
TAG_BYTES = 256


def _text(what: str, value: object, limit: int, *, empty: bool = False) -> str:
    """A string of at most limit bytes of UTF-8."""
    if isinstance(value, Enum):
        value = value.value
    if not isinstance(value, str):
        raise KymogramValidationError(f"{what} is text, not {type(value).__name__}: {value!r}")
    if not value and not empty:
        raise KymogramValidationError(f"{what} is empty")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        bad = value[error.start]
        raise KymogramValidationError(
            f"{what} holds half a surrogate pair {bad!r}, which UTF-8 cannot carry: {value!r}"
        ) from None
    if size > limit:
        raise KymogramValidationError(
            f"{what} has {size} bytes, at most {limit} are allowed: {value[:60]!r}…"
        )
    return str(value)


def _without(what: str, value: str, forbidden: str, why: str) -> None:
    for character in value:
        if character in forbidden:
            raise KymogramValidationError(
                f"{what} contains {character!r}: {value!r}. {why}: {forbidden}"
            )


def _no_control(what: str, value: str) -> None:
    for character in value:
        if is_control(character):
            raise KymogramValidationError(
                f"{what} contains the control character {character!r}: {value!r}"
            )


def is_control(character: str) -> bool:
    """Whether it is a control character of ASCII or Latin-1."""
    return character < " " or "\x7f" <= character <= "\x9f"


def _no_space(what: str, value: str) -> None:
    _no_control(what, value)
    for character in value:
        if character.isspace():
            raise KymogramValidationError(
                f"{what} contains white space {character!r}: {value!r}. "
                "Use '_', '-' or '/' between words"
            )


def _query_safe(what: str, value: str, more: str = "") -> None:
    _no_space(what, value)
    if value.startswith(":"):
        raise KymogramValidationError(f"{what} starts with ':': {value!r}")
    _without(what, value, QUERY_CHARACTERS + more, "Reserved by the query language")


def metric(value: object) -> str:
    """A metric's name."""
    name = _text("metric name", value, METRIC_BYTES)
    _query_safe("metric name", name)
    return name


def scale(value: object) -> str:
    """A scale; None and "" are ML_STEP."""
    if value is None or value == "":
        return "ML_STEP"
    if isinstance(value, int):  # log(name, value, 3)
        raise KymogramValidationError(
            f"scale is text, not int: {value!r}. The step is named: step={value}"
        )
    name = _text("scale", value, SCALE_BYTES)
    _no_space("scale", name)
    return name


def labels(value: Mapping[str, str] | None, evaluation: object = False) -> dict[str, str]:
    """The labels of a series, sorted by name; evaluation adds its own."""
    found: dict[str, str] = {}
    if value is not None:
        for key, text in _pairs(value):
            name = _text("label name", key, LABEL_NAME_BYTES)
            _query_safe("label name", name, "&")
            what = f"value of label {name!r}"
            content = _text(what, text, LABEL_VALUE_BYTES, empty=True)
            _no_control(what, content)
            if name != "env_id":  # an environment's id has rules of its own
                _without(what, content, "=&", "Reserved between labels")
            found[name] = content
    if evaluation:
        found.setdefault("evaluation", "true")
    if len(found) > LABELS:
        raise KymogramValidationError(f"{len(found)} labels; a series has at most {LABELS}")
    return dict(sorted(found.items()))


def _pairs(value: Any) -> list[tuple[object, object]]:
    """The labels of a mapping, or of a list of pairs."""
    try:
        return list(value.items() if hasattr(value, "items") else dict(value).items())
    except (TypeError, ValueError):
        raise KymogramValidationError(
            f"labels is a mapping of text to text, not {type(value).__name__}"
        ) from None


def environment(value: object) -> str:
    """An environment id; None is "default"."""
    if value is None:
        return "default"
    if value.__class__ is str and _PLAIN_ID.issuperset(value) and 0 < len(value) <= ENV_BYTES:
        return value  # a call may name thousands
    if hasattr(value, "__index__") and not isinstance(value, bool):
        value = str(value.__index__())  # NumPy's integers too
    name = _text("env_id", value, ENV_BYTES)
    _no_space("env_id", name)
    _without("env_id", name, "/\\?#%", "An environment id is one part of a URL")
    return name


def path(value: object, *, what: str = "attribute path") -> str:
    """An attribute's path."""
    if value.__class__ is str and is_plain_path(value):
        return value
    name = _text(what, value, PATH_BYTES)
    _query_safe(what, name)
    odd = next((c for c in name if c not in _PATH_CHARACTERS), None)
    if odd is not None:
        voice.warn(
            f"{what} {name!r} contains {odd!r}: it is kept, though Metrana documents only "
            "letters, digits, '.', '_', '-', ':' and '/'",
            once="odd path",
        )
    if "" in name.split("/"):
        voice.warn(
            f"{what} {name!r} has an empty key: it is kept, though Metrana documents keys that "
            "are not empty",
            once="empty key",
        )
    if name.startswith("sys/"):
        raise KymogramValidationError(f"{what} starts with 'sys/', which is reserved: {name!r}")
    return name


def is_plain_path(name: str) -> bool:
    """Whether a path is one at first sight."""
    return (
        _PATH_CHARACTERS.issuperset(name)
        and 0 < len(name) <= PATH_BYTES
        and name[0] not in ":/"
        and name[-1] != "/"
        and not name.startswith("sys/")
        and "//" not in name
    )


def inner_path(name: str) -> str:
    """The path of a part of a nested value, whose keys are free.

    What a path cannot hold is written as %XX; a long one is cut, with a checksum
    at its end.
    """
    if is_plain_path(name):
        return name
    kept = "".join(one if _fits(one) else _percent(one) for one in name)
    if kept.startswith(":"):
        kept = "%3A" + kept[1:]
    data = kept.encode()
    if len(data) > PATH_BYTES:
        from zlib import crc32

        kept = f"{data[: PATH_BYTES - 10].decode(errors='ignore')}..{crc32(data):08x}"
    if kept == name or not name:
        return path(name)
    if kept.startswith("sys/"):
        return path(kept)
    voice.warn(
        f"the key {name[:200]!r} holds what a path cannot: it is kept as {kept[:200]!r}",
        once="spelled path",
    )
    return kept


def _fits(character: str) -> bool:
    return character.isprintable() and not character.isspace() and character not in QUERY_CHARACTERS


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode(errors="surrogatepass"))


def rendering(value: object) -> str:
    """The name of one of an episode's videos; "" for None, its only one."""
    return "" if value is None else _text("rendering name", value, 256)


def tags(value: object) -> list[str]:
    """A list of tags."""
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        raise KymogramValidationError(f"tags are a list of text, not {type(value).__name__}")
    found = []
    for tag in value:
        name = _text("tag", tag, TAG_BYTES)
        _no_control("tag", name)
        found.append(name)
    return found


def place(what: str, value: object) -> str:
    """A workspace or a project."""
    name = _text(what, value, 128)
    for index, character in enumerate(name):
        plain = character.isascii() and character.isalnum()
        if character == "/" and what == "project_name" and 0 < index < len(name) - 1:
            raise KymogramValidationError(
                f"{what} is {name!r}: write workspace_name={name[:index]!r}, "
                f"project_name={name[index + 1 :]!r}"
            )
        if not plain and (index == 0 or character not in "._-"):
            raise KymogramValidationError(
                f"{what} contains {character!r} at place {index}: {name!r}. "
                "It starts with a letter or digit, then letters, digits, '.', '_', '-'"
            )
    return name


def run(value: object, what: str = "run_name") -> str:
    """A run's name."""
    name = _text(what, value, RUN_NAME_BYTES)
    _no_control(what, name)
    return name
