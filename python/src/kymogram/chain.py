"""Register this node's Prometheus endpoint on the Bittensor chain.

The names are those of Neural Internet's compute subnet. The work is done by the
`kymogram` binary (`kymogram chain --help`); this module runs it.

>>> from kymogram.chain import ComputeSubnetSubtensor
>>> subtensor = ComputeSubnetSubtensor("wss://entrypoint-finney.opentensor.ai:443")
>>> subtensor.serve_prometheus("default/miner1", port=9101, netuid=27)
True
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypedDict

from ._delivery import agent
from ._exceptions import KymogramError

__all__ = [
    "AxonInfo",
    "ComputeSubnetAxon",
    "ComputeSubnetSubtensor",
    "PrometheusServeCallParams",
    "Wallet",
    "prometheus_extrinsic",
    "version_as_int",
]

_log = logging.getLogger(__name__)
# The binary itself ends a registration after 13 min 48 s.
_LIMIT_S = 900.0
_DAY_BLOCKS = 7200


class Wallet(Protocol):
    """What is read of a `bittensor_wallet.Wallet`: where its hotkey is on disk."""

    @property
    def name(self) -> str:
        """The wallet."""

    @property
    def hotkey_str(self) -> str:
        """The hotkey in it."""

    @property
    def path(self) -> str:
        """The folder of all wallets."""


class PrometheusServeCallParams(TypedDict):
    """The arguments of SubtensorModule.serve_prometheus."""

    version: int  # 32 bits, see version_as_int
    ip: int  # the address as a number
    port: int
    ip_type: int  # 4 or 6
    netuid: int


class AxonInfo(TypedDict):
    """What a node's axon answers about itself."""

    version: int  # see version_as_int
    ip: str
    port: int
    ip_type: int  # 4 or 6
    hotkey: str
    coldkey: str  # "" where the wallet has no coldkeypub.txt
    protocol: int
    placeholder1: int
    placeholder2: int


def version_as_int(version: str) -> int:
    """Give a version as the chain keeps it: 100 * major + 10 * minor + patch.

    "1.8.3" is 183. The rule is the compute subnet's; it is ambiguous for parts of 10
    and more ("1.8.13" and "1.9.3" are both 193). What follows "-" or "+" does not count.

    Raises:
        ValueError: the version is not three numbers, or too large for 32 bits.

    """
    parts = version.split("+")[0].split("-")[0].split(".")
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() for part in parts):
        raise ValueError(f"{version!r} is not a version of three numbers, such as 1.8.3")
    total = 100 * int(parts[0]) + 10 * int(parts[1]) + int(parts[2])
    if total >= 1 << 32:
        raise ValueError(f"{version!r} is too large for the chain")
    return total


