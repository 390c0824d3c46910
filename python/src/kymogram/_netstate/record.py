"""Signed records, read with bittensor's own wallet: docs/format/state.md."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .helper import NetstateError

PREFIX = b"kymogram/state/v1\x00"
MAX_RECORD, MAX_PAYLOAD, MAX_NAME = 4 << 10, 1 << 20, 255
MAX_NUMBER, MAX_LIFE_MS = (1 << 53) - 1, 31 * 24 * 3600 * 1000
NO_EXTRA = "pip install kymogram[chain] brings what this needs, or use the kymogram binary"


@dataclass(frozen=True)
class Record:
    """What a signature covers."""

    genesis: bytes
    netuid: int
    role: str
    hotkey: bytes
    workspace: str
    project: str
    run: str
    sequence: int
    previous: bytes
    block: int
    time_ms: int
    expires_ms: int
    machine: bytes
    payload_type: str
    payload_hash: bytes

    def canonical(self) -> bytes:
        """The bytes that are signed and hashed."""
        out = PREFIX + self.genesis + struct.pack(">H", self.netuid) + _text(self.role)
        out += self.hotkey + _text(self.workspace) + _text(self.project) + _text(self.run)
        out += struct.pack(">Q", self.sequence) + self.previous
        out += struct.pack(">QQQ", self.block, self.time_ms, self.expires_ms) + self.machine
        return out + _text(self.payload_type) + self.payload_hash


def _text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack(">H", len(raw)) + raw


def decode(raw: bytes) -> Record:
    """Read canonical bytes; ValueError when they are none."""
    if not raw.startswith(PREFIX):
        raise ValueError("the record does not begin with its prefix")
    at = len(PREFIX)

    def take(size: int) -> bytes:
        nonlocal at
        at += size
        if at > len(raw):
            raise ValueError("the record is cut short")
        return raw[at - size : at]

    def number(size: int) -> int:
        return int.from_bytes(take(size), "big")

    def text() -> str:
        return take(number(2)).decode("ascii")

    record = Record(
        genesis=take(32),
        netuid=number(2),
        role=text(),
        hotkey=take(32),
        workspace=text(),
        project=text(),
        run=text(),
        sequence=number(8),
        previous=take(32),
        block=number(8),
        time_ms=number(8),
        expires_ms=number(8),
        machine=take(16),
        payload_type=text(),
        payload_hash=take(32),
    )
    if at != len(raw) or at > MAX_RECORD:
        raise ValueError("bytes follow the record, or there are too many")
    _check(record)
    return record


def _check(record: Record) -> None:
    if record.role not in ("validator", "miner"):
        raise ValueError(f"the role is {record.role!r}")
    for name in (record.workspace, record.project, record.run, record.payload_type):
        plain = all(" " <= letter <= "~" for letter in name)
        if not plain or name != name.strip(" ") or not 0 < len(name) <= MAX_NAME:
            raise ValueError(f"the name {name!r} is not printable ASCII")
    for number in (record.sequence, record.time_ms, record.expires_ms):
        if not 0 < number <= MAX_NUMBER:
            raise ValueError(f"the number {number} is out of range")
    if record.block > MAX_NUMBER:
        raise ValueError(f"the block {record.block} is out of range")
    if not 0 < record.expires_ms - record.time_ms <= MAX_LIFE_MS:
        raise ValueError("the record lives for ever, or not at all")


def _base64(text: str) -> bytes:
    raw = base64.b64decode(text, validate=True)
    if base64.b64encode(raw).decode() != text:  # one text for each value
        raise ValueError("this is not base64 with padding")
    return raw


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("it names something twice")
    return out


def _object(text: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(text, object_pairs_hook=_once)
    return found


def verify_record(envelope: Mapping[str, Any] | str) -> Record:
    """Check the form, the payload's hash and the signature of one envelope, or of its JSON text.

    Place, time and order are for a reader with a memory: `ComputeWandb.verify_run`.

    Raises:
        NetstateError: it does not hold, or bittensor-wallet is not installed.

    """
    try:
        from bittensor_wallet import Keypair
    except ImportError as error:
        raise NetstateError("bittensor-wallet is not installed", "missing", NO_EXTRA) from error
    try:
        found = _object(envelope) if isinstance(envelope, str) else envelope
        raw, payload = _base64(found["record"]), _base64(found["payload"])
        signature = bytes.fromhex(found["signature"])
        if len(signature) != 64 or signature.hex() != found["signature"]:
            raise ValueError("the signature is not 128 lower-case hexadecimal characters")
        if len(payload) > MAX_PAYLOAD:
            raise ValueError("the payload is too large")
        record = decode(raw)
    except (KeyError, TypeError, ValueError) as error:
        raise NetstateError(f"the envelope is damaged: {error}", "state_refused") from error
    if hashlib.sha256(payload).digest() != record.payload_hash:
        raise NetstateError("the payload is not the signed one", "state_refused")
    message = b"<Bytes>" + raw + b"</Bytes>"
    pair = Keypair(public_key=record.hotkey.hex(), ss58_format=42)
    if not pair.verify(message, signature):
        raise NetstateError("the signature is not one of its hotkey", "state_refused")
    return record


def decrypt_specs(specs: Mapping[str, Any], hotkey: str, identity: str) -> Any:
    """Read specs that a hotkey encrypted for an age identity (AGE-SECRET-KEY-1…).

    `ComputeWandb.get_miner_specs` does it with the database's identity; this is for other readers.

    Raises:
        NetstateError: they are for others, of another hotkey, or pyrage is not installed.

    """
    try:
        import pyrage
    except ImportError as error:
        raise NetstateError("pyrage is not installed", "missing", NO_EXTRA) from error
    try:
        key = pyrage.x25519.Identity.from_str(identity)
        inside = json.loads(pyrage.decrypt(base64.b64decode(specs["age"]), [key]))
    except Exception as error:  # pyrage has errors of its own for each step
        raise NetstateError(f"the specs of {hotkey} cannot be decrypted: {error}") from error
    if not isinstance(inside, dict) or inside.get("hotkey") != hotkey:
        raise NetstateError("the specs were encrypted by another hotkey", "state_refused")
    return inside.get("specs")
