"""Verifications a second by kymogram.netstate, with bittensor's own wallet."""

import base64
import hashlib
import time

from bittensor_wallet import Keypair

from kymogram import netstate

keypair = Keypair.create_from_seed("0x" + "01" * 32)
payload = bytes(60_000)
record = netstate.Record(
    genesis=bytes(32),
    netuid=27,
    role="validator",
    hotkey=bytes(keypair.public_key),
    workspace="w",
    project="p",
    run="r",
    sequence=1,
    previous=bytes(32),
    block=0,
    time_ms=1,
    expires_ms=2,
    machine=bytes(16),
    payload_type="config/v1",
    payload_hash=hashlib.sha256(payload).digest(),
)
raw = record.canonical()
envelope = {
    "record": base64.b64encode(raw).decode(),
    "payload": base64.b64encode(payload).decode(),
    "signature": keypair.sign(b"<Bytes>" + raw + b"</Bytes>").hex(),
}
began, count = time.perf_counter(), 0
while time.perf_counter() - began < 2:
    netstate.verify_record(envelope)
    count += 1
print(f"verify_record: {count / (time.perf_counter() - began):,.0f} a second")
