"""Makes the golden vectors of the tests, with substrate-interface (py-scale-codec).

    go run ./test/subtensor/cmd --join 5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY
    python -m venv v && v/bin/pip install substrate-interface==1.8.1
    v/bin/python make_vectors.py ws://127.0.0.1:PORT internal/substrate/testdata

Besides vectors.json it writes the metadata of that chain, version 14 and 15, as
gzip files. The extrinsic is checked by its bytes up to and after the signature,
which is different each time.
"""

import gzip
import json
import pathlib
import sys

from scalecodec.base import ScaleBytes
from substrateinterface import Keypair, SubstrateInterface

URL, OUT = sys.argv[1], pathlib.Path(sys.argv[2])
ALICE = "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY"


def plain(value):
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return value


def main() -> None:
    s = SubstrateInterface(url=URL, ss58_format=42)
    s.init_runtime()
    raw = {14: bytes.fromhex(s.rpc_request("state_getMetadata", [])["result"][2:])}
    answer = s.rpc_request("state_call", ["Metadata_metadata_at_version", "0x0f000000"])["result"]
    opaque = bytes.fromhex(answer[2:])
    assert opaque[0] == 1  # Some
    size = {0: 1, 1: 2, 2: 4}[opaque[1] & 3]
    raw[15] = opaque[1 + size :]
    for version, data in raw.items():
        (OUT / f"dev-spec218-v{version}.scale.gz").write_bytes(gzip.compress(data, 9, mtime=0))

    calls = []
    for pallet, call, args in (
        ("SubtensorModule", "serve_prometheus", {"netuid": 1, "version": 183, "ip": 134744072, "port": 9101, "ip_type": 4}),
        ("SubtensorModule", "serve_prometheus", {"netuid": 65535, "version": 4294967295, "ip": 2**128 - 1, "port": 65535, "ip_type": 255}),
        ("SubtensorModule", "burned_register", {"netuid": 1, "hotkey": ALICE}),
        ("SubtensorModule", "set_weights", {"netuid": 1, "dests": [0, 1, 300], "weights": [1, 2, 65535], "version_key": 2**64 - 1}),
        ("System", "remark", {"remark": "0x" + "ab" * 100}),
        ("Balances", "transfer_keep_alive", {"dest": ALICE, "value": 2**40}),
        ("Timestamp", "set", {"now": 1739491200000}),
    ):
        data = s.compose_call(pallet, call, args).data
        calls.append({"pallet": pallet, "call": call, "args": plain(args), "hex": data.to_hex()})

    keys = []
    for pallet, entry, params in (
        ("SubtensorModule", "Prometheus", [1, ALICE]),
        ("SubtensorModule", "ServingRateLimit", [1]),
        ("SubtensorModule", "Uids", [1, ALICE]),
        ("System", "Account", [ALICE]),
        ("System", "BlockHash", [7]),
        ("System", "Number", []),
        ("Timestamp", "Now", []),
    ):
        key = s.create_storage_key(pallet, entry, params)
        keys.append({"pallet": pallet, "entry": entry, "params": params, "hex": key.to_hex()})

    values = []
    for pallet, entry, params in (
        ("System", "Account", [ALICE]),
        ("SubtensorModule", "ServingRateLimit", [1]),
        ("SubtensorModule", "Uids", [1, ALICE]),
        ("System", "Number", []),
        ("System", "LastRuntimeUpgrade", []),
        ("Aura", "Authorities", []),
    ):
        key = s.create_storage_key(pallet, entry, params)
        found = s.rpc_request("state_getStorage", [key.to_hex()])["result"]
        values.append({"pallet": pallet, "entry": entry, "hex": found, "value": plain(s.query(pallet, entry, params).value)})

    block = s.get_chain_head()
    key = s.create_storage_key("System", "Events", [])
    events = {
        "hex": s.rpc_request("state_getStorage", [key.to_hex(), block])["result"],
        "events": [
            {"pallet": e.value["module_id"], "name": e.value["event_id"], "extrinsic": -1 if e.value["extrinsic_idx"] is None else e.value["extrinsic_idx"]}
            for e in s.get_events(block)
        ],
    }

    compact = []
    for n in (0, 1, 63, 64, 16383, 16384, 2**30 - 1, 2**30, 2**32, 2**64 - 1):
        data = s.runtime_config.create_scale_object("Compact<u128>").encode(n)
        compact.append({"n": str(n), "hex": ScaleBytes(data.data).to_hex()})

    alice = Keypair.create_from_uri("//Alice", ss58_format=42)
    call = s.compose_call("SubtensorModule", "serve_prometheus", calls[0]["args"])
    xt = s.create_signed_extrinsic(call=call, keypair=alice, era="00", nonce=5)
    body = xt.data.data
    at = body.index(b"\x01", 2 + 2 + 32)  # length, version and kind, account: then the scheme
    extrinsic = {"nonce": 5, "seed": alice.seed_hex.hex() if isinstance(alice.seed_hex, bytes) else str(alice.seed_hex), "genesis": s.get_block_hash(0),
                 "before": body[: at + 1].hex(), "signature": body[at + 1 : at + 65].hex(), "after": body[at + 65 :].hex()}
    (OUT / "vectors.json").write_text(json.dumps(
        {"spec_version": s.runtime_version, "tx_version": s.transaction_version, "calls": calls, "keys": keys, "values": values,
         "events": events, "compact": compact, "extrinsic": extrinsic}, indent=1) + "\n")


main()
