"""kymogram.netstate against a real server, with real keys, by way of the real binary."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kymogram import netstate
from kymogram._delivery import agent
from kymogram._netstate import record

from .conftest import REPOSITORY, closed_port, real_binary
from .rig import Served


def _texts(pairs: list[tuple[str, Any]]) -> Any:
    """An object, or its text where it names something twice."""
    if len(dict(pairs)) == len(pairs):
        return dict(pairs)
    return "{" + ", ".join(f"{json.dumps(name)}: {json.dumps(one)}" for name, one in pairs) + "}"


VECTORS = json.loads(
    (REPOSITORY / "testdata/state/vectors.json").read_text(encoding="utf-8"),
    object_pairs_hook=_texts,
)


@pytest.fixture(autouse=True)
def binary(monkeypatch: pytest.MonkeyPatch) -> None:
    found = real_binary()
    if found is None:
        pytest.skip("the kymogram binary is not built; run make setup")
    monkeypatch.setattr(agent, "binary", lambda: str(found))


@dataclass
class Held:
    """What is used of a bittensor wallet whose key is in memory."""

    hotkey: Any


def held(seed: int) -> Held:
    wallet = pytest.importorskip("bittensor_wallet", reason="pip install kymogram[chain]")
    return Held(wallet.Keypair.create_from_seed("0x" + f"{seed:064x}"))


Join = Callable[..., netstate.ComputeWandb]


@pytest.fixture
def join(served: Served, tmp_path: Path) -> Iterator[Join]:
    """Let a participant in: a seed, a role, other arguments."""
    opened = []

    def joined(seed: int, role: str, **options: Any) -> netstate.ComputeWandb:
        db = options.pop("db", None) or netstate.ComputeDb(str(tmp_path / f"{seed}.db"))
        one = netstate.ComputeWandb({"netuid": 27}, held(seed), role, db=db, **options)
        opened.append(one)
        return one

    yield joined
    for one in opened:
        one.close()


def stat(uid: int, hotkey: str, score: float) -> dict[str, Any]:
    return {
        "uid": uid,
        "hotkey": hotkey,
        "gpu_specs": {"gpu_name": "H100", "num_gpus": 1},
        "score": score,
        "allocated": True,
        "own_score": True,
        "reliability_score": 1.0,
        "created_at": "2026-01-01 00:00:00",
    }


def test_a_reader_without_a_chain_has_a_limit(join: Join) -> None:
    """What has no room is named, and whom a call names is read all the same."""
    first, second = join(1, "validator"), join(2, "validator")
    reader = join(3, "miner", max_bytes=8192)  # room for one beside its own
    for validator, score in ((first, 50.0), (second, 60.0)):
        validator.update_stats({5: stat(5, reader.hotkey, score)})
    assert reader.get_stats_allocated([], False)[5]["score"] == 50
    found = {one["hotkey"]: one for one in reader.verdicts()}
    assert found[second.hotkey]["verdict"] == "not_read"
    assert "max_bytes" in found[second.hotkey]["reason"]
    assert reader.get_stats_allocated([second.hotkey], True)[5]["score"] == 60


def test_two_validators_and_a_miner(join: Join) -> None:
    first, second = join(1, "neurons/validator.py"), join(2, "validator")
    miner = join(3, "miner.py")
    first.update_stats({5: stat(5, miner.hotkey, 50)})
    second.update_stats({5: stat(5, miner.hotkey, 60)})
    assert miner.get_stats_allocated([], False)[5]["score"] == 60
    assert miner.get_stats_allocated([first.hotkey], True)[5]["score"] == 50

    netstate.write_stats(first.db, {5: stat(5, miner.hotkey, 70) | {"allocated": False}})
    first.update_allocated_hotkeys([miner.hotkey])
    assert netstate.retrieve_stats(first.db)[5]["allocated"] is True
    assert second.get_allocated_hotkeys([], False) == [miner.hotkey]
    second.update_penalized_hotkeys([first.hotkey])
    second.update_penalized_hotkeys_checklist([miner.hotkey])
    assert first.get_penalized_hotkeys([], False) == [first.hotkey]
    assert first.get_penalized_hotkeys_checklist([], False) == [miner.hotkey]

    miner.sync_allocated()
    miner.update_miner_port_open(True)
    miner.update_specs({"gpu": {"count": 1}})
    assert first.get_miner_specs({5: miner.hotkey}) == {5: (miner.hotkey, {"gpu": {"count": 1}})}
    miner.update_specs({"gpu": {"count": 2}}, readers=[first.hotkey])
    assert first.get_miner_specs({5: miner.hotkey}) == {5: (miner.hotkey, {"gpu": {"count": 2}})}
    assert second.get_miner_specs({5: miner.hotkey}) == {}
    assert first.verify_run(miner.run_id)
    assert {one["verdict"] for one in first.verdicts()} == {"verified"}
    miner.log_chain_data({"Block": 1.0, "Stake": 2.0})
    miner.flush()


def test_what_is_refused_says_why(join: Join) -> None:
    miner = join(3, "miner")
    with pytest.raises(netstate.NetstateError, match="for a validator"):
        miner.update_stats({})
    nobody = held(9).hotkey.ss58_address
    with pytest.raises(netstate.NetstateError, match="has published no key") as caught:
        miner.update_specs({}, readers=[nobody])
    assert caught.value.code == "not_found"
    with pytest.raises(ValueError, match="not JSON compliant"):
        miner.update_config({"x": float("nan")})
    with pytest.raises(netstate.NetstateError, match="the role is"):
        join(4, "auditor.py")


def test_a_wallet_on_disk_signs_in_the_binary(served: Served, tmp_path: Path) -> None:
    shutil.copytree(REPOSITORY / "internal/wallet/testdata/4.1.1/w", tmp_path / "w")
    for file in tmp_path.rglob("w/**/*"):
        if file.is_file():
            file.chmod(0o600)
    db = netstate.ComputeDb(str(tmp_path / "x.db"))
    with netstate.ComputeWandb(
        {"netuid": 27}, "w/plain", "miner", db=db, wallet_path=str(tmp_path)
    ) as one:
        one.update_allocated(None)
        assert one.verify_run(one.run_id)
        assert one.get_run_id(one.hotkey) == one.run_id
        one.save_run_id(one.hotkey, "other")
        assert one.get_run_id(one.hotkey) == one.run_id


def test_the_perf_info_of_this_machine() -> None:
    found = netstate.get_perf_info()
    assert set(found) == {"cpu", "gpu", "hard_disk", "ram", "has_docker"}
    assert found["cpu"]["count"] >= 1


# Records, by bittensor's own wallet.


@pytest.mark.parametrize("one", VECTORS["records"], ids=lambda one: one["name"])
def test_records_of_the_vectors(one: dict[str, Any]) -> None:
    keypair = held(1).hotkey.__class__.create_from_seed("0x" + one["seed"])
    got = netstate.verify_record(one["envelope"])
    fields = one["fields"]
    for name in "netuid role workspace project run sequence block time_ms expires_ms".split():
        assert getattr(got, name) == fields[name], name
    assert got.hotkey.hex() == bytes(keypair.public_key).hex()
    assert keypair.ss58_address == one["address"]
    assert got.canonical().hex() == one["canonical"]
    assert hashlib.sha256(got.canonical()).hexdigest() == one["hash"]
    assert (b"<Bytes>" + got.canonical() + b"</Bytes>").hex() == one["message"]


@pytest.mark.parametrize("one", VECTORS["refused"], ids=lambda one: one["name"])
def test_what_the_vectors_refuse(one: dict[str, Any]) -> None:
    held(1)
    with pytest.raises(netstate.NetstateError):
        netstate.verify_record(one["envelope"])


def test_the_old_signatures_of_the_vectors() -> None:
    keypair = held(1).hotkey.__class__
    for one in VECTORS["legacy"]:
        digest = hashlib.sha256(one["run"].encode()).digest()
        assert keypair(one["address"]).verify(digest, bytes.fromhex(one["signature"]))


def test_every_bit_of_a_record_counts() -> None:
    held(1)
    whole = VECTORS["records"][0]["envelope"]
    raw = record._base64(whole["record"])
    random.seed(7)
    for bit in random.sample(range(len(raw) * 8), 200):
        changed = bytearray(raw)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(netstate.NetstateError):
            text = base64.b64encode(bytes(changed)).decode()
            netstate.verify_record({**whole, "record": text})


def test_pyrage_reads_what_the_binary_encrypted(join: Join) -> None:
    pytest.importorskip("pyrage", reason="pip install kymogram[chain]")
    reader, miner = join(1, "validator"), join(3, "miner")
    miner.update_specs({"gpu": "secret"}, readers=[reader.hotkey])
    (identity,) = reader.db.get_cursor().execute("SELECT identity FROM state_self").fetchone()
    other = miner.db.get_cursor().execute("SELECT identity FROM state_self").fetchone()[0]
    head = _head(reader, miner.run_id)
    specs = json.loads(record._base64(head["payload"]))["specs"]
    assert "secret" not in json.dumps(specs)
    assert netstate.decrypt_specs(specs, miner.hotkey, identity) == {"gpu": "secret"}
    with pytest.raises(netstate.NetstateError, match="cannot be decrypted"):
        netstate.decrypt_specs(specs, miner.hotkey, other)
    with pytest.raises(netstate.NetstateError, match="by another hotkey"):
        netstate.decrypt_specs(specs, reader.hotkey, identity)


def _head(reader: netstate.ComputeWandb, run: str) -> dict[str, Any]:
    """The newest record of a run, as the reader's memory has it."""
    reader.verify_run(run)
    for (text,) in reader.db.get_cursor().execute("SELECT envelope FROM state_seen"):
        found: dict[str, Any] = json.loads(text)
        if netstate.verify_record(found).run == run:
            return found
    raise AssertionError(run)