class ComputeSubnetSubtensor:
    """The chain, by way of one or more nodes.

    Args:
        url: WebSocket address of a node (ws:// or wss://), or several to try in turn.
        version: what to register, MAJOR.MINOR.PATCH; by default the binary's own.
        ip: the address that others reach; by default services on the internet are asked.
        ip_services: URLs of such services, which answer with an address as text.
        allow_private: register an address that only this machine or its network reaches;
            otherwise it is refused.

    """

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        version: str | None = None,
        ip: str | None = None,
        ip_services: Sequence[str] = (),
        allow_private: bool = False,
    ) -> None:
        self.urls = [url] if isinstance(url, str) else list(url)
        self.version, self.ip, self.ip_services = version, ip, list(ip_services)
        self.allow_private = allow_private

    def serve_prometheus(
        self,
        wallet: Wallet | str,
        port: int,
        netuid: int,
        wait_for_inclusion: bool = False,
        wait_for_finalization: bool = True,
    ) -> bool:
        """Register this node's endpoint, unless the chain has it already.

        Args:
            wallet: a bittensor wallet, or "NAME/HOTKEY" in ~/.bittensor/wallets. Only the
                hotkey's file is read, by the binary; an encrypted one takes its password
                from KYMOGRAM_WALLET_PASSWORD.
            port: where the metrics are served.
            netuid: number of the subnet.
            wait_for_inclusion: follow it into a block.
            wait_for_finalization: follow it into a final block. Without either, True means
                only that a node took it.

        Returns:
            Whether the endpoint is registered. Failures are logged and not raised.

        """
        return prometheus_extrinsic(
            self,
            wallet,
            port,
            netuid,
            wait_for_inclusion=wait_for_inclusion,
            wait_for_finalization=wait_for_finalization,
        )

    def init_prometheus(
        self, wallet: Wallet | str, port: int, netuid: int, force_update: bool = False
    ) -> bool:
        """Register this node's endpoint when the node starts.

        Args:
            wallet: see serve_prometheus.
            port: where the metrics are served.
            netuid: number of the subnet.
            force_update: register a right record anew, once its block has passed.

        Returns:
            Whether the endpoint is registered. Failures are logged and not raised.

        """
        return prometheus_extrinsic(self, wallet, port, netuid, force=force_update)

    def sync_status(
        self, wallet: Wallet | str, port: int, netuid: int, refresh_blocks: int = _DAY_BLOCKS
    ) -> bool:
        """Look at the chain's record, and register again where it is not this node's.

        Call it in every sync cycle. It registers again when the version or the port is
        another, when three look-ups of two services agree on another address, or when the
        record is old. The rate limit is kept without asking the chain.

        Args:
            wallet: see serve_prometheus.
            port: where the metrics are served.
            netuid: number of the subnet.
            refresh_blocks: how old a record may become, in blocks of 12 seconds; 0 is
                without a limit.

        Returns:
            Whether the record is this node's now. Failures are logged and not raised.

        """
        return _register(self, wallet, port, netuid, refresh_blocks=refresh_blocks)

    def do_serve_prometheus(
        self,
        wallet: Wallet | str,
        call_params: PrometheusServeCallParams | Mapping[str, int],
        wait_for_inclusion: bool = False,
        wait_for_finalization: bool = True,
    ) -> tuple[bool, dict[str, Any] | None]:
        """Submit the call with exactly these arguments.

        Broken connections are tried three times, 1 and 2 seconds apart.

        Returns:
            Whether it succeeded, and the error: `type` (Module, Pool, Custom, Error),
            `name` and `docs`.

        """
        try:
            args = ["submit", "--params", json.dumps(dict(call_params))]
            answer = self._run(args, wallet, _waits(wait_for_inclusion, wait_for_finalization))
        except Exception as error:  # as the seed has it: logged with its stack, and returned
            _log.exception("failed to submit serve_prometheus")
            return False, _failed("failed", f"{type(error).__name__}: {error}")["error"]
        return bool(answer["ok"]), answer["error"]

    def prometheus_endpoints(self, netuid: int) -> list[dict[str, Any]]:
        """List the endpoints of a subnet: hotkey, uid, address, version, block, age_blocks.

        Raises:
            KymogramError: no node answers, or the binary is missing.

        """
        answer = self._run(["list", "--netuid", str(netuid)])
        if "endpoints" not in answer:
            raise KymogramError(_words(answer["error"]))
        endpoints: list[dict[str, Any]] = answer["endpoints"]
        return endpoints

    def _run(
        self, args: list[str], wallet: Wallet | str | None = None, more: Sequence[str] = ()
    ) -> dict[str, Any]:
        command = [*args, "--json", *more]
        for url in self.urls:
            command += ["--chain", url]
        if wallet is not None:
            command += _wallet_flags(wallet)
        return _chain(command)


class ComputeSubnetAxon:
    """A node that answers at an external address.

    Args:
        wallet: see ComputeSubnetSubtensor.serve_prometheus.
        port: of the axon.
        ip: the address that others reach; by default services on the internet are asked.
        version: MAJOR.MINOR.PATCH; by default the binary's own.

    """

    def __init__(
        self,
        wallet: Wallet | str,
        port: int = 8091,
        *,
        ip: str | None = None,
        version: str | None = None,
    ) -> None:
        self.wallet, self.port, self.ip, self.version = wallet, port, ip, version

    def info(self) -> AxonInfo:
        """Describe the axon, with the version that its Prometheus endpoint is registered with.

        Raises:
            KymogramError: no such wallet, no external address, or the binary is missing.

        """
        args = ["axon", "--port", str(self.port), *_wallet_flags(self.wallet)]
        if self.ip is not None:
            args += ["--ip", self.ip]
        if self.version is not None:
            args += ["--announce", self.version]
        answer: Any = _chain(args)
        if "hotkey" not in answer:
            raise KymogramError(_words(answer["error"]))
        info: AxonInfo = answer
        return info


