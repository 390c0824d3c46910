"""Fields as the original's process_value has them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    Field = int | float | str


def process_value(value: Any) -> Any:
    """A number or text; for a list of numbers its mean, min, max and median."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, list):
        return _list(value)
    if isinstance(value, str):
        return str(value)
    if value is None:
        return 0.0
    number = _number(value)
    return str(value) if number is None else number


def _number(value: Any) -> Field | None:
    """What one number of NumPy or torch is in Python: of these the original made text."""
    try:
        if value.ndim != 0 or getattr(value.dtype, "kind", "") in tuple("mM"):
            return None  # not one, or a time
        found = value.item()
    except Exception:  # whatever a foreign object raises
        return None
    if isinstance(found, int):
        return int(found)
    return found if isinstance(found, float) else None


def _list(value: list[Any]) -> Any:
    if not value:
        return 0.0
    if all(isinstance(one, int) for one in value):
        return str(value)  # ids of peers
    import statistics

    try:
        return {
            "mean": float(statistics.mean(value)),
            "min": float(min(value)),
            "max": float(max(value)),
            "median": float(statistics.median(value)),
        }
    except (TypeError, ValueError, ArithmeticError):  # no numbers, or infinities of both signs
        return str(value)


def process_fields(fields: Mapping[str, Any]) -> dict[str, Field]:
    """Every field by its name; a list of numbers becomes four."""
    found: dict[str, Field] = {}
    for name, value in fields.items():
        kind = value.__class__
        if kind is float or kind is int:
            found[str(name)] = value
            continue
        made = process_value(value)
        if made.__class__ is dict:
            found.update((f"{name}_{part}", number) for part, number in made.items())
        else:
            found[str(name)] = made
    return found