# The database and the vote.


def test_the_database(tmp_path: Path) -> None:
    db = netstate.ComputeDb(str(tmp_path / "database.db"))
    db.save_run_id("hot", "first")
    db.save_run_id("hot", "second")
    assert db.get_run_id("hot") == "first"
    assert db.get_run_id("cold") is None
    for n in range(6):
        db.add_pog("hot", f"gpu{n}", n)
    db.add_pog("cold", "x", 1)
    assert [one["num_gpus"] for one in db.get_pog("hot")] == [5, 4, 3, 2]
    db.add_challenge(3, "hot", True, 0.5, 6)
    netstate.write_stats(db, {3: stat(3, "hot", 5), 4: stat(4, "x", 6) | {"gpu_specs": None}})
    netstate.write_stats(db, {3: stat(3, "hot", 7)})
    found = netstate.retrieve_stats(db)
    assert found == {3: stat(3, "hot", 7), 4: stat(4, "x", 6) | {"gpu_specs": None}}
    db.get_cursor().execute("UPDATE stats SET gpu_specs = 'damaged', score = NULL WHERE uid = 3")
    assert netstate.retrieve_stats(db)[3]["gpu_specs"] is None
    with pytest.raises(sqlite3.Error), db.writing() as conn:
        conn.execute("DELETE FROM stats")
        conn.execute("no SQL")
    assert len(netstate.retrieve_stats(db)) == 2
    if sys.platform != "win32":
        assert Path(db.path).stat().st_mode & 0o077 == 0
    db.close()


