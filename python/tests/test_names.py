"""Bad input: each a clear error that names the character and the rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kymogram
from kymogram import KymogramValidationError

from . import reader

METRICS: list[tuple[Any, str]] = [
    ("", "metric name is empty"),
    (None, "metric name is text, not NoneType"),
    (3, "metric name is text, not int"),
    (("a",), "metric name is text, not tuple"),
    (["a"], "metric name is text, not list"),
    ("a b", "white space ' '"),
    ("a\tb", r"control character '\\t'"),
    ("a\nb", r"control character '\\n'"),
    ("a\u2028b", "white space"),
    ("a\x85b", "control character"),
    ("a\u3000b", "white space"),
    (":a", "starts with ':'"),
    ("\ud800", "surrogate"),
    ("x" * 1025, "1025 bytes, at most 1024"),
    ("é" * 513, "1026 bytes, at most 1024"),
    *[(f"a{c}b", "Reserved by the query language") for c in '()[],=<>!~"|'],
]


@pytest.mark.parametrize(("name", "message"), METRICS)
def test_metric_names(run: kymogram.Run, spool: Path, name: Any, message: str) -> None:
    for value in (1.0, 1, [1.0, 2.0]):
        with pytest.raises(KymogramValidationError, match=message):
            kymogram.log(name, value)
    if isinstance(name, (str, int, tuple, type(None))):
        with pytest.raises(KymogramValidationError, match=message):
            kymogram.log({"good": 1.0, name: 2.0})  # type: ignore[dict-item]
    assert reader.all_points(spool) == []


@pytest.mark.parametrize(
    "name", ["a", "train/loss", "a:b", "a&b?c%d#e{f}'g", "é漢字", "/a//", "x" * 1024]
)
def test_good_metric_names(run: kymogram.Run, spool: Path, name: str) -> None:
    kymogram.log(name, 1.0)
    assert [p.metric for p in reader.all_points(spool)] == [name]


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("step is negative: -1", {"step": -1}),
    ("above 2\\^62", {"step": 2**62 + 1}),
    ("above 2\\^62", {"step": 10**30}),
    ("step is an integer, not 1.5", {"step": 1.5}),
    ("step is an integer, not nan", {"step": float("nan")}),
    ("step is an integer, not '3'", {"step": "3"}),
    ("step has 2 entries and the value 1", {"step": [1, 2]}),
    ("step has 3 entries and the value 2", {"value": [1, 2], "step": [1, 2, 3]}),
    ("step is negative", {"value": [1, 2], "step": [1, -2]}),
    ("pass 2\\^62", {"value": [1, 2], "step": 2**62}),
    ("timestamp is Unix milliseconds", {"timestamp": "now"}),
    ("timestamp is Unix milliseconds from 0", {"timestamp": -1}),
    ("looks like nanoseconds: give", {"timestamp": 1_700_000_000_000_000_000}),
    ("timestamp has 1 entries", {"value": [1, 2], "timestamp": [1]}),
    ("not a number", {"value": "0.5"}),
    ("not a number", {"value": None}),
    ("not a number", {"value": 1j}),
    ("not a number", {"value": object()}),
    ("not a number", {"value": [1.0, "x"]}),
    ("not a number", {"value": [None]}),
    ("unequal lengths", {"value": [[1, 2], [3]]}),
    ("mixes numbers and arrays", {"value": [1, [2]]}),
    (r"shape \(2, 2\)", {"value": [[1, 2], [3, 4]]}),
    ("too large for float64", {"value": 10**400}),
    ("labels is a mapping", {"labels": ["a"]}),
    ("label name is empty", {"labels": {"": "x"}}),
    ("value of label 'a' is text, not int", {"labels": {"a": 1}}),
    ("value of label 'a' is text, not list", {"labels": {"a": []}}),
    ("Reserved between labels", {"labels": {"a": "x&y"}}),
    ("contains '='", {"labels": {"a=b": "x"}}),
    ("contains '&'", {"labels": {"a&b": "x"}}),
    ("129 bytes, at most 128", {"labels": {"x" * 129: "x"}}),
    ("1025 bytes, at most 1024", {"labels": {"a": "x" * 1025}}),
    ("65 labels", {"labels": {f"l{i}": "x" for i in range(65)}}),
    ("scale contains white space", {"scale": "A B"}),
    ("scale is text", {"scale": 3}),
    ("dtype 'int8' is not known", {"dtype": "int8"}),
]


@pytest.mark.parametrize(("message", "arguments"), CALLS)
def test_arguments_of_log(
    run: kymogram.Run, spool: Path, message: str, arguments: dict[str, Any]
) -> None:
    given = {"value": 1.0, **arguments}
    with pytest.raises(KymogramValidationError, match=message):
        kymogram.log("metric", **given)
    assert reader.all_points(spool) == []
    kymogram.log("metric", 1.0)
    assert len(reader.all_points(spool)) == 1


INITS: list[tuple[str, dict[str, Any]]] = [
    ("workspace_name contains ' ' at place 1", {"workspace_name": "a b"}),
    ("workspace_name is empty", {"workspace_name": ""}),
    ("workspace_name='team', project_name='digits'", {"project_name": "team/digits"}),
    ("project_name contains '-' at place 0", {"project_name": "-a"}),
    ("project_name contains 'é'", {"project_name": "é"}),
    ("129 bytes", {"project_name": "x" * 129}),
    ("run_name is empty", {"run_name": ""}),
    ("run_name contains the control character", {"run_name": "a\0b"}),
    ("257 bytes", {"run_name": "x" * 257}),
    ("ResumeStrategy: choose one of never, allow", {"resume_strategy": "sometimes"}),
    ("drop_new, block, raise", {"backpressure_strategy": "x"}),
    ("silent, warn", {"error_strategy": "x"}),
    ("LogLevel", {"log_level": "loud"}),
    ("none, zstd", {"compression": "gzip"}),
    ("logger_id is from 0", {"logger_id": -1}),
    ("fork_at_step needs", {"fork_at_step": 1}),
    ("resume_from_step is negative", {"resume_from_step": -1}),
    ("server is an address", {"server": "ftp://x"}),
    ("server is an address", {"server": "http://"}),
    ("a key never has", {"api_key": "a b"}),
    ("config is a mapping", {"config": 3}),
    ("tags are a list", {"tags": "abc"}),
    ("tag is empty", {"tags": [""]}),
    ("description is text", {"description": 3}),
]


@pytest.mark.parametrize(("message", "arguments"), INITS)
def test_arguments_of_init(spool: Path, message: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(KymogramValidationError, match=message):
        kymogram.init(**arguments)
    assert not kymogram.is_initialized()
    assert not spool.exists()


def test_attribute_paths(run: kymogram.Run) -> None:
    bad = {"": "empty", "a b": "white space", "sys/x": "reserved"}
    for path, message in bad.items():
        with pytest.raises(KymogramValidationError, match=message):
            kymogram.log_attributes(path, 1)
    with pytest.raises(KymogramValidationError, match="reserved"):
        kymogram.log_attributes("", {"sys": {"x": 1}})


def test_attributes_of_several_paths(run: kymogram.Run, spool: Path) -> None:
    """A prefix of nothing, as Metrana's client takes it."""
    kymogram.log_attributes("", {"a": 1, "b/c": {"d": "x"}})
    kymogram.log_attributes("", {})
    assert {path: one["value"] for path, one in attributes(spool).items()} == {"a": 1, "b/c/d": "x"}


