"""kymogram.chain against the real Subtensor runtime, by way of the real binary."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import kymogram
from kymogram import chain
from kymogram._delivery import agent

from .conftest import REPOSITORY, real_binary

HOTKEY = "5EXc8RKduaYz9dvFoo5cq9h2czgTxHnRg4KJasBK4Rbco6Ko"
MISSING_GENESIS = 3


@dataclass
class OnDisk:
    """What a bittensor wallet has."""

    name: str
    hotkey_str: str
    path: str


@pytest.fixture(scope="module")
def wallets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("wallets")
    shutil.copytree(REPOSITORY / "internal/wallet/testdata/4.1.1/w", root / "w")
    for file in root.rglob("*"):
        if file.is_file():
            file.chmod(0o600)
    return root


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The test chain."""
    if shutil.which("go") is None:
        pytest.skip("the test chain is built with go, which is not here")
    out = tmp_path_factory.mktemp("bin") / "subtensor"
    package = "./test/subtensor/cmd"
    subprocess.run(["go", "build", "-o", str(out), package], cwd=REPOSITORY, check=True)
    return out


@pytest.fixture(scope="module")
def node(program: Path) -> Iterator[str]:
    with subprocess.Popen(
        [str(program), "--join", HOTKEY],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        if not line and process.wait() == MISSING_GENESIS:
            missing = "the dev genesis of Subtensor is not here, see docs/chain.md: "
            give = pytest.fail if os.environ.get("CHAIN") == "required" else pytest.skip
            give(missing + process.stderr.read())
        assert line, process.stderr.read()
        yield line.strip().removeprefix("ready ws=")
        process.terminate()


@pytest.fixture(autouse=True)
def binary(monkeypatch: pytest.MonkeyPatch) -> None:
    found = real_binary()
    if found is None:
        pytest.skip("the kymogram binary is not built; run make setup")
    monkeypatch.setattr(agent, "binary", lambda: str(found))


def test_the_seeds_names(node: str, wallets: Path, caplog: pytest.LogCaptureFixture) -> None:
    subtensor = chain.ComputeSubnetSubtensor(node, version="1.8.3", ip="8.8.4.4")
    plain = OnDisk("w", "plain", str(wallets))
    stranger = OnDisk("w", "second", str(wallets))
    caplog.set_level(logging.DEBUG, "kymogram.chain")

    assert not subtensor.serve_prometheus(stranger, 9101, 1)
    assert "HotKeyNotRegisteredInNetwork (Module)" in caplog.text
    for params, name in (
        ({"ip": 0x7F000001}, "InvalidIpAddress"),
        ({"ip_type": 5}, "InvalidIpType"),
        ({"port": 0}, "InvalidPort"),
        ({"port": 70000}, "invalid_argument"),
    ):
        call = {"version": 183, "ip": 0x08080808, "port": 9101, "ip_type": 4, "netuid": 1} | params
        ok, error = subtensor.do_serve_prometheus(plain, call)
        assert not ok
        assert error is not None
        assert error["name"] == name
        assert error["type"] == ("Error" if name == "invalid_argument" else "Module")

    caplog.clear()
    for inside in ("203.0.113.7", "::ffff:10.0.0.1", 0x7F000002):
        assert not chain.prometheus_extrinsic(subtensor, plain, 9101, 1, ip=inside)
        assert "not an address of the internet" in caplog.text
        caplog.clear()
    assert subtensor.serve_prometheus(plain, 9101, 1, wait_for_finalization=True)
    assert subtensor.serve_prometheus(plain, 9101, 1)  # already served
    assert subtensor.prometheus_endpoints(1) == [
        {
            "netuid": 1,
            "hotkey": HOTKEY,
            "uid": 1,
            "address": "8.8.4.4:9101",
            "version": chain.version_as_int("1.8.3"),
            "block": 6,
            "age_blocks": 0,
        }
    ]
    caplog.clear()
    assert not chain.prometheus_extrinsic(subtensor, plain, 9102, 1, ip=0x01010101)
    assert "ServingRateLimitExceeded" in caplog.text
    call = {"version": 183, "ip": 0x01010101, "port": 9102, "ip_type": 4, "netuid": 1}
    ok, error = subtensor.do_serve_prometheus(
        plain, call, wait_for_inclusion=True, wait_for_finalization=False
    )
    assert not ok
    assert error is not None
    assert error["name"] == "ServingRateLimitExceeded"
    assert subtensor.do_serve_prometheus(plain, call, wait_for_finalization=False) == (
        True,
        None,
    )  # no wait: not known


def test_a_nodes_life(program: Path, wallets: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Registered at the start, left alone while right, registered again when it is not."""
    with subprocess.Popen(
        [str(program), "--join", HOTKEY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as process:

        def new_blocks(count: int) -> None:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{count}\n")
            assert process.stdout.readline().endswith(" <nil>\n")

        assert process.stdout is not None
        line = process.stdout.readline()
        if not line and process.wait() == MISSING_GENESIS:
            pytest.skip("the dev genesis of Subtensor is not here, see docs/chain.md")
        url = line.strip().removeprefix("ready ws=")
        plain = OnDisk("w", "plain", str(wallets))
        old = chain.ComputeSubnetSubtensor(url, version="1.8.3", ip="8.8.4.4")
        try:
            assert old.init_prometheus(plain, 9101, 1)
            (first,) = old.prometheus_endpoints(1)
            assert old.sync_status(plain, 9101, 1)
            assert old.prometheus_endpoints(1) == [first]  # nothing was sent
            new = chain.ComputeSubnetSubtensor(url, version="1.9.0", ip="8.8.4.4")
            assert not new.sync_status(plain, 9101, 1)
            assert "ServingRateLimitExceeded" in caplog.text
            new_blocks(50)
            assert new.sync_status(plain, 9101, 1)
            (second,) = new.prometheus_endpoints(1)
            assert (second["version"], second["block"]) == (190, first["block"] + 51)
            new_blocks(60)
            assert new.sync_status(plain, 9101, 1, refresh_blocks=61)
            assert new.prometheus_endpoints(1)[0]["block"] == second["block"]
            assert new.sync_status(plain, 9101, 1, refresh_blocks=60)
            (third,) = new.prometheus_endpoints(1)
            assert third["block"] == second["block"] + 61
            new_blocks(50)
            assert new.init_prometheus(plain, 9101, 1, force_update=True)
            assert new.prometheus_endpoints(1)[0]["block"] == third["block"] + 51
        finally:
            process.terminate()
    assert not old.init_prometheus(plain, 9101, 1)
    assert "no node answers" in caplog.text


def test_failures_are_logged(
    wallets: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    subtensor = chain.ComputeSubnetSubtensor("ws://127.0.0.1:1", ip="8.8.4.4")
    assert not subtensor.serve_prometheus("nobody/none", 9101, 1)
    assert "there is no hotkey" in caplog.text
    assert not subtensor.serve_prometheus(OnDisk("w", "plain", str(wallets)), 9101, 1)
    assert "no node answers" in caplog.text
    caplog.clear()
    wrong: Any = "x"
    assert not subtensor.serve_prometheus("nobody/none", wrong, 1)
    assert 'port x, netuid 1: kymogram: invalid argument "x"' in caplog.text
    with pytest.raises(kymogram.KymogramError, match="no node answers"):
        subtensor.prometheus_endpoints(1)
    monkeypatch.setattr(agent, "binary", lambda: None)
    assert subtensor.do_serve_prometheus("nobody/none", {}) == (
        False,
        {"type": "Error", "name": "missing_binary", "docs": [agent.MISSING]},
    )


@pytest.mark.parametrize(
    ("where", "what"),
    [({"ip": "nonsense"}, "nonsense"), ({"wallet": object()}, "AttributeError")],
)
def test_the_unexpected_is_logged_with_its_stack(
    where: dict[str, object], what: str, caplog: pytest.LogCaptureFixture
) -> None:
    call: dict[str, Any] = {"wallet": "w/plain", "port": 9101, "netuid": 1} | where
    assert not chain.prometheus_extrinsic(chain.ComputeSubnetSubtensor("ws://127.0.0.1:1"), **call)
    assert what in caplog.text
    assert "Traceback" in caplog.text


def test_a_program_that_does_not_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "kymogram"
    broken.write_bytes(b"\x7fELF")
    broken.chmod(0o700)
    monkeypatch.setattr(agent, "binary", lambda: str(broken))
    subtensor = chain.ComputeSubnetSubtensor("ws://127.0.0.1:1", ip="8.8.4.4")
    assert not subtensor.serve_prometheus("w/plain", 9101, 1)
    assert "Traceback" in caplog.text
    ok, error = subtensor.do_serve_prometheus("w/plain", {})
    assert not ok
    assert error is not None
    assert "OSError" in error["docs"][0]


def test_axon_info(wallets: Path) -> None:
    plain = OnDisk("w", "plain", str(wallets))
    axon = chain.ComputeSubnetAxon(plain, 8091, ip="8.8.4.4", version="1.8.3")
    assert axon.info() == {
        "version": 183,
        "ip": "8.8.4.4",
        "port": 8091,
        "ip_type": 4,
        "hotkey": HOTKEY,
        "coldkey": "5EPHgxZunZi9Dey3hY5BjuFGDzxR2XAuT14DtExgjy8jicbE",
        "protocol": 4,
        "placeholder1": 0,
        "placeholder2": 0,
    }
    with pytest.raises(kymogram.KymogramError, match="there is no hotkey"):
        chain.ComputeSubnetAxon("w/none", ip="8.8.4.4").info()


@pytest.mark.parametrize(
    ("text", "number"), [("1.8.3", 183), ("1.8.13", 193), ("0.1.0+g12", 10), ("2.0.0-rc1", 200)]
)
def test_version(text: str, number: int) -> None:
    assert chain.version_as_int(text) == number


@pytest.mark.parametrize("text", ["", "1.2", "1.2.3.4", "a.b.c", "1.2.³", "99999999.0.0"])
def test_no_version(text: str) -> None:
    with pytest.raises(ValueError, match="1.8.3|too large"):
        chain.version_as_int(text)
