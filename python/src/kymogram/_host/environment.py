"""What init() learns from its surroundings: server, key, job, rank."""

from __future__ import annotations

import os

from .._exceptions import KymogramValidationError
from .._say import voice
from .._spool import folders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DEFAULT_SERVER = "http://127.0.0.1:7070"
ORCHESTRATION = "KYMOGRAM_ORCHESTRATION_ID"
ATTEMPT = "KYMOGRAM_ATTEMPT"
JOBS = (
    ORCHESTRATION,
    "METRANA_ORCHESTRATION_ID",
    "TORCHELASTIC_RUN_ID",
    "SLURM_JOB_ID",
    "RAY_JOB_ID",
)
_RESTARTS = ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT")
_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_BATCH = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "AWS_BATCH_JOB_ID", "KUBERNETES_SERVICE_HOST")
_ADJECTIVES = (
    "amber bold brisk calm clear cosmic crisp deft eager early fair fleet fresh gentle golden "
    "grand happy keen kind lively lucid mellow merry nimble noble quick quiet rapid rare silver "
    "smooth solar steady still sunny swift tidy true vivid warm wise young"
).split()
_NOUNS = (
    "arc beam breeze bridge brook canyon cedar cliff cloud comet coral crane creek dawn delta "
    "dune ember falcon fern field fjord forest garden glade harbor hawk heron island lake lark "
    "maple meadow moon oak ocean orbit pine prairie quartz rain reef ridge river sky spark"
).split()


def first(names: tuple[str, ...]) -> str | None:
    """The first variable that is set and not blank, without white space around it."""
    for name in names:
        value = os.environ.get(name, "").strip()
        if value:
            return value
    return None


def setting(name: str, theirs: str | None = None) -> str | None:
    """KYMOGRAM_name, else METRANA_name, or the other name that it has there."""
    return first(("KYMOGRAM_" + name, "METRANA_" + (theirs or name)))


def integer(names: tuple[str, ...]) -> int | None:
    """The first variable that holds a natural number."""
    for name in names:
        value = os.environ.get(name, "")
        if value.isascii() and value.isdigit():
            return int(value)
    return None


def server(given: object) -> str:
    """The server's address in small letters, without a slash at its end.

    HOST:PORT alone means http.
    """
    variables = ("KYMOGRAM_SERVER", "METRANA_INGESTION_URL")
    variable = "" if given else next((one for one in variables if os.environ.get(one)), "")
    address = given or os.environ.get(variable)
    if not address:
        return DEFAULT_SERVER
    text = str(address).strip()
    bare = "://" not in text
    scheme, _, rest = ("http://" + text if bare else text).partition("://")
    scheme, (authority, slash, path) = scheme.lower(), rest.rstrip("/").partition("/")
    host, port = _split(authority)
    plain = not any(c.isspace() or c in "?#@" or not c.isprintable() for c in text)
    if scheme not in ("http", "https") or not host or not plain or (bare and port is None):
        raise KymogramValidationError(
            f"server is an address such as {DEFAULT_SERVER} or https://host, got {address!r}"
            + (f"; it comes from the variable {variable}" if variable else "")
        )
    return f"{scheme}://{authority.lower()}{slash}{path}"


def _split(authority: str) -> tuple[str, int | None]:
    """Host and port; no host when they cannot be."""
    if authority.startswith("["):
        host, closed, rest = authority[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            return "", None
        colon, text = rest[:1], rest[1:]
    else:
        host, colon, text = authority.partition(":")
    if not colon:
        return host, None
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 1 << 16):
        return "", None
    return host, int(text)


def api_key(given: object, address: str) -> str | None:
    """The key: the argument, the environment, then the user's file by address."""
    key = given or os.environ.get("KYMOGRAM_API_KEY") or os.environ.get("METRANA_API_KEY")
    if key is None or key == "":
        home = os.environ.get("XDG_CONFIG_HOME", "")
        if not os.path.isabs(home):  # the XDG specification ignores relative paths
            home = os.path.expanduser("~/.config")
        path = os.path.join(home, "kymogram", "credentials.json")
        found = folders.read_json(
            path,
            lambda: voice.warn(
                f"{path} cannot be read as a JSON object of address to key: correct or remove it",
                once=path,
            ),
        )
        key = next((found[name] for name in _spellings(address) if found.get(name)), None)
    if key is None or key == "":
        return None
    text = str(key).strip()
    if not text.isascii() or not text.isprintable() or " " in text:
        raise KymogramValidationError("api_key contains a character that a key never has")
    return text


def _spellings(address: str) -> list[str]:
    """The ways to write an address: localhost and the loopback addresses are one host."""
    scheme, _, rest = address.partition("://")
    host, port = _split(rest.partition("/")[0])
    found = [address]
    if port is not None and (host in ("localhost", "::1") or host.startswith("127.")):
        found += [f"{scheme}://{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")]
    return found + [name + "/" for name in found]


def orchestration_id(given: object) -> str:
    """The job's identifier; made up when there is none, and handed to children."""
    found = str(given or "").strip() or first(JOBS)
    if not found:
        found = os.urandom(16).hex()
    publish_orchestration_id(found)
    return found


def names_job(given: object) -> bool:
    """Whether the job has an identifier that is not made up."""
    return bool(str(given or "").strip() or first(JOBS))


def publish_orchestration_id(value: str) -> None:
    """Hand the identifier to child processes, also to those that use Metrana's client."""
    os.environ[ORCHESTRATION] = value
    os.environ["METRANA_ORCHESTRATION_ID"] = value


def restart_count() -> int | None:
    """How often the launcher restarted this job."""
    return integer(_RESTARTS)


def rank() -> int | None:
    """The place of this process among those of the job."""
    return integer(_RANKS)


def readable_name(orchestration: str, turn: int) -> str:
    """A name made of the job's identifier, so that all its processes find the same."""
    from hashlib import sha256

    digest = sha256(f"{orchestration}\0{turn}".encode()).digest()
    adjective = _ADJECTIVES[digest[0] % len(_ADJECTIVES)]
    noun = _NOUNS[digest[1] % len(_NOUNS)]
    return f"{adjective}-{noun}-{digest[2:5].hex()}"


def parent() -> str | None:
    """The writer that handed us its attempt."""
    writer = os.environ.get(ATTEMPT, "")
    if len(writer) != 32 or any(c not in "0123456789abcdef" for c in writer):
        return None
    return writer


def opened(root: str, writer: str) -> dict[str, Any]:
    """What a writer of a spool opened; nothing when it is not there."""
    document = folders.read_json(os.path.join(root, "writers", writer, "open.json"))
    found = document.get("open")
    return found if isinstance(found, dict) else {}


def batch_job() -> bool:
    """Whether everything ends with this process: no agent goes on after it."""
    if first(_BATCH):
        return True
    inside = os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv")
    return os.getpid() == 1 or (inside and os.getppid() == 1)


_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def ulid(now_ns: int) -> str:
    """A new ULID."""
    number = (now_ns // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    return "".join(_CROCKFORD[number >> shift & 31] for shift in range(125, -1, -5))