def prometheus_extrinsic(
    subtensor: ComputeSubnetSubtensor,
    wallet: Wallet | str,
    port: int,
    netuid: int,
    ip: str | int | None = None,
    wait_for_inclusion: bool = False,
    wait_for_finalization: bool = True,
    force: bool = False,
) -> bool:
    """Register an endpoint, unless the chain's record is right already.

    The rate limit (50 blocks by default) is kept without asking the chain.

    Args:
        subtensor: the chain.
        wallet: see ComputeSubnetSubtensor.serve_prometheus.
        port: where the metrics are served.
        netuid: number of the subnet.
        ip: the address, as text or as an IPv4 number; by default the subtensor's, else
            services are asked.
        wait_for_inclusion: follow it into a block.
        wait_for_finalization: follow it into a final block.
        force: register a right record anew, once its block has passed.

    Returns:
        Whether the endpoint is registered. Failures are logged and not raised.

    """
    return _register(
        subtensor,
        wallet,
        port,
        netuid,
        ip=ip,
        waits=_waits(wait_for_inclusion, wait_for_finalization),
        refresh_blocks=int(force),
    )


def _register(
    subtensor: ComputeSubnetSubtensor,
    wallet: Wallet | str,
    port: int,
    netuid: int,
    *,
    ip: str | int | None = None,
    waits: Sequence[str] = (),
    refresh_blocks: int = 0,
) -> bool:
    try:
        args = _serve_flags(subtensor, port, netuid, ip, refresh_blocks)
        answer = subtensor._run(args, wallet, waits)
    except Exception:  # as the seed has it: logged with its stack
        _log.exception("failed to serve prometheus: port %s, netuid %s", port, netuid)
        return False
    if answer["ok"]:
        _log.debug("prometheus served: port %s, netuid %s", port, netuid)
        return True
    _log.error(
        "failed to serve prometheus: port %s, netuid %s: %s", port, netuid, _words(answer["error"])
    )
    return False


def _serve_flags(
    subtensor: ComputeSubnetSubtensor, port: int, netuid: int, ip: str | int | None, refresh: int
) -> list[str]:
    args = ["serve", "--port", str(port), "--netuid", str(netuid)]
    address = _address(ip) if ip is not None else subtensor.ip
    if address is not None:
        args += ["--ip", address]
    if subtensor.version is not None:
        args += ["--announce", subtensor.version]
    if subtensor.allow_private:
        args.append("--allow-private")
    for service in subtensor.ip_services:
        args += ["--ip-service", service]
    if refresh:
        args += ["--refresh", str(refresh)]
    return args


def _chain(args: Sequence[str]) -> dict[str, Any]:
    """Run `kymogram chain`; what fails without JSON becomes an error of the same form."""
    path = agent.binary()
    if path is None:
        return _failed("missing_binary", agent.MISSING)
    try:
        done = subprocess.run(
            [path, "chain", *args], capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return _failed("timeout", f"kymogram chain {args[0]} took more than {_LIMIT_S:.0f} s")
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        return _failed(
            "failed", done.stderr.strip() or f"kymogram ended with code {done.returncode}"
        )
    return answer


def _address(ip: str | int) -> str:
    import ipaddress

    return str(ipaddress.ip_address(ip))


def _waits(inclusion: bool, finalization: bool) -> list[str]:
    return [
        f"--wait-for-inclusion={str(bool(inclusion)).lower()}",
        f"--wait-for-finalization={str(bool(finalization)).lower()}",
    ]


def _wallet_flags(wallet: Wallet | str) -> list[str]:
    if isinstance(wallet, str):
        return ["--wallet", wallet]
    return [
        "--wallet",
        f"{wallet.name}/{wallet.hotkey_str}",
        "--wallet-path",
        os.path.expanduser(wallet.path),
    ]


def _failed(name: str, text: str) -> dict[str, Any]:
    return {"ok": False, "error": {"type": "Error", "name": name, "docs": [text]}}


def _words(error: Mapping[str, Any]) -> str:
    docs = " ".join(str(line) for line in error["docs"])
    if error["type"] == "Error":
        return docs
    return f"Subtensor returned {error['name']} ({error['type']}). This means: {docs}"
