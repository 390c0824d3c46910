"""Random programs of seed 004: lines of Python, and beside each the plain numbers it means.

What a value becomes is worked out with `struct` alone, never with the package or NumPy.
"""

from __future__ import annotations

import itertools
import math
import random
import struct
from collections.abc import Callable
from typing import Any

FLOATS = [
    *(0.0, -0.0, 1.5, -2.25, 0.1, 1 / 3, 65504.0, 3.4e38, 1e-8, 1e-46, 5e-324, 2.0**53, 1e15),
    *(1.7976931348623157e308, -1.7976931348623157e308, math.inf, -math.inf, math.nan),
]
INTS = [
    *(0, 1, -1, 7, 127, -128, 255, 256, 65535, 2**24 + 1, -(2**31), 2**31 - 1, 2**32 - 1),
    *(2**53, 2**53 + 1, -(2**53) - 1, -(2**63), 2**63 - 1, 2**64 - 1, 10**30),
]
_BITS = {"i1": 8, "i2": 16, "i4": 32, "i8": 64, "u1": 8, "u2": 16, "u4": 32, "u8": 64}
_ARRAY = {"b": "i1", "B": "u1", "h": "i2", "H": "u2", "i": "i4", "q": "i8", "Q": "u8"}


def single(value: float) -> float:
    """The nearest float32."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def half(value: float) -> float:
    """The nearest float16."""
    try:
        return float(struct.unpack("<e", struct.pack("<e", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def bfloat(value: float) -> float:
    """The nearest bfloat16: the upper half of the nearest float32, ties to even."""
    bits = int(struct.unpack("<I", struct.pack("<f", single(value)))[0])
    if value == value and math.isfinite(single(value)):
        bits += 0x7FFF + (bits >> 16 & 1)
    return float(struct.unpack("<f", struct.pack("<I", bits >> 16 << 16 & 0xFFFFFFFF))[0])


def source(value: Any) -> str:
    """Python that makes the value."""
    if isinstance(value, list):
        return f"[{', '.join(map(source, value))}]"
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if value != value else "inf" if value > 0 else "-inf"
    return repr(value)


def fits(values: list[Any], kind: str) -> bool:
    """Whether all are integers that a NumPy type holds."""
    bits, low = _BITS[kind], 0 if kind[0] == "u" else -(1 << _BITS[kind] - 1)
    return all(type(one) is int and low <= one < low + (1 << bits) for one in values)


def flat(values: list[Any]) -> list[Any]:
    """The numbers of one or two dimensions."""
    return [one for row in values for one in (row if isinstance(row, list) else [row])]


def each(values: list[Any], change: Callable[[Any], Any]) -> list[Any]:
    """The same shape, every number changed."""
    return [each(one, change) if isinstance(one, list) else change(one) for one in values]


class Values:
    """Numbers in every form that a program may have them."""

    def __init__(self, rng: random.Random, extra: tuple[str, ...] = ()) -> None:
        self.rng = rng
        self.extra = extra  # libraries that are there: torch, pandas, ml_dtypes

    def plain(self, exact: bool = False) -> Any:
        """A number: mostly a small one, sometimes one of the odd ones."""
        rng = self.rng
        if exact:
            some = [one for one in INTS if -(2**63) <= one < 2**63]
            return rng.choice(some) if rng.random() < 0.4 else rng.randrange(-1000, 1000)
        chance = rng.random()
        if chance < 0.3:
            return rng.choice(FLOATS)
        if chance < 0.45:
            return rng.choice(INTS)
        return rng.choice([rng.random(), rng.randrange(100), rng.gauss(0, 1e3)])

    def scalar(self, exact: bool = False) -> tuple[str, Any]:
        """Source and stored value of one number."""
        rng, value = self.rng, self.plain(exact)
        forms: list[tuple[str, Any]] = [(source(value), value)] * 3
        if type(value) is int:
            kinds = [kind for kind in _BITS if fits([value], kind)]
            if kinds:
                kind = rng.choice(kinds)
                order = rng.choice("<>")
                forms.append((f"np.dtype('{kind}').type({value})", value))
                forms.append((f"np.array({value}, '{order}{kind}')", value))
            forms += [(f"Index({value})", value), (f"Fraction({value})", value)]
            if value in (0, 1):
                forms += [(repr(bool(value)), value), (f"np.bool_({bool(value)})", value)]
        if not exact:
            number = float(value)
            text = source(number)
            order = rng.choice("<>")
            forms += [
                (f"np.float64({text})", number),
                (f"np.longdouble({text})", number),
                (f"np.float32({text})", single(number)),
                (f"np.float16({text})", half(number)),
                (f"np.array({text}, '{order}f8')", number),
                (f"np.array({text}, '{order}f4')", single(number)),
                (f"Decimal({text})", number),
                (f"Float({text})", number),
                (f"Tensor(np.array({text}))", number),
            ]
            if "torch" in self.extra:
                forms.append((f"torch.tensor({text}, dtype=torch.float64)", number))
                forms.append((f"torch.tensor({text}, requires_grad=True)", single(number)))
            if "ml_dtypes" in self.extra:
                forms.append((f"ml_dtypes.bfloat16({text})", bfloat(number)))
        made, kept = rng.choice(forms)
        return made, int(kept) if exact else float(kept)

    def array(self, rows: int, columns: int | None = None, exact: bool = False) -> tuple[str, Any]:
        """Source and stored values of rows, or of rows × columns."""
        rng = self.rng
        kind = rng.random()
        plain: list[Any] = [self.plain(exact) for _ in range(rows * (columns or 1))]
        if kind < 0.3:
            plain = [float(one) for one in plain] if not exact else plain
        elif kind < 0.6 or exact:
            low, high = rng.choice([(0, 256), (-128, 128), (-(2**31), 2**31), (0, 2**63)])
            plain = [rng.randrange(low, high) for _ in plain]
        if columns is not None:
            plain = [plain[m * columns : (m + 1) * columns] for m in range(rows)]
        made, kept = self._array(plain, columns is not None, exact)
        return made, each(kept, int if exact else float)

    def _array(self, plain: list[Any], deep: bool, exact: bool) -> tuple[str, list[Any]]:
        rng, text = self.rng, source(plain)
        forms: list[tuple[str, list[Any]]] = [(text, plain)]
        if deep:
            rows = ", ".join(f"tuple({source(row)})" for row in plain)
            forms.append((f"[{rows}]", plain))
            if plain and not exact:
                rows = ", ".join(f"np.array({source(row)}, 'f8')" for row in plain)
                forms.append((f"({rows},)", plain))
        else:
            forms += [(f"tuple({text})", plain), (f"deque({text})", plain)]
            forms.append((f"dict(enumerate({text})).values()", plain))
            if not exact and plain:
                parts = [self._one(one) for one in plain]
                made = ", ".join(one for one, _ in parts)
                forms.append((f"[{made}]", [kept for _, kept in parts]))
                forms.append((f"array('d', {source([float(v) for v in plain])})", plain))
                forms.append(
                    (f"memoryview(array('d', {source([float(v) for v in plain])}))", plain)
                )
            letters = [one for one, kind in _ARRAY.items() if fits(plain, kind)]
            if letters and plain:
                forms.append((f"array('{rng.choice(letters)}', {text})", plain))
        forms += [self._numpy(plain, deep, exact) for _ in range(6)]
        return rng.choice(forms)

    def _one(self, value: Any) -> tuple[str, Any]:
        number = float(value)
        how = self.rng.randrange(4)
        if how == 0:
            return f"np.float32({source(number)})", single(number)
        if how == 1:
            return f"Tensor(np.array({source(number)}))", number
        return source(value), value

    def _numpy(self, plain: list[Any], deep: bool, exact: bool) -> tuple[str, list[Any]]:
        """An array of a type that holds the numbers, in some layout."""
        rng, numbers = self.rng, flat(plain)
        kinds: list[tuple[str, Callable[[Any], Any]]] = [
            (kind, lambda v: v) for kind in _BITS if fits(numbers, kind)
        ]
        kinds.append(("O", lambda v: v))
        if not exact:
            kinds += [("f8", float), ("f4", lambda v: single(float(v)))]
            kinds += [("f2", lambda v: half(float(v))), ("longdouble", float)]
            if "ml_dtypes" in self.extra:
                kinds.append(("bfloat16", lambda v: bfloat(float(v))))
        kind, change = rng.choice(kinds)
        kept = each(plain, change)
        if kind[0] in "iuf":
            kind = rng.choice("<<>") + kind
        made = f"np.array({source(plain)}, '{kind}')"
        if kind in ("longdouble", "O"):
            made = f"np.array({source(plain)}, {'object' if kind == 'O' else 'np.longdouble'})"
        if kind == "bfloat16":
            made = f"np.array({source(plain)}, 'f8').astype(ml_dtypes.bfloat16)"
        if deep:
            made = f"{made}.reshape({len(plain)}, {len(plain[0]) if plain else 0})"
        return self._layout(made, kept, deep, kind, exact)

    def _layout(
        self, made: str, kept: list[Any], deep: bool, kind: str, exact: bool
    ) -> tuple[str, list[Any]]:
        rng = self.rng
        how = rng.choice(
            ["", "", "", "neg", "step", "ro", "F", "T", "jax", "tensor", "sub", "mask"]
        )
        if how == "neg":
            made = f"{made}[::-1].copy()[::-1]"
        elif how == "step":
            made = f"np.repeat({made}, 2, axis={rng.randrange(2) if deep else 0})"
            made += "[:, ::2]" if deep and made.endswith("axis=1)") else "[::2]"
        elif how == "ro":
            made = f"readonly({made})"
        elif how == "F":
            made = f"np.asfortranarray({made})"
        elif how == "T" and deep:
            made = f"{made}.T.copy().T"
        elif how == "jax":
            made = f"Jax({made})"
        elif how == "tensor":
            made = f"Tensor({made})"
            if "torch" in self.extra and kind in ("<f8", "<f4", "<f2", "<i8", "<i4", "<u1"):
                made = "torch.from_numpy" + made.removeprefix("Tensor")
        elif how == "sub":
            made = f"{made}.view(Sub)"
        elif how == "mask" and not exact and kind not in ("O", "bfloat16"):
            hidden = rng.randrange(2, 5)
            made = f"masked({made}, {hidden})"
            count = iter(range(len(flat(kept))))
            kept = each(kept, lambda v: math.nan if next(count) % hidden == 0 else v)
        elif "pandas" in self.extra and not deep and kind[0] == "<":
            made = f"pandas.Series({made})"
        return made, kept


class Programs:
    """Steps of a random program; `names` keeps programs of threads and forks apart."""

    def __init__(
        self,
        rng: random.Random,
        names: str = "",
        extra: tuple[str, ...] = (),
        known: bool = True,
    ) -> None:
        self.rng = rng
        self.names = names
        self.known = known  # whether the process learns from the server where its series stand
        self.values = Values(rng, extra)
        self.rl_step = 0
        self.base: dict[str, bool] = {}
        self.episodic: dict[str, bool] = {}
        self.turn = itertools.count().__next__

    def step(self) -> dict[str, Any]:
        """One call."""
        kinds = {
            self.log: 6,
            self.mapping: 3,
            self.repeat: 2,
            self.distributed: 1,
            self.exact: 1,
            self.episode: 2,
            self.environment: 5,
            self.document: 1,
            self.invalid: 2,
            self.look: 1 if self.known else 0,
        }
        made: dict[str, Any] = self.rng.choices(list(kinds), list(kinds.values()))[0]()
        return made

    # the parts of a call

    def _name(self, what: str, many: int = 4) -> str:
        odd = ["ü/%41#{}'&?", "x" * 300]
        rng = self.rng
        tail = rng.choice(odd) if rng.random() < 0.05 else str(rng.randrange(many))
        return f"{self.names}{what}/{tail}"

    def _identity(self) -> tuple[str, dict[str, Any]]:
        rng = self.rng
        scale: str | None = None
        labels: dict[str, str] = {}
        evaluation: bool | None = False
        text = ""
        if rng.random() < 0.2:
            scale = rng.choice(["ML_STEP", "", "EPISODE", "custom"])
            made = repr(scale)
            if scale == "EPISODE" and rng.random() < 0.5:
                made = "kymogram.StandardMetricScale.EPISODE"
            text += f", scale={made}"
        if rng.random() < 0.3:
            labels = dict(
                rng.sample([("a", "1"), ("b", "x y"), ("ö", ""), ("evaluation", "no")], 2)
            )
            how = rng.choice(["%s", "list(%s.items())", "MappingProxyType(%s)"])
            text += ", labels=" + how % labels
        if rng.random() < 0.2:
            evaluation = rng.choice([True, False, None, True])
            text += f", evaluation={evaluation}"
        return text, {"scale": scale, "labels": labels, "evaluation": evaluation}

    def _step(self, rows: int, scalar: bool, required: bool = False) -> tuple[str, Any]:
        rng = self.rng
        if rng.random() < 0.5 and not required:
            return rng.choice(["", "", ", step=None"]), None
        first = rng.choice([rng.randrange(60), rng.randrange(60), 2**40 + rng.randrange(9), 2**61])
        if not scalar and rng.random() < 0.4:
            steps = [first + rng.randrange(30) for _ in range(rows)]
            if rng.random() < 0.7:
                steps = [first + 3 * at for at in range(rows)]
            return f", step={self._numbers(steps)}", steps
        forms = [str(first), str(first), f"np.int64({first})", f"Index({first})"]
        forms += [f"np.array({first})"]
        if first < 2**53:
            forms.append(f"{float(first)}")
        return f", step={rng.choice(forms)}", first

    def _numbers(self, numbers: list[int]) -> str:
        """A sequence of integers in some form."""
        text = repr(numbers)
        forms = [text, f"tuple({text})", f"np.array({text}, 'i8')", f"iter({text})"]
        forms += [f"array('q', {text})", f"(one for one in {text})", f"np.array({text}, '>u8')"]
        if all(one < 2**53 for one in numbers):
            forms.append(f"np.array({text}, 'f8')")
        if "torch" in self.values.extra:
            forms.append(f"torch.tensor({text}, dtype=torch.int64)")
        return self.rng.choice(forms)

    def _time(self, rows: int, scalar: bool) -> tuple[str, Any]:
        """Times long ago, so that a given one is never taken for the call's own."""
        rng = self.rng
        if rng.random() < 0.75:
            return "", None
        first = 1_500_000_000_000 + rng.randrange(10**6)
        if not scalar and rng.random() < 0.5:
            times = [first + rng.randrange(1000) for _ in range(rows)]
            return f", timestamp={self._numbers(times)}", [one * 10**6 for one in times]
        forms = [(str(first), 0), (f"np.int64({first})", 0), (f"{first}.25", 250_000)]
        forms += [(f"np.float64({first}.5)", 500_000), (f"Decimal('{first}.125')", 125_000)]
        made, more = rng.choice(forms)
        return f", timestamp={made}", first * 10**6 + more

    # calls of log

    def _value(self, exact: bool = False) -> tuple[str, list[Any], bool]:
        if self.rng.random() < 0.55:
            made, kept = self.values.scalar(exact)
            return made, [kept], True
        rows = self.rng.choice([0, 1, 2, 3, 5, 40, 300])
        made, kept = self.values.array(rows, exact=exact)
        return made, kept, False

    def log(self) -> dict[str, Any]:
        """log(name, value)."""
        metric = self._name("f")
        made, kept, scalar = self._value()
        text, identity = self._identity()
        step_text, step = self._step(len(kept), scalar)
        time_text, time = self._time(len(kept), scalar)
        dtype = ""
        if self.rng.random() < 0.1:
            dtype = self.rng.choice([", dtype='float64'", ", dtype=np.float64", ", dtype=None"])
        line = f"kymogram.log({metric!r}, {made}{text}{step_text}{time_text}{dtype})"
        do = {"call": "log", "values": [(metric, kept)], "step": step, "time": time, **identity}
        return {"line": line, "do": do}

    def repeat(self) -> dict[str, Any]:
        """The plain loop of a training: the same names again and again."""
        rng, first = self.rng, self.rng.randrange(1000)
        names = [self._name("f") for _ in range(rng.choice([1, 1, 2, 3]))]
        names = list(dict.fromkeys(names))
        count = rng.choice([3, 10, 60])
        step = rng.choice([None, None, rng.randrange(100)])
        tail = "" if step is None else f", step={step} + i"
        call = f"{{{', '.join(f'{n!r}: {first} + i' for n in names)}}}"
        if len(names) == 1:
            call = f"{names[0]!r}, {first} + i / 2"
        values = [float(first + (i / 2 if len(names) == 1 else i)) for i in range(count)]
        do: dict[str, Any] = {"call": "log", "values": [(n, values) for n in names]}
        do |= {"step": step, "time": None, "scale": None, "labels": {}, "evaluation": False}
        return {"line": f"for i in range({count}): kymogram.log({call}{tail})", "do": do}

    def mapping(self) -> dict[str, Any]:
        """log({name: value, …})."""
        rng = self.rng
        names = rng.sample(range(4), rng.randrange(1, 4))
        values, parts = [], []
        rows = rng.choice([None, None, 1, 3, 70])
        text, identity = self._identity()
        for number in names:
            metric = f"{self.names}f/{number}"
            if rows is None:
                made, kept = self.values.scalar()
                values.append((metric, [kept]))
            else:
                made, kept = self.values.array(rows)
                values.append((metric, kept))
            parts.append(f"{metric!r}: {made}")
        step_text, step = self._step(rows or 1, rows is None)
        time_text, time = self._time(rows or 1, rows is None)
        how = rng.choice(["%s", "%s", "OrderedDict(%s)", "MappingProxyType(%s)", "ChainMap(%s)"])
        call = how % ("{" + ", ".join(parts) + "}")
        line = f"kymogram.log({call}{text}{step_text}{time_text})"
        do = {"call": "log", "values": values, "step": step, "time": time, **identity}
        return {"line": line, "do": do}

    def distributed(self) -> dict[str, Any]:
        """log_distributed."""
        metric = self._name("d")
        made, kept, scalar = self._value()
        text, identity = self._identity()
        step_text, step = self._step(len(kept), scalar, required=True)
        line = f"kymogram.log_distributed({metric!r}, {made}{text}{step_text})"
        do = {"call": "log", "values": [(metric, kept)], "step": step, "time": None, **identity}
        return {"line": line, "do": do}

    def exact(self) -> dict[str, Any]:
        """Integers with dtype="int64"."""
        metric = self._name("n")
        made, kept, scalar = self._value(exact=True)
        step_text, step = self._step(len(kept), scalar)
        dtype = self.rng.choice(["'int64'", "np.int64", "np.dtype('i8')", "'int32'"])
        line = f"kymogram.log({metric!r}, {made}{step_text}, dtype={dtype})"
        do: dict[str, Any] = {"call": "log", "values": [(metric, kept)], "step": step, "time": None}
        return {"line": line, "do": do | {"scale": None, "labels": {}, "evaluation": False}}

    def document(self) -> dict[str, Any]:
        """A text, a histogram or a scatter."""
        rng = self.rng
        text, identity = self._identity()
        step_text, step = self._step(1, True)
        time_text, time = self._time(1, True)
        what = rng.choice(["text", "histogram", "scatter"])
        metric = self._name(what, 2)
        value: Any
        if what == "text":
            value = rng.choice(["", "plain", "größe \n\t \x00 😀", "x" * 5000])
            text, identity = text.split(", evaluation=")[0], {**identity, "evaluation": False}
            call = f"kymogram.log_text({metric!r}, {value!r}"
        elif what == "histogram":
            counts = [rng.randrange(9) for _ in range(rng.randrange(1, 6))]
            edges = [float(at) - 1.5 for at in range(len(counts) + 1)]
            value = {"bin_edges": edges, "counts": counts}
            made = rng.choice(["(%s, %s)", "(np.array(%s), np.array(%s))"]) % (counts, edges)
            call = f"kymogram.log_histogram({metric!r}, {made}"
        else:
            xs = [rng.choice([0.5, -1.0, 1e300]) for _ in range(3)]
            ys = [rng.choice([0.25, 2.0]) for _ in range(3)]
            value = {"x": xs, "y": ys}
            call = f"kymogram.log_scatter({metric!r}, np.array({xs}), {ys}"
        do = {"call": "log", "values": [(metric, [value])], "step": step, "time": time, **identity}
        return {"line": f"{call}{text}{step_text}{time_text})", "do": do}

    # RL

    def _rl(self) -> int:
        if self.rng.random() < 0.5:
            self.rl_step += 1
        return self.rl_step

    def _env(self) -> tuple[str, str]:
        """Source and id of an environment."""
        rng = self.rng
        if self.names:
            name = f"{self.names.replace('/', '')}{rng.randrange(3)}"
            return repr(name), name
        return rng.choice([("'e0'", "e0"), ("1", "1"), ("'a=1&b'", "a=1&b"), ("None", "default")])

    def _marks(self) -> tuple[str, dict[str, Any]]:
        rng = self.rng
        none: dict[str, str] = {}
        if rng.random() < 0.7:
            return "", {"labels": none, "evaluation": False}
        if rng.random() < 0.5:
            return ", evaluation=True", {"labels": none, "evaluation": True}
        return ", labels={'policy': 'greedy'}", {
            "labels": {"policy": "greedy"},
            "evaluation": False,
        }

    def episode(self) -> dict[str, Any]:
        """log_rl_episode."""
        rng, rl = self.rng, self._rl()
        metric = self._name("ep", 2)
        made, kept, scalar = self._value()
        env_text, env = self._env()
        marks, found = self._marks()
        time_text, time = self._time(len(kept), scalar)
        episode: Any = None
        text = ""
        if rng.random() < 0.6:
            episode = rng.randrange(30)
            text = f", episode={rng.choice([str(episode), f'np.int32({episode})'])}"
            if not scalar and rng.random() < 0.5:
                episode = [episode + at for at in range(len(kept))]
                text = f", episode={self._numbers(episode)}"
        line = f"kymogram.log_rl_episode({metric!r}, {made}, {rl}{text}, env_id={env_text}"
        do = {"call": "episode", "metric": metric, "values": kept, "rl_step": rl, "env": env}
        do |= {"episode": episode, "time": time, **found}
        return {"line": f"{line}{marks}{time_text})", "do": do}

    def environment(self) -> dict[str, Any]:
        """log_rl_environment_step in one of its forms."""
        rng, rl = self.rng, self._rl()
        metric = self._name("rl", 2)
        marks, found = self._marks()
        single_env = rng.random() < 0.35
        if single_env:
            env_text, env = self._env()
            envs = [env]
        else:
            some = [self._env() for _ in range(rng.randrange(1, 5))]
            some = [one for one in some if one[0] != "None"] or [("'e0'", "e0")]
            if self.names:
                some = [one for one in some if one[1] != "e0"] or [self._env()]
            if rng.random() < 0.8:
                some = list(dict.fromkeys(some))
            envs = [name for _, name in some]
            how = rng.choice(["[%s]", "[%s]", "(%s,)", "np.array([%s])"])
            texts = [repr(name) for name in envs] if "np" in how else [text for text, _ in some]
            env_text = how % ", ".join(texts)
        rows = rng.choice([None, None, 1, 2, 3, 9, 65])
        if rows is None:
            if single_env:
                made, kept = self.values.scalar()
                grid = [[kept]]
            else:
                made, flat_values = self.values.array(len(envs))
                grid = [[one] for one in flat_values]
        elif single_env:
            made, kept = self.values.array(rows)
            grid = [kept]
        else:
            made, grid = self.values.array(len(envs), rows)
        width = rows or 1
        episodic = self.episodic.setdefault(metric, rng.random() < 0.7)
        episode_text, episode = self._episodes(len(envs), width, single_env, episodic)
        time_text, time = self._times(len(envs), width, single_env)
        given_text, given = "", None
        if rng.random() < 0.1:
            first = rng.randrange(50)
            given, given_text = (
                [[first + t for t in range(width)]] * len(envs),
                f", env_step={first}",
            )
            if rng.random() < 0.5:
                given = [[first + 2 * t + m for t in range(width)] for m in range(len(envs))]
                nested: Any = given[0] if single_env else given
                given_text = f", env_step={rng.choice(['%s', 'np.array(%s)']) % nested}"
        from_one = self.base.setdefault(metric, rng.random() < 0.2)
        one = ", auto_start_from_one=True" if from_one else ""
        line = f"kymogram.log_rl_environment_step({metric!r}, {made}, {rl}, env_id={env_text}"
        do = {"call": "environment_step", "metric": metric, "values": grid, "rl_step": rl}
        do |= {"envs": envs, "episode": episode, "time": time, "env_step": given, **found}
        do["from_one"] = from_one
        return {"line": f"{line}{episode_text}{time_text}{given_text}{marks}{one})", "do": do}

    def _episodes(self, envs: int, rows: int, single_env: bool, episodic: bool) -> tuple[str, Any]:
        """None, one for all, one an environment, or one a value."""
        rng = self.rng
        how = rng.choice(["one", "each", "all"])
        if not episodic:
            return "", None
        first = rng.randrange(5)
        if how == "one":
            made = rng.choice([str(first), f"np.int64({first})", f"np.array({first})"])
            return f", episode={made}", first
        if how == "each":
            if single_env and rows > 1:
                return f", episode=[{first}]", [first]
            some = [first + rng.randrange(2) for _ in range(envs)]
            forms = [repr(some), f"tuple({some})", f"np.array({some})", f"np.array({some}, 'f4')"]
            return f", episode={rng.choice(forms)}", some
        each_takes = max(1, rows // rng.choice([1, 2, 3]))
        grid = [[first + m + t // each_takes for t in range(rows)] for m in range(envs)]
        nested: Any = grid[0] if single_env else grid
        forms = ["%s", "np.array(%s)", "np.array(%s, 'i4')", "np.asfortranarray(%s)"]
        return f", episode={rng.choice(forms) % nested}", grid

    def _times(self, envs: int, rows: int, single_env: bool) -> tuple[str, Any]:
        rng = self.rng
        if rng.random() < 0.75:
            return "", None
        first = 1_500_000_000_000 + rng.randrange(10**6)
        how = rng.choice(["one", "each", "all"])
        if how == "one":
            return f", timestamp={first}", first * 10**6
        if how == "each":
            if single_env and rows > 1:
                return f", timestamp=[{first}]", [first * 10**6]
            some = [first + m for m in range(envs)]
            return f", timestamp={rng.choice(['%s', 'np.array(%s)']) % some}", each(some, _ns)
        grid = [[first + 10 * m + t for t in range(rows)] for m in range(envs)]
        nested: Any = grid[0] if single_env else grid
        return f", timestamp={rng.choice(['%s', 'np.array(%s)']) % nested}", each(grid, _ns)

    # what raises, and what is asked

    def invalid(self) -> dict[str, Any]:
        """A call that breaks a rule: an error, and no trace of it."""
        number = str(self.rng.randrange(4))
        line, words = (
            text.replace("@", self.names).replace("#", number) for text in self.rng.choice(INVALID)
        )
        return {"line": line, "raises": words}

    def look(self) -> dict[str, Any]:
        """get_last_step or get_env_last_rl_step_and_episode."""
        if self.rng.random() < 0.5:
            metric = f"{self.names}f/{self.rng.randrange(4)}"
            return {"line": f"answer = kymogram.get_last_step({metric!r})", "last": metric}
        text, env = self._env()
        return {"line": f"answer = kymogram.get_env_last_rl_step_and_episode({text})", "env": env}


def _ns(ms: int) -> int:
    return ms * 10**6


# A call, and what its error says; "@" is the program's own prefix, "#" a number.
INVALID = [
    ("kymogram.log('@f/#', 'text', dtype='int64')", "'@f/#'.*str"),
    ("kymogram.log('@f/#', None)", "NoneType"),
    ("kymogram.log('@f/#', 1 + 2j)", "complex"),
    ("kymogram.log('@f/#', {1, 2})", "set"),
    ("kymogram.log('@f/#', b'1')", "bytes"),
    ("kymogram.log('@f/#', bytearray(b'1'))", "bytearray"),
    ("kymogram.log('@f/#', object())", "object"),
    ("kymogram.log('@f/#', (i for i in [1.0]))", "generator"),
    ("kymogram.log('@f/#', 10**400)", "too large"),
    ("kymogram.log('@f/#', [1.0, 10**400])", "too large"),
    ("kymogram.log('@f/#', np.array([10**400], object))", "too large|not a number"),
    ("kymogram.log('@f/#', np.array(['1.5']))", "'@f/#'"),
    ("kymogram.log('@f/#', np.array(['1.5'], object))", "'@f/#'.*str"),
    ("kymogram.log('@f/#', np.array([None], object))", "'@f/#'.*NoneType"),
    ("kymogram.log('@f/#', np.array([1], 'M8[s]'))", "'@f/#'"),
    ("kymogram.log('@f/#', np.zeros(2, [('a', 'f8'), ('b', 'f8')]))", "'@f/#'"),
    ("kymogram.log('@f/#', ['1.5'])", "str"),
    ("kymogram.log('@f/#', [1.0, None])", "NoneType"),
    ("kymogram.log('@f/#', [[1.0], [2.0]])", r"\(2, 1\)"),
    ("kymogram.log('@f/#', [1.0, [2.0]])", "mixes"),
    ("kymogram.log('@f/#', [[1.0], [2.0, 3.0]])", "unequal"),
    ("kymogram.log('@f/#', 1.0, step=-1)", "step is negative: -1"),
    ("kymogram.log('@f/#', 1.0, step='3')", "step is an integer, not '3'"),
    ("kymogram.log('@f/#', 1.0, step=1.5)", "step is an integer, not 1.5"),
    ("kymogram.log('@f/#', 1.0, step=nan)", "step is an integer, not nan"),
    ("kymogram.log('@f/#', 1.0, step=2**63)", "step is above"),
    ("kymogram.log('@f/#', [1.0] * 9, step=2**62 - 3)", "step.*2.62"),
    ("kymogram.log('@f/#', [1.0, 2.0], step=[1])", "step has 1 entries and the value 2"),
    ("kymogram.log('@f/#', [1.0, 2.0], step=[1, -1])", "step is negative"),
    ("kymogram.log('@f/#', [1.0, 2.0], step=np.array([[1, 2]]))", "step"),
    ("kymogram.log('@f/#', 1.0, step=object())", "step is an integer"),
    ("kymogram.log('@f/#', 1.0, timestamp=-1)", "timestamp.*-1"),
    ("kymogram.log('@f/#', 1.0, timestamp='now')", "timestamp.*'now'"),
    ("kymogram.log('@f/#', 1.0, timestamp=nan)", "timestamp"),
    ("kymogram.log('@f/#', 1.0, timestamp=1e300)", "timestamp"),
    ("kymogram.log('@f/#', [1.0, 2.0], timestamp=[1])", "timestamp has 1 entries"),
    ("kymogram.log('@f/#', [1.0, 2.0], timestamp=[1, None])", "timestamp"),
    ("kymogram.log('@f/#', 1.0, labels={'a': 1})", "label 'a'.*int"),
    ("kymogram.log('@f/#', 1.0, labels={1: 'a'})", "label name.*int"),
    ("kymogram.log('@f/#', 1.0, labels={'a=': 'a'})", "'='"),
    ("kymogram.log('@f/#', 1.0, labels={'a': 'b&c'})", "'&'"),
    ("kymogram.log('@f/#', 1.0, labels=7)", "labels"),
    ("kymogram.log('@f/#', 1.0, labels={str(i): 'x' for i in range(65)})", "65 labels"),
    ("kymogram.log('@f/#', 1.0, scale='a b')", "scale"),
    ("kymogram.log('@f/#', 1.0, scale=3)", "scale is text, not int"),
    ("kymogram.log('@f/#', 1.0, dtype='complex64')", "dtype 'complex64'"),
    ("kymogram.log('', 1.0)", "metric name is empty"),
    ("kymogram.log(None, 1.0)", "metric name.*NoneType"),
    ("kymogram.log(['@f/#'], 1.0)", "metric name.*list"),
    ("kymogram.log('a b', 1.0)", "white space"),
    ("kymogram.log(':a', 1.0)", "starts with ':'"),
    ("kymogram.log('a\\ud800', 1.0)", "surrogate"),
    ("kymogram.log('x' * 1025, 1.0)", "1025 bytes"),
    ("kymogram.log({'@f/#': 1.0}, 2.0)", "not both"),
    ("kymogram.log({'@f/#': 1.0, '@f/1': 'x'})", "'@f/1'.*str"),
    ("kymogram.log({'@f/#': 1.0, 3: 1.0})", "metric name is text, not int"),
    ("kymogram.log({'@f/#': [1.0, 2.0], '@f/9': [1.0]}, step=[1, 2])", "step has 2"),
    ("kymogram.log({'@f/#': 1.0, '@f/9': [[1.0]]})", "shape"),
    ("kymogram.log({'@f/#': 1.0}, timestamp='x')", "timestamp"),
    ("kymogram.log({'@f/#': 1.0}, step=-4)", "step is negative"),
    ("kymogram.log_distributed('@f/#', 1.0)", "needs step"),
    ("kymogram.log_distributed('@f/#', 'x', step=1)", "str"),
    ("kymogram.log_distributed({'@f/#': 1.0, '@f/9': 'x'}, step=1)", "str"),
    ("kymogram.log('@d/#', 'x')", "str"),
    ("kymogram.log_text('@f/#', 5)", "'@f/#'.*int"),
    ("kymogram.log_text('@f/#', 'x', step=-1)", "step is negative"),
    ("kymogram.log_text('@f/#', 'x', timestamp='x')", "timestamp"),
    ("kymogram.log_histogram('@f/#', 5)", "histogram"),
    ("kymogram.log_histogram('@f/#', ([1], [0.0, 1.0]), step=1.5)", "step"),
    ("kymogram.log_scatter('@f/#', [1.0], [1.0, 2.0])", "unequal"),
    ("kymogram.log_scatter('@f/#', [1.0], [1.0], timestamp=-1)", "timestamp"),
    ("kymogram.log_rl_episode('@ep/1', 'x', 0, dtype='int64')", "'@ep/1'.*str"),
    ("kymogram.log_rl_episode('@ep/1', 1.0, -1)", "rl_step is negative"),
    ("kymogram.log_rl_episode('@ep/1', 1.0, None)", "rl_step is an integer"),
    ("kymogram.log_rl_episode('@ep/1', 1.0, 0, episode=-1)", "episode is negative"),
    ("kymogram.log_rl_episode('@ep/1', [1.0, 2.0], 0, episode=[1])", "episode has 1"),
    ("kymogram.log_rl_episode('@ep/1', [1.0, 2.0], 0, episode=2**62)", "episode.*2.62"),
    ("kymogram.log_rl_episode('@ep/1', [[1.0]], 0)", "shape"),
    ("kymogram.log_rl_episode('@ep/1', 1.0, 0, env_id='a/b')", "env_id contains '/'"),
    ("kymogram.log_rl_episode('@ep/1', 1.0, 0, timestamp='x')", "timestamp"),
    ("kymogram.log_rl_environment_step('@rl/1', 'x', 0, dtype='int64')", "'@rl/1'.*str"),
    ("kymogram.log_rl_environment_step('@rl/1', 1.0, 1.5)", "rl_step is an integer, not 1.5"),
    ("kymogram.log_rl_environment_step('@rl/1', 1.0, 0, env_id=[])", "env_id"),
    ("kymogram.log_rl_environment_step('@rl/1', 1.0, 0, env_id=['x', 'y'])", "shape"),
    ("kymogram.log_rl_environment_step('@rl/1', [[[1.0]]], 0, env_id=['x'])", "shape"),
    ("kymogram.log_rl_environment_step('@rl/1', [1.0], 0, env_id=['x y'])", "env_id"),
    ("kymogram.log_rl_environment_step('@rl/1', 1.0, 0, env_id=2.5)", "env_id is text"),
    ("kymogram.log_rl_environment_step('@rl/1', 1.0, 0, episode=-1)", "episode is negative"),
    ("kymogram.log_rl_environment_step('@rl/1', 1.0, 0, episode=2**63)", "episode.*above"),
    (
        "kymogram.log_rl_environment_step('@rl/1', [1.0, 2.0], 0, env_id=['x', 'y'], "
        "episode=np.array([1, 2**62 + 1]))",
        "episode is above",
    ),
    (
        "kymogram.log_rl_environment_step('@rl/1', [1.0, 2.0], 0, env_id=['x', 'y'], "
        "episode=[1, -2])",
        "episode is negative",
    ),
    (
        "kymogram.log_rl_environment_step('@rl/1', [1.0, 2.0], 0, env_id=['x', 'y'], "
        "episode=[1, 2, 3])",
        "episode has",
    ),
    (
        "kymogram.log_rl_environment_step('@rl/1', [[1.0], [2.0]], 0, env_id=['x', 'y'], "
        "timestamp=[1, 'x'])",
        "timestamp",
    ),
    ("kymogram.log_rl_environment_step('@rl/1', [1.0, 2.0], 0, env_step=[1])", "env_step has 1"),
    ("kymogram.log_rl_environment_step('@rl/1', [1.0], 0, env_step=-1)", "env_step is negative"),
    ("kymogram.log_rl_environment_step('@rl/1', [1.0] * 9, 0, env_step=2**62)", "env_step.*2.62"),
    ("kymogram.log_rl_environment_step('@rl/1', 1.0, 0, labels={'a': 'b=c'})", "'='"),
    ("kymogram.set_tags('x')", "tags"),
    ("kymogram.log_attributes('', 1)", "attribute path is empty"),
    ("kymogram.log_config(5)", "config"),
]