def naive(reports: list[dict[str, Any]]) -> dict[str, Any] | None:
    """As the specification's words say it."""
    left = [one for one in reports if one["score"] != 0]
    if not left:
        return None

    def said(one: dict[str, Any]) -> tuple[Any, ...]:
        specs = one["gpu_specs"]
        return (
            one["hotkey"],
            specs and specs["gpu_name"],
            specs and specs["num_gpus"],
            one["score"],
        )

    counts = Counter(map(said, left))
    most = max(counts.values())
    finalists = [one for one in left if counts[said(one)] == most]
    highest = max(one["score"] for one in finalists)
    winner = said(next(one for one in finalists if one["score"] == highest))
    carriers = [one for one in left if said(one) == winner]

    def halves(name: str) -> tuple[Any, Any]:
        """The lowest and highest that half of them or less are above and below."""
        found = [one[name] for one in carriers]
        fair = [
            value
            for value in found
            if sum(v < value for v in found) * 2 <= len(found)
            and sum(v > value for v in found) * 2 <= len(found)
        ]
        return min(fair), max(fair)

    low, high = halves("reliability_score")
    return carriers[0] | {
        "own_score": True,
        "reliability_score": 0 if low <= 0 <= high else min(low, high, key=abs),
        "created_at": halves("created_at")[0],
        "allocated": halves("allocated")[0],
    }


def test_pick_dominant_dict() -> None:
    draw = random.Random(3)
    for _ in range(2_000):
        reports = []
        for n in range(draw.randint(0, 6)):
            one = stat(5, draw.choice("xy"), draw.choice([0, 1, 2, 2.5]))
            one["reliability_score"], one["created_at"] = draw.randint(-2, 2), str(n)
            one["allocated"] = draw.choice([True, False])
            specs = {"gpu_name": draw.choice("AB"), "num_gpus": draw.randint(1, 2)}
            one["gpu_specs"] = draw.choice([None, specs])
            reports.append(one)
        assert netstate.pick_dominant_dict(reports) == naive(reports)


