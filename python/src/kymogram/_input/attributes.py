"""Attributes, configuration and tags → the updates of `internal/model/batch.go`."""

from __future__ import annotations

import math
import os
import sys
from time import time_ns

from .._exceptions import KymogramValidationError
from .._say import voice
from .._spool.records import UPDATE_HEAD, UPDATE_SIZE, quoted
from . import flatten, naming

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    # Pieces of JSON without times and values, the order of the values, whether all are numbers.
    _Shape = tuple[list[str], "list[int] | None", bool]

STRING_BYTES = 64 << 10
TAGS = 1_000  # in one update
VALUES = 250_000  # of one nested value
LEFT_OUT = "kymogram_left_out"  # the attribute that says how many more there were
_COUNTED = 10  # times as many are counted
_SAFE, _LEAST = 1 << 53, -(1 << 53)
_PLAIN, _PLAIN_DEPTH = 1_000, 8  # values of a plain mapping, and how deep they lie
_SHAPES = 64  # that are remembered
_CUT = 100  # bytes for the words that tell of a cut
_SECRETS = tuple(
    "sk- sk_ pk_ rk_ ghp_ gho_ ghu_ ghs_ github_pat_ glpat- hf_ AKIA ASIA AIza eyJ ya29. "
    "-----BEGIN npm_ pypi- kym_".split()
)
_SECRET_LENGTH = 20
_GIT_S = 0.3

_TYPES = {int: "int64", float: "float64", str: "string", bool: "bool"}  # of plain values
_shapes: dict[tuple[str, tuple[object, ...], tuple[type, ...]], _Shape] = {}


def value(path: str, given: Any) -> dict[str, Any]:
    """One attribute value as {"type", "value"}."""
    kind = type(given)
    if kind is str:
        return {"type": "string", "value": _text(path, given)}
    if isinstance(given, bool):
        return {"type": "bool", "value": given}
    enum = sys.modules.get("enum")
    if enum is not None and isinstance(given, enum.Enum):
        plain = isinstance(given.value, (str, int, float))
        return value(path, given.value if plain else given.name)
    if isinstance(given, int):
        if not -(1 << 63) <= given < 1 << 63:
            voice.warn(f"{path!r} is outside int64: {given} is kept as text", once="big attribute")
            return {"type": "string", "value": _text(path, given)}
        return {"type": "int64", "value": int(given) if abs(given) <= _SAFE else str(given)}
    if isinstance(given, float):
        return {"type": "float64", "value": _float(float(given))}
    if isinstance(given, (set, frozenset)):
        return {"type": "string_set", "value": _members(path, given)}
    datetime = sys.modules.get("datetime")
    if datetime is not None and isinstance(given, datetime.datetime):
        return {"type": "time", "value": str(round(given.timestamp() * 1_000_000) * 1000)}
    if isinstance(given, (bytes, bytearray)):
        return {"type": "string", "value": _text(path, repr(bytes(given[:STRING_BYTES])))}
    if not isinstance(given, str) and hasattr(given, "item") and not getattr(given, "ndim", 0):
        plain = _item(given)
        if type(plain) is not kind:
            return value(path, plain)
    return {"type": "string", "value": _text(path, given)}


def _item(given: Any) -> Any:
    """What is in an array of no dimensions; itself when there is nothing to be had."""
    try:
        return given.item()
    except Exception:  # a tensor without data
        return given


def _float(number: float) -> float | str:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return number


def _text(path: str, given: Any) -> str:
    """The text of a value, cut where it is longer than an attribute can be."""
    text = flatten.text(given)
    if text.startswith(_SECRETS) and len(text) >= _SECRET_LENGTH:
        voice.warn(f"{path!r} looks like a secret; it is sent as it was given", once="secret")
    size = len(text)
    if size * 4 <= STRING_BYTES:
        return text if text.isascii() else text.encode(errors="replace").decode()
    data = text.encode(errors="replace")
    if len(data) <= STRING_BYTES:
        return data.decode()
    voice.warn(
        f"the text of {path!r} has {len(data):,} bytes: the first {STRING_BYTES - _CUT:,} are "
        "kept; keep long texts in a file and log its name",
        once=f"long text {path}",
    )
    kept = data[: STRING_BYTES - _CUT].decode(errors="ignore")
    return f"{kept}… (cut: {len(data):,} bytes)"


