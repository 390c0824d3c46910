"""No redirect is followed: the key leaves for no other host, and a sign-in is no answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kymogram
from kymogram import query
from kymogram._delivery import client

from . import reader
from .conftest import REPOSITORY
from .test_run import StandIn

TABLE = json.loads((REPOSITORY / "testdata" / "client" / "redirects.json").read_text())


@pytest.mark.parametrize("case", TABLE)
def test_words(case: dict[str, Any]) -> None:
    """Go's client reads the same table."""
    text = client.redirected(case["from"], case["location"])
    assert text.startswith(case["says"] + ". ")
    assert "secret" not in text
    if case["server"]:
        assert text.endswith(f". Name {case['server']} as the server (KYMOGRAM_SERVER)")
    else:
        assert "a proxy that asks for a sign-in" in text


@pytest.fixture
def doors() -> Iterator[tuple[StandIn, StandIn]]:
    """The one that is named, and the other that it redirects to."""
    named, other = StandIn(), StandIn()
    yield named, other
    for one in (named, other):
        one.server.shutdown()
        one.server.server_close()


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("path", ["PATH", "/login?next=PATH"])
def test_nobody_follows(
    doors: tuple[StandIn, StandIn],
    spool: Path,
    capsys: pytest.CaptureFixture[str],
    code: int,
    path: str,
) -> None:
    named, other = doors
    named.status, named.location = code, other.address + path
    told = f"Name {other.address} as the server" if path == "PATH" else "asks for a sign-in"
    with pytest.raises(query.QueryError, match="redirects to") as caught:
        list(query.Client(named.address, "k" * 40).projects())
    assert told in str(caught.value)
    kymogram.init(server=named.address, api_key="k" * 40, run_name="r")
    assert kymogram.is_offline()
    assert told in capsys.readouterr().err
    kymogram.log("loss", 0.5)
    kymogram.close(0)
    assert [point.value for point in reader.all_points(spool)] == [0.5]
    for headers in (named.gets[0], named.requests[0][1]):
        assert headers["Authorization"] == "Bearer " + "k" * 40
    assert not other.requests
    assert not other.gets