def test_page_and_reader_agree_about_hostile_reports(join: Join, served: Served) -> None:
    honest, second, liar = join(1, "validator"), join(2, "validator"), join(3, "validator")
    reader = join(4, "miner")
    miners = [join(10 + n, "miner").hotkey for n in range(3)]
    true = {str(uid): stat(uid, key, 50) for uid, key in enumerate(miners)}
    lies = {"created_at": "1970", "reliability_score": -7}
    copied = {uid: one | lies for uid, one in true.items()}
    copied["1"]["hotkey"] = liar.hotkey
    copied["2"]["gpu_specs"] = {"gpu_name": "H100", "num_gpus": 1.0}
    wrong = {"score": 1e308, "hotkey": miners[0][:-1] + "x", "num": "x"}
    for n, (name, value) in enumerate(wrong.items()):
        copied[str(30 + n)] = stat(30 + n, miners[0], 60) | {name: value}
    copied["32"]["gpu_specs"] = {"gpu_name": "H100", "num_gpus": "x"}
    honest.update_config({"stats": true})
    second.update_config({"stats": true})
    liar.update_config({"stats": copied})

    want = {int(uid): one | {"own_score": True} for uid, one in true.items()}
    assert reader.get_stats_allocated([], False) == want
    path = "/api/v1/projects/neuralinternet/opencompute/network"
    with urllib.request.urlopen(served.address + path) as answer:
        page = json.load(answer)
    results = {one["uid"]: one["result"] for one in page["miners"] if one["result"]}
    said = ("hotkey", "score", "reliability_score", "created_at")
    assert {uid: [one[name] for name in said] for uid, one in results.items()} == {
        uid: [one[name] for name in said] for uid, one in want.items()
    }
    assert {len(one["carried"]) for one in results.values()} == {2, 3}
    reasons = {one["run"]: one["reason"] for one in reader.verdicts()}
    assert "3 of its reports have a wrong form" in reasons[liar.run_id]


def test_without_the_binary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "binary", lambda: None)
    with pytest.raises(netstate.NetstateError, match="binary is not in this package"):
        netstate.get_perf_info()


def test_a_process_that_died_says_so(join: Join) -> None:
    miner = join(3, "miner")
    miner._helper._process.kill()
    miner._helper._process.wait()
    with pytest.raises(netstate.NetstateError, match="has ended"):
        miner.sign_run()
    miner.close()


# The page: docs/netstate.md.

_PAGE = REPOSITORY / "docs" / "netstate.md"
_SNIPPET = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
_HANDS = """
from bittensor_wallet import Keypair
class Held:
    hotkey = Keypair.create_from_seed("0x" + "07" * 32)
wallet = Held()
miner = Keypair.create_from_seed("0x" + "08" * 32).ss58_address
"""


Reader = Callable[[str], "subprocess.CompletedProcess[str]"]


@pytest.fixture
def reader_of_the_page(tmp_path: Path) -> Reader:
    """What a reader of the page has: an empty folder, wallets, the binary."""
    held(1)
    wallets = tmp_path / ".bittensor" / "wallets" / "default"
    shutil.copytree(REPOSITORY / "internal/wallet/testdata/4.1.1/w", wallets)
    (wallets / "hotkeys" / "plain").rename(wallets / "hotkeys" / "validator")
    (wallets / "hotkeys" / "second").rename(wallets / "hotkeys" / "miner")
    for file in wallets.rglob("*"):
        if file.is_file():
            file.chmod(0o600)
    home = {"HOME": str(tmp_path), "USERPROFILE": str(tmp_path)}
    source = {"PYTHONPATH": str(REPOSITORY / "python" / "src")}
    source["KYMOGRAM_BINARY"] = str(real_binary())

    def run(program: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            env={**os.environ, **home, **source},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


def test_the_snippets_of_the_page(served: Served, reader_of_the_page: Reader) -> None:
    """Twice: as the one program that they are, in one folder."""
    program = _HANDS + "".join(_SNIPPET.findall(_PAGE.read_text(encoding="utf-8")))
    program += "\nassert validator.get_stats_allocated([], False)[5]['score'] == 50.0"
    program += "\nassert {one['verdict'] for one in validator.verdicts()} == {'verified'}"
    for _ in range(2):
        done = reader_of_the_page(program)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr


def test_the_page_while_no_server_answers(served: Served, reader_of_the_page: Reader) -> None:
    """The call says so, and what was said goes out with the next program."""
    first, _ = _SNIPPET.findall(_PAGE.read_text(encoding="utf-8"))
    away = f"http://127.0.0.1:{closed_port()}"
    head = f"import os\nos.environ['KYMOGRAM_SERVER'] = '{away}'\n"
    done = reader_of_the_page(head + _HANDS + first)
    assert done.returncode == 1
    assert "NetstateError" in done.stderr
    assert "waits" in done.stderr
    again = _HANDS + "".join(first.splitlines(True)[:4])
    done = reader_of_the_page(
        again + "print(validator.get_allocated_hotkeys([], False) == [miner])"
    )
    assert done.stdout == "True\n", done.stderr