def attributes(spool: Path) -> dict[str, Any]:
    (folder,) = reader.writers(spool)
    found = reader.updates(reader.records(folder))
    return {one["path"]: one["value"] for one in found if one["op"] == "set_attribute"}


def test_paths_that_only_the_document_forbids(
    spool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Metrana's client takes them; one warning a rule."""
    kymogram.init(run_name="r")
    kymogram.log_config({"": 1, "a//b": {"": 2}, "/c/": 3, "é": 4})
    kymogram.log_attributes("/top", 5)
    kymogram.log_attributes("top/", 6)
    values = {path: one["value"] for path, one in attributes(spool).items()}
    assert values == {
        "config/": 1,
        "config/a//b/": 2,
        "config//c/": 3,
        "config/é": 4,
        "/top": 5,
        "top/": 6,
    }
    said = capsys.readouterr().err
    assert said.count("empty key") == said.count("contains 'é'") == 1


def test_integers_beyond_int64_are_text(spool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kymogram.init(run_name="r")
    kymogram.log_config({"seed": 2**128 - 1, "low": -(2**63), "lower": -(2**63) - 1})
    assert attributes(spool) == {
        "config/seed": {"type": "string", "value": str(2**128 - 1)},
        "config/low": {"type": "int64", "value": str(-(2**63))},
        "config/lower": {"type": "string", "value": str(-(2**63) - 1)},
    }
    assert capsys.readouterr().err.count("outside int64") == 1


def test_labels_as_pairs_and_odd_values(run: kymogram.Run, spool: Path) -> None:
    kymogram.log("a", 1.0, labels=[("k", "v")])  # type: ignore[arg-type]
    kymogram.log("a", 2.0, labels={"k": "v"})
    kymogram.log("a", 3.0, labels={"k": "line\u2028separator", "empty": ""})
    found = [(p.labels, p.axes["step"], p.value) for p in reader.all_points(spool)]
    assert found == [
        ({"k": "v"}, 0, 1.0),
        ({"k": "v"}, 1, 2.0),
        ({"empty": "", "k": "line\u2028separator"}, 0, 3.0),
    ]


def test_many_tags(run: kymogram.Run, spool: Path) -> None:
    """The server takes 1,000 in one change."""
    names = [f"t{i}" for i in range(2001)]
    kymogram.set_tags(names)
    kymogram.remove_tags(names[:1001])
    (folder,) = reader.writers(spool)
    sent = [(one["op"], one["tags"]) for one in reader.updates(reader.records(folder))]
    assert [(op, len(tags)) for op, tags in sent] == [
        ("set_tags", 1000),
        ("add_tags", 1000),
        ("add_tags", 1),
        ("remove_tags", 1000),
        ("remove_tags", 1),
    ]
    assert [tag for _, tags in sent[:3] for tag in tags] == names


def test_metrana_names_are_aliases() -> None:
    assert kymogram.MetranaValidationError is KymogramValidationError
    for name in kymogram.__all__:
        assert hasattr(kymogram, name)


def test_environment_ids_of_numpy(run: kymogram.Run, spool: Path) -> None:
    numpy = pytest.importorskip("numpy")
    for ids in (numpy.arange(3), [0, 1, 2], numpy.array(["0", "1", "2"])):
        kymogram.log_rl_environment_step("r", [1.0, 2.0, 3.0], 0, env_id=ids, episode=0)
    found = [point.labels["env_id"] for point in reader.all_points(spool)]
    assert sorted(found) == ["0"] * 3 + ["1"] * 3 + ["2"] * 3
    assert len({point.labels["env_id"] for point in reader.all_points(spool)}) == 3