def _members(path: str, given: Any) -> list[str]:
    """The members of a set, in order; control characters have no place in them."""
    found: list[str] = []
    room = STRING_BYTES
    for one in sorted(flatten.text(one) for one in given):
        text = "".join("\ufffd" if naming.is_control(c) else c for c in _text(path, one))
        room -= len(text.encode())
        if room < 0:
            voice.warn(
                f"the set {path!r} has {len(given):,} members: the first {len(found):,} are kept, "
                f"as a set has {STRING_BYTES:,} bytes at most",
                once=f"large set {path}",
            )
            break
        found.append(text)
    return found


def updates(prefix: str, given: Any) -> list[dict[str, Any]]:
    """set_attribute for every leaf; None removes. The last one of a path counts."""
    found: dict[str, dict[str, Any]] = {}
    left = twice = 0
    for path, leaf in flatten.flatten(prefix, given):
        if path in found:
            twice += 1
            del found[path]
        elif len(found) >= VALUES:
            left += 1
            if left >= _COUNTED * VALUES:
                break
            continue
        one: dict[str, Any] = {"op": "set_attribute", "path": path}
        if leaf is not None:
            one["value"] = value(path, leaf)
        found[path] = one
    if twice:
        voice.warn(
            f"{prefix or 'the value'} has {twice:,} paths more than once, such as a/b of "
            '{"a/b": 1, "a": {"b": 2}}: the last one of a path is kept'
        )
    if left:
        more = "at least " if left >= _COUNTED * VALUES else ""
        voice.warn(
            f"{prefix or 'the value'} has {more}{VALUES + left:,} values, the first {VALUES:,} are "
            "kept; keep large tables in a file and log its name"
        )
        path = f"{prefix}/{LEFT_OUT}" if prefix else LEFT_OUT
        number = {"type": "int64", "value": left}
        found[path] = {"op": "set_attribute", "path": path, "value": number}
    return list(found.values())


def plain(prefix: str, given: dict[str, Any]) -> tuple[bytes, int] | None:
    """The record of a mapping's updates, and how many; None for what has to be looked at.

    Made by hand of what mappings with the same keys and types have in common.
    """
    values = given.values()
    names, kinds = tuple(given), tuple(map(type, values))
    shape = _shapes.get((prefix, names, kinds))
    if shape is None:
        if dict in kinds:
            return _flat(prefix, given)
        shape = _shape(prefix, names, kinds)
        if shape is None:
            return None
    pieces, order, numbers = shape
    try:  # a root of squares is no smaller than any of them
        near = numbers and math.hypot(*values) < _SAFE
    except OverflowError:
        near = False
    texts = list(map(repr, values)) if near else _texts(values)
    if texts is None:
        return None
    parts = pieces.copy()
    parts[1::4] = [str(time_ns())] * len(texts)
    parts[3::4] = texts if order is None else [texts[place] for place in order]
    payload = "".join(parts).encode()
    return (payload, len(texts)) if len(payload) <= UPDATE_SIZE else None


def _texts(values: Iterable[Any]) -> list[str] | None:
    """JSON of values of the plain types; None where one of them takes a closer look."""
    found: list[str] = []
    for one in values:
        kind = one.__class__
        if kind is bool:
            found.append("true" if one else "false")
        elif kind is str and len(one) < _SECRET_LENGTH and one.isascii():
            found.append(quoted(one))
        elif (kind is int and _LEAST <= one <= _SAFE) or (kind is float and one - one == 0):
            found.append(repr(one))
        else:
            return None
    return found


def _flat(prefix: str, given: dict[str, Any]) -> tuple[bytes, int] | None:
    """As plain, for a mapping that holds others."""
    level: dict[str, Any] = {}
    try:
        count = _level(level, "", given)
    except TypeError:  # a key that is no text
        return None
    return plain(prefix, level) if count == len(level) else None


def _level(found: dict[str, Any], prefix: str, given: dict[str, Any], depth: int = 0) -> int:
    """Find the leaves of nested mappings by their paths; how many, those of one path too."""
    if depth > _PLAIN_DEPTH or len(found) + len(given) > _PLAIN:
        raise TypeError
    count = 0
    for key, one in given.items():
        if one.__class__ is dict:
            count += _level(found, f"{prefix + key}/", one, depth + 1)
        else:
            found[prefix + key] = one
            count += 1
    return count


