"""The signed state of a network among strangers: what validators and miners say, and what holds.

The names are those of Neural Internet's compute subnet. Keys, sequences and verdicts are the work
of the `kymogram` binary, which this module runs as a child process.

>>> from kymogram.netstate import ComputeWandb
>>> validator = ComputeWandb({"netuid": 27}, "default/validator", "validator")
>>> validator.update_allocated_hotkeys(["5F…"])
>>> validator.get_stats_allocated([], False)
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from ._host import environment
from ._netstate.database import ComputeDb, GPUSpecs, Stat, retrieve_stats, write_stats
from ._netstate.dominant import pick_dominant_dict
from ._netstate.helper import NetstateError, Participant
from ._netstate.record import Record, decrypt_specs, verify_record

__all__ = [
    "PUBLIC_WANDB_ENTITY",
    "PUBLIC_WANDB_NAME",
    "ComputeDb",
    "ComputeWandb",
    "GPUSpecs",
    "Hotkey",
    "NetstateError",
    "Record",
    "Stat",
    "Wallet",
    "decrypt_specs",
    "get_perf_info",
    "pick_dominant_dict",
    "retrieve_stats",
    "verify_record",
    "write_stats",
]

PUBLIC_WANDB_NAME = "opencompute"
PUBLIC_WANDB_ENTITY = "neuralinternet"


class Hotkey(Protocol):
    """What is used of a `bittensor_wallet.Keypair`."""

    @property
    def ss58_address(self) -> str:
        """Its address."""

    def sign(self, data: bytes) -> bytes:
        """Sign bytes."""


class Wallet(Protocol):
    """What is used of a `bittensor_wallet.Wallet`."""

    @property
    def hotkey(self) -> Hotkey:
        """The key that signs."""


class ComputeWandb:
    """One participant: its run, what it says, and what it may believe of others.

    Args:
        config: the program's configuration; netuid is read from it.
        wallet: "NAME/HOTKEY" in ~/.bittensor/wallets, which the binary reads, or a bittensor
            wallet, whose hotkey signs in this process.
        role: "validator" or "miner", or the name of the script; whoever gives the same role and
            hotkey shares the run.
        db: the local database, by default database.db in this folder.
        netuid: number of the subnet, by default the config's.
        server: else KYMOGRAM_SERVER.
        api_key: else KYMOGRAM_API_KEY, WANDB_API_KEY where WANDB_BASE_URL names the server,
            the server's entry in .netrc, credentials.json.
        chain: WebSocket addresses of the chain's nodes; without them every hotkey that signs is
            believed.
        entity: the workspace.
        project: the project.
        version: the program's, as `kymogram.chain.version_as_int` has it.
        life_secs: how long a record counts, 6 hours by default.
        max_blocks: how old a record of others may be.
        max_bytes: how much of others is kept without a chain, 64 MiB by default. What has no room
            is "not_read" in `verdicts`, unless a call names its hotkey.
        wallet_path: the folder of the wallets.

    Raises:
        NetstateError: the binary is missing, there is no such wallet, or the server refused it.

    """

    def __init__(
        self,
        config: Mapping[str, Any],
        wallet: Wallet | str,
        role: str,
        *,
        db: ComputeDb | None = None,
        netuid: int | None = None,
        server: str | None = None,
        api_key: str | None = None,
        chain: Sequence[str] = (),
        entity: str = PUBLIC_WANDB_ENTITY,
        project: str = PUBLIC_WANDB_NAME,
        version: int = 0,
        life_secs: float = 0.0,
        max_blocks: int = 0,
        max_bytes: int = 0,
        wallet_path: str = "",
    ) -> None:
        self.db = ComputeDb() if db is None else db
        self.role = os.path.splitext(os.path.basename(role))[0]
        params: dict[str, Any] = {
            "db": self.db.path,
            "role": self.role,
            "netuid": int(config["netuid"]) if netuid is None else netuid,
            "server": environment.server(server),
            "api_key": api_key or "",
            "spool": os.environ.get("KYMOGRAM_SPOOL_DIR", ""),
            "chain": list(chain),
            "entity": entity,
            "project": project,
            "version": version,
            "life_s": life_secs,
            "max_blocks": max_blocks,
            "max_bytes": max_bytes,
            "config": dict(config),
        }
        if isinstance(wallet, str):
            params |= {"wallet": wallet, "wallet_path": wallet_path}
            self._helper = Participant()
        else:
            params["hotkey"] = wallet.hotkey.ss58_address
            self._helper = Participant(wallet.hotkey.sign)
        atexit.register(self.close)
        try:
            joined = self._helper.call("join", **params)
        except BaseException:
            self.close()
            raise
        self.hotkey: str = joined["hotkey"]
        self.run_id: str = joined["run_id"]

    def __enter__(self) -> ComputeWandb:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the run. The state stays until it expires."""
        atexit.unregister(self.close)
        self._helper.close()

    # The run.

    def save_run_id(self, hotkey: str, run_id: str) -> None:
        """Remember the run of a hotkey; one that is known stays."""
        self.db.save_run_id(hotkey, run_id)

    def get_run_id(self, hotkey: str) -> str | None:
        """The run of a hotkey, None when none is known."""
        return self.db.get_run_id(hotkey)

    def update_config(self, changes: Mapping[str, Any]) -> None:
        """Change keys of the state, None to remove one, and sign it."""
        self._helper.call("update_config", changes=dict(changes))

    def sign_run(self) -> None:
        """Sign the state as it is, so that it counts for another while."""
        self._helper.call("sign_run")

    def verify_run(self, run: str) -> bool:
        """Whether the content of a run may be used: its signed record holds, for now."""
        return self.judge_run(run)["verdict"] in ("verified", "shared_key")

    def judge_run(self, run: str) -> dict[str, Any]:
        """The verdict on a run, by its name, with the reason in words."""
        verdict: dict[str, Any] = self._helper.call("verify_run", run=run)
        return verdict

    def verdicts(self) -> list[dict[str, str]]:
        """The verdicts on all runs of the network: run, hotkey, role, verdict, reason."""
        found: list[dict[str, str]] = self._helper.call("verdicts")
        return found

    def wait(self, seconds: float = 30.0) -> bool:
        """Wait until somebody says something new; whether somebody did."""
        return bool(self._helper.call("refresh", wait_s=seconds))

    # Validators.

    def update_stats(self, stats: Mapping[int, Mapping[str, Any]]) -> None:
        """Publish the stats of miners, by uid, and log their scores over time."""
        plain = {str(int(uid)): {**one, "uid": int(uid)} for uid, one in stats.items()}
        self._helper.call("update_stats", stats=plain)

    def update_allocated_hotkeys(self, hotkey_list: Sequence[str]) -> None:
        """Publish which miners are allocated, and the database's stats with this mark."""
        self._helper.call("update_allocated_hotkeys", hotkeys=list(hotkey_list))

    def update_penalized_hotkeys(self, hotkey_list: Sequence[str]) -> None:
        """Publish which hotkeys are held to be cheating."""
        self._helper.call("update_penalized_hotkeys", hotkeys=list(hotkey_list))

    def update_penalized_hotkeys_checklist(self, hotkey_list: Sequence[str]) -> None:
        """Publish which hotkeys are to be looked at."""
        self._helper.call("update_penalized_hotkeys_checklist", hotkeys=list(hotkey_list))

    # Miners.

    def update_specs(self, specs: Any = None, readers: Sequence[str] = ()) -> None:
        """Publish what the machine has, by default as get_perf_info reads it.

        With readers it is encrypted for these hotkeys, each of which has published a key.
        """
        found = get_perf_info() if specs is None else specs
        self._helper.call("update_specs", specs=found, readers=list(readers))

    def update_allocated(self, allocated: str | None) -> None:
        """Publish by which validator this miner is allocated, None for none."""
        self._helper.call("update_allocated", allocated=allocated or "")

    def update_miner_port_open(self, is_port_open: bool) -> None:
        """Publish whether this miner's port can be reached."""
        self._helper.call("update_miner_port_open", open=bool(is_port_open))

    def sync_allocated(
        self, valid_validator_hotkeys: Sequence[str] = (), flag: bool = False
    ) -> None:
        """Publish by which validator this miner is allocated, as the validators say it."""
        self._helper.call("sync_allocated", select=_select(valid_validator_hotkeys, flag))

    # Values of the chain, over time.

    def log_chain_data(self, data: Mapping[str, float]) -> None:
        """Keep values of the chain: Block, Stake, Emission and so on."""
        self._helper.call("log_chain_data", values=dict(data))

    def log_chain(self) -> None:
        """Keep what the chain holds of this participant."""
        self._helper.call("log_chain")

    def flush(self) -> None:
        """Wait until the server has all values over time."""
        self._helper.call("flush")

    # Reading.

    def get_allocated_hotkeys(
        self, valid_validator_hotkeys: Sequence[str], flag: bool
    ) -> list[str]:
        """The miners that validators have allocated; with flag only the listed validators'."""
        return self._list("get_allocated_hotkeys", valid_validator_hotkeys, flag)

    def get_penalized_hotkeys(
        self, valid_validator_hotkeys: Sequence[str], flag: bool
    ) -> list[str]:
        """The hotkeys that validators hold to be cheating."""
        return self._list("get_penalized_hotkeys", valid_validator_hotkeys, flag)

    def get_penalized_hotkeys_checklist(
        self, valid_validator_hotkeys: Sequence[str], flag: bool
    ) -> list[str]:
        """The hotkeys that validators want looked at."""
        return self._list("get_penalized_hotkeys_checklist", valid_validator_hotkeys, flag)

    def _list(self, method: str, validators: Sequence[str], flag: bool) -> list[str]:
        found: list[str] = self._helper.call(method, select=_select(validators, flag))
        return found

    def get_stats_allocated(
        self,
        valid_validator_hotkeys: Sequence[str],
        flag: bool,
        *,
        own_score_only: bool = False,
        by_stake: bool = False,
    ) -> dict[int, Stat]:
        """What the validators together say of the miners, by uid.

        Args:
            valid_validator_hotkeys: whose word counts, where flag is set.
            flag: leave out validators that are not listed.
            own_score_only: count reports of miners that nobody has allocated too, as the compute
                subnet's code does, and not its documents.
            by_stake: weigh votes by stake, which needs a chain.

        """
        chosen = _select(valid_validator_hotkeys, flag)
        chosen |= {"own_score_only": own_score_only, "by_stake": by_stake}
        found: dict[str, Stat] = self._helper.call("get_stats_allocated", select=chosen)
        return {int(uid): one for uid, one in found.items()}

    def get_miner_specs(self, queryable_uids: Mapping[int, Any]) -> dict[int, tuple[str, Any]]:
        """The specs of miners, given by uid as axons or hotkeys: uid → (hotkey, specs).

        Miners without specs, and those whose specs are encrypted for others, are left out.
        """
        query = {str(uid): getattr(axon, "hotkey", axon) for uid, axon in queryable_uids.items()}
        found = self._helper.call("get_miner_specs", queryable=query)
        return {
            int(uid): (one["hotkey"], one["specs"])
            for uid, one in found.items()
            if not one.get("error")
        }


def get_perf_info() -> dict[str, Any]:
    """What this machine has: cpu, gpu, hard_disk, ram, has_docker. Takes about a second."""
    helper = Participant()
    try:
        found: dict[str, Any] = helper.call("perf_info")
    finally:
        helper.close()
    return found


def _select(validators: Iterable[str], flag: bool) -> dict[str, Any]:
    return {"validators": list(validators), "listed": bool(flag)}