def _shape(prefix: str, names: tuple[object, ...], kinds: tuple[type, ...]) -> _Shape | None:
    """Make what texts of mappings with these keys and types have in common, if all are plain."""
    paths = [f"{prefix}/{name}" for name in names]
    plain = all(map(naming.is_plain_path, paths)) and set(map(type, names)) == {str}
    if not plain or len(names) > _PLAIN or not _TYPES.keys() >= set(kinds):
        return None
    pieces: list[str] = []
    start = UPDATE_HEAD.decode() + '[{"time_ns":'
    order = sorted(range(len(paths)), key=paths.__getitem__)  # every process says it in one order
    for place in order:
        path, kind = quoted(paths[place]), _TYPES[kinds[place]]
        head = f',"op":"set_attribute","path":{path},"value":{{"type":"{kind}","value":'
        pieces += ['}},{"time_ns":' if pieces else start, "", head, ""]
    pieces.append("}}]")
    if len(_shapes) >= _SHAPES:
        _shapes.clear()
    numbers = {int, float}.issuperset(kinds)
    found = pieces, None if order == list(range(len(order))) else order, numbers
    _shapes[prefix, names, kinds] = found
    return found


def config(given: Any) -> list[dict[str, Any]]:
    """The updates of a configuration."""
    if given is None:
        return []
    if flatten.children(given) is None:
        raise KymogramValidationError(f"config is a mapping, not {type(given).__name__}")
    return updates("config", given)


def environment(env: str, given: Any, episode: int | None) -> list[dict[str, Any]]:
    """The updates of an environment's attributes."""
    if flatten.children(given) is None:
        raise KymogramValidationError(f"env attributes are a mapping, not {type(given).__name__}")
    found = []
    for one in updates("", given):
        one["op"], one["env"] = "set_env_attribute", env
        if episode is not None:
            one["episode"] = episode
        found.append(one)
    return found


def tags(op: str, given: Any) -> list[dict[str, Any]]:
    """set_tags, add_tags or remove_tags, in parts that the server takes."""
    names = naming.tags(given)
    found = [{"op": op, "tags": names[:TAGS]}]
    more = "add_tags" if op == "set_tags" else op
    for start in range(TAGS, len(names), TAGS):
        found.append({"op": more, "tags": names[start : start + TAGS]})
    return found


def description(text: object) -> str:
    """A description; None clears it."""
    if text is None:
        return ""
    if not isinstance(text, str):
        raise KymogramValidationError(f"description is text, not {type(text).__name__}")
    size = len(text.encode(errors="replace"))
    if size > STRING_BYTES:
        raise KymogramValidationError(
            f"the description has {size} bytes, at most {STRING_BYTES} are allowed"
        )
    return text.encode(errors="replace").decode()


def commit(folder: str) -> str | None:
    """The commit that the folder's git repository has checked out.

    Its files say so in a fraction of the time that git takes to start; git is
    asked where they do not, as with GIT_DIR or a reftable.
    """
    named = bool(os.environ.get("GIT_DIR"))
    git = None if named else _repository(folder)
    if git is None:
        return _asked(folder) if named else None
    found = _head(git)
    return found if found is not None and _is_commit(found) else _asked(folder)


def _repository(folder: str) -> str | None:
    """The .git of the folder or of the next one above it."""
    while True:
        git = os.path.join(folder, ".git")
        if os.path.exists(git):
            return git
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def _is_commit(text: str) -> bool:
    return len(text) in (40, 64) and all(c in "0123456789abcdef" for c in text)


def _asked(folder: str) -> str | None:
    """The commit by git's own word; None without git, or before the first commit."""
    import subprocess

    try:
        done = subprocess.run(
            ["git", "rev-parse", "--verify", "HEAD"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_GIT_S,
            check=True,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    found = done.stdout.strip()
    return found if _is_commit(found) else None


def _head(git: str) -> str | None:
    try:
        if os.path.isfile(git):  # a worktree: a file that names its folder
            git = os.path.join(os.path.dirname(git), _read(git).removeprefix("gitdir: "))
        head = _read(os.path.join(git, "HEAD"))
        if not head.startswith("ref: "):
            return head or None
        name = head[5:]
        common = os.path.join(git, "commondir")
        roots = [git, os.path.join(git, _read(common))] if os.path.exists(common) else [git]
        for root in roots:
            if os.path.exists(os.path.join(root, name)):
                return _read(os.path.join(root, name)) or None
        for root in roots:
            packed = os.path.join(root, "packed-refs")
            for line in _read(packed).splitlines() if os.path.exists(packed) else ():
                if line.endswith(" " + name):
                    return line.split(" ")[0]
    except (OSError, ValueError):
        pass
    return None


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read().strip()
