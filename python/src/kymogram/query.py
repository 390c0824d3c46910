"""Read what was logged: runs, series, points, buckets.

>>> from kymogram import query
>>> client = query.Client("http://127.0.0.1:7070")
>>> run = client.run("vision/digits/lr0.3")
>>> points = run.points("loss")
>>> points["step"], points["value"]

Columns are NumPy arrays where NumPy is installed, else arrays and lists of the
standard library. Integers are exact everywhere. A column with gaps (an axis
that some points lack) is a masked array, without NumPy a list with None. With
pyarrow installed points travel as Arrow, in a tenth of the time and memory.
"""

from __future__ import annotations

import json
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any, TypeVar
from urllib import error, parse, request

from ._delivery import client as _client
from ._exceptions import KymogramAuthError, KymogramError
from ._host import environment
from ._reading import arrow, card, columns, files, frames
from ._reading.columns import Bucketed, Points
from ._reading.files import File
from ._reading.frames import QueryError

__all__ = ["Bucketed", "Client", "File", "Points", "QueryError", "Run", "Series"]

_PAGE = 1_000
_CONFIG_MAX = 100  # of a run's own document
_SUMMARY_MAX = 50  # of servers that do not say where they cut
_EVALUATION = {"evaluation": "true"}
_DEFAULT_ENV = {"env_id": "default"}
_RUN_COLUMNS = ("id", "name", "status", "tags", "created_ns", "duration_ms")
_TRIES = 5  # of a request to a server that is busy
_MOST_WAIT = 5.0  # seconds between them
_POINTS_PAGE = 100_000
_MOST_ROWS = 1_000_000
_CARD_WAIT = 1.0  # seconds that a cell of a notebook waits for a server

_Columns = TypeVar("_Columns", Points, Bucketed)


class Client:
    """Reads from one server.

    `url` is KYMOGRAM_SERVER by default, else http://127.0.0.1:7070; `api_key`
    is KYMOGRAM_API_KEY, else the server's one in credentials.json. `timeout` is how
    many seconds the server may send nothing. A client holds no connection: it may be
    shared by threads and survives a fork.
    """

    def __init__(
        self, url: str | None = None, api_key: str | None = None, timeout: float = 60.0
    ) -> None:
        self.url = environment.server(url)
        self._key = environment.api_key(api_key, self.url)
        self._timeout = timeout
        host = parse.urlsplit(self.url).hostname or ""
        local = host in ("localhost", "::1") or host.startswith("127.")
        proxy = [request.ProxyHandler({})] if local else []
        self._opener = request.build_opener(_Stay, *proxy)

    def projects(self) -> Iterator[dict[str, Any]]:
        """The projects that the key may read: workspace, project, runs, last_ns."""
        return self._pages("/api/v1/projects", "projects", {}, None)

    def runs(
        self,
        project: str,
        filter: str = "",  # noqa: A002 - the word of the field
        *,
        sort: str = "",
        name: str | None = None,
        tag: str | None = None,
        status: str | None = None,
        deleted: bool = False,
        limit: int | None = None,
    ) -> Iterator[Run]:
        """The runs of "workspace/project", newest first, page by page as they are taken.

        The project alone is enough where one workspace has it.

        `filter` is the page's one-line filter: words match name and tags,
        `lr<0.1` and `status=failed` compare; `or`, `not` and brackets join. `sort` is
        created, name, last, status or the path of an attribute, with `-` for descending.
        A warning names what no run has, where the list is empty or not sorted for that.
        """
        workspace, slash, rest = project.partition("/")
        if not slash:
            found = self._json("/api/v1/resolve", {"project": project}, "workspace", "project")
            workspace, rest = found["workspace"], found["project"]
        elif not rest or "/" in rest:
            raise QueryError(f'project is "workspace/project", got {project!r}', "invalid_argument")
        path = f"/api/v1/projects/{_quote(workspace)}/{_quote(rest)}/runs"
        options = {"q": filter or None, "sort": sort or None, "name": name, "tag": tag}
        options |= {"status": status, "deleted": "1" if deleted else None}
        return (Run(self, one) for one in self._pages(path, "runs", options, limit))

    def runs_to_pandas(self, project: str, filter: str = "", **options: Any) -> Any:  # noqa: A002
        """A DataFrame with a row for each run of runs(project, filter, **options).

        Columns id, name, status, tags, created_ns, duration_ms, then config/… and
        summary/… by their names: all of them, with gaps where a run has none.
        """
        return frames.pandas_frame(self._runs_frame(project, filter, options))

    def runs_to_polars(self, project: str, filter: str = "", **options: Any) -> Any:  # noqa: A002
        """A polars DataFrame of runs, as runs_to_pandas().

        A column of several types is text.
        """
        return frames.polars_frame(self._runs_frame(project, filter, options))

    def run(self, ref: str) -> Run:
        """One run by its id, an alias, or "workspace/project/name".

        Less is enough where it means one run only: "project/name", the name or the display
        name. The error for a name of several runs lists them.
        """
        found = self._json("/api/v1/resolve", {"run": ref}, "id")["id"]
        return Run(self, self._json(f"/api/v1/runs/{found}", {}, "id"))

    def _runs_frame(
        self, project: str, given: str, options: Mapping[str, Any]
    ) -> dict[str, list[Any]]:
        rows = []
        for run in self.runs(project, given, **options):
            row = {name: run.document[name] for name in _RUN_COLUMNS}
            row |= {f"config/{path}": value for path, value in run.config.items()}
            row |= {f"summary/{name}": value for name, value in run.summary().items()}
            rows.append(row)
        names = sorted({name for row in rows for name in row} - set(_RUN_COLUMNS))
        return {name: _typed([row.get(name) for row in rows]) for name in [*_RUN_COLUMNS, *names]}

    # requests

    def _pages(
        self, path: str, what: str, options: Mapping[str, Any], limit: int | None
    ) -> Iterator[dict[str, Any]]:
        taken, cursor = 0, None
        while limit is None or taken < limit:
            size = _PAGE if limit is None else min(_PAGE, limit - taken)
            page = self._json(path, {**options, "limit": size, "cursor": cursor}, what, "next")
            yield from page[what]
            taken += len(page[what])
            cursor = page["next"]
            if cursor is None:
                return

    def _points(self, path: str, options: Mapping[str, Any]) -> tuple[Points, str | None]:
        """A page of points and the cursor of the next, None at the end."""
        pyarrow = arrow.library()
        if pyarrow is not None:
            body = self._get(path, {**options, "format": "arrow"})
            try:
                page = arrow.page(pyarrow, body)
            except (ValueError, KeyError, OSError, TypeError):  # OSError: it is cut off
                raise self._stranger() from None
            if page["series"]["kind"] not in ("histogram", "scatter"):  # these are not JSON there
                return Points(page["series"], page["columns"]), page["next"]
        page = self._json(path, options, "columns", "series", "next")
        return self._columns(Points, page), page["next"]

    def _columns(self, kind: type[_Columns], page: Mapping[str, Any]) -> _Columns:
        """The points or buckets of an answer."""
        try:
            series = page["series"]
            return kind(series, columns.from_json(page["columns"], series["kind"]))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise self._stranger() from None

    def _json(self, path: str, options: Mapping[str, Any], *fields: str) -> dict[str, Any]:
        """An answer, which has these fields."""
        try:
            document = _parse(self._get(path, options))
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict) or any(name not in document for name in fields):
            raise self._stranger()
        return document

    def _stranger(self) -> QueryError:
        return QueryError(f"{self.url} is no Kymogram server, by its answer", "unavailable")

    def _get(self, path: str, options: Mapping[str, Any]) -> bytes:
        return bytes(self._ask(path, options, _read))

    def _ask(self, path: str, options: Mapping[str, Any], take: Callable[[Any], Any]) -> Any:
        """What `take` makes of an answer."""
        given = {name: value for name, value in options.items() if value is not None}
        address = self.url + path + ("?" + parse.urlencode(given) if given else "")
        headers = {"User-Agent": "kymogram-python"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        try:
            return self._taken(request.Request(address, headers=headers), take)
        except (error.URLError, OSError) as trouble:
            reason = getattr(trouble, "reason", trouble)
            raise QueryError(
                f"cannot reach the server at {self.url}: {reason}. "
                "Start it with `kymogram serve`, or give url= or KYMOGRAM_SERVER",
                "unavailable",
            ) from None
        except HTTPException as trouble:  # none of OSError's
            raise QueryError(
                f"the answer of {self.url} broke off: {trouble!r}. Ask again",
                "unavailable",
            ) from None

    def _taken(self, asked: request.Request, take: Callable[[Any], Any]) -> Any:
        """What is taken of the answer. A server that is busy is asked again, a few times."""
        for left in range(_TRIES - 1, -1, -1):
            try:
                with self._opener.open(asked, timeout=self._timeout) as answer:
                    return take(answer)
            except error.HTTPError as refusal:
                with refusal:
                    wait = _retry_after(refusal)
                    if wait is None or left == 0:
                        raise _refused(refusal.code, refusal.read(), self.url) from None
                time.sleep(wait)
        raise AssertionError("unreachable")


class _Stay(request.HTTPRedirectHandler):
    """Follows no redirect: urllib would send the key along, to whatever host."""

    http_error_308 = request.HTTPRedirectHandler.http_error_302  # Python 3.10 does not know it

    def redirect_request(
        self, req: request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        raise QueryError(_client.redirected(req.full_url, newurl), "unavailable", code)


def _read(answer: Any) -> Any:
    """A whole answer. What it says of names that no run has is a warning for the caller."""
    hint = answer.headers.get("Kymogram-Hint")
    if hint:
        text = hint.encode("ascii", "replace").decode("unicode_escape")
        warnings.warn(text, stacklevel=_own_frames())
    return answer.read()


def _own_frames() -> int:
    """The stacklevel of the first caller outside of this package."""
    level, frame = 1, sys._getframe(1)
    own = frame.f_globals["__name__"].partition(".")[0]
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == own:
        level, frame = level + 1, frame.f_back
    return level


def _quote(part: str) -> str:
    return parse.quote(part, safe="")


def _parse(body: bytes) -> Any:
    """JSON; -0 is the float that it was, which json reads as the integer 0."""
    if re.search(rb"[\[,:]-0[,\]}]", body):
        return json.loads(body, parse_int=lambda text: -0.0 if text == "-0" else int(text))
    return json.loads(body)


def _retry_after(refusal: error.HTTPError) -> float | None:
    """How long a busy server is waited for; None where asking again is of no use."""
    header = refusal.headers.get("Retry-After", "")
    if refusal.code != 429 and not (refusal.code == 503 and header):
        return None
    return min(float(header), _MOST_WAIT) if header.isdigit() else 1.0


def _refused(status: int, body: bytes, address: str) -> KymogramError:
    try:
        detail = json.loads(body)["error"]
        text = ". ".join(detail[part] for part in ("message", "hint") if detail.get(part))
        text = text.replace("kymogram login ADDRESS", f"kymogram login {address}")
        code = detail["code"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        text, code = f"HTTP {status} and no answer of Kymogram's: is it a proxy?", "unavailable"
    if status in (401, 403):
        return KymogramAuthError(text)
    return QueryError(text, code, status)


def open_card(server: str, key: str | None, known: card.Card) -> str:
    """A card of a run that this process logs: the server's, else what the process knows.

    Metrics that only the process knows are added.
    """

    def ask() -> card.Card:
        try:
            client = Client(server, key, timeout=_CARD_WAIT)
            return Run(client, {"id": known.id})._read_card().with_rows_of(known)
        except KymogramError as trouble:
            known.note = f"{trouble}. Points wait on disk until it answers."
            return known

    found = card.within(_CARD_WAIT, ask)
    if found is None:
        known.note = "The server did not answer in time. Points wait on disk until it does."
    return (found or known).html()


class Run:
    """A run as the server knew it when it was read.

    `document` is the API's whole answer; the properties are its common parts.
    """

    def __init__(self, client: Client, document: dict[str, Any]) -> None:
        self.client = client
        self.document = document

    @property
    def id(self) -> str:
        """The run's ULID."""
        return str(self.document["id"])

    @property
    def name(self) -> str:
        """Its name, unique in the project."""
        return str(self.document["name"])

    @property
    def status(self) -> str:
        """running, finished, failed, interrupted (by SIGINT or SIGTERM), lost, or silent.

        silent is of a protocol that has no end.
        """
        return str(self.document["status"])

    @property
    def tags(self) -> list[str]:
        """Its tags, sorted."""
        return list(self.document["tags"])

    @property
    def config(self) -> dict[str, Any]:
        """Attributes under config/, by their path below it; a long one is read when needed.

        Integers beyond 2^53, NaN and the infinities are text here; attributes()
        has them with their types.
        """
        found = dict(self.document["config"])
        if len(found) < _CONFIG_MAX and not self.document.get("config_cut"):
            return found
        return _below_config(self.detail()["attributes"])

    def __repr__(self) -> str:
        one = self.document
        return f"<Run {one['workspace']}/{one['project']}/{one['name']} {one['status']}>"

    def _repr_html_(self) -> str:
        """A card for notebooks: what is known, and the curves if the server sends them at once."""
        found = card.within(_CARD_WAIT, self._card)
        return (
            found or self._card_of(self.document, [], "The server did not answer in time.")
        ).html()

    def _card(self) -> card.Card:
        try:
            return self._read_card()
        except KymogramError as trouble:
            return self._card_of(self.document, [], str(trouble))

    def _read_card(self) -> card.Card:
        path = f"/api/v1/runs/{self.id}"
        document = self.client._json(path, {}, "id", "workspace", "name", "series")
        options = {"limit": card.ROWS, "preview": card.BUCKETS}
        rows = self.client._json(f"{path}/series", options, "series")["series"]
        return self._card_of(document, rows, "")

    def _card_of(self, one: dict[str, Any], rows: list[dict[str, Any]], note: str) -> card.Card:
        config = one.get("config") or {}
        if one.get("config_cut") and "attributes" in one:
            config = _below_config(one["attributes"])
        return card.Card(
            workspace=one["workspace"],
            project=one["project"],
            name=one["name"],
            id=one["id"],
            status=one["status"],
            url=f"{self.client.url}/runs/{self.id}",
            tags=one.get("tags") or (),
            config=config,
            created_ns=one.get("created_ns") or 0,
            duration_ms=one.get("duration_ms") or 0,
            points=one.get("points"),
            rows=rows,
            count=one["series"] if isinstance(one.get("series"), int) else 0,
            note=note,
        )

    def summary(self) -> dict[str, float | int]:
        """The last values of the numeric series without labels, by metric.

        More than the run's own document has are read when needed.
        """
        found = {name: _number(one["value"]) for name, one in self.document["summary"].items()}
        cut = self.document.get("summary_cut") or len(found) >= _SUMMARY_MAX
        return _summary(self.series()) if cut else found

    def detail(self) -> dict[str, Any]:
        """Everything but the points: attempts, writers, events, ledger; read when needed."""
        if "attributes" not in self.document:
            path = f"/api/v1/runs/{self.id}"
            self.document = self.client._json(path, {}, "id", "attributes")
        return self.document

    def attributes(self) -> dict[str, Any]:
        """Every attribute by its path, with its Python type; times are nanoseconds."""
        return {one["path"]: _value(one) for one in self.detail()["attributes"]}

    def lineage(self) -> dict[str, Any]:
        """Where a fork comes from and what was forked from the run.

        `ancestors` are the runs that it continues, nearest first, each `up_to` a
        step. `broken` is the one that cannot be read, else None. `forks` are the
        runs that continue this one.
        """
        return dict(self.detail()["lineage"])

    def files(self, prefix: str = "", *, limit: int | None = None) -> Iterator[File]:
        """The files whose names begin with a prefix, by name, page by page as they are taken.

        `file.read()` has the bytes of one, `file.download(folder)` writes them.
        """
        path = f"/api/v1/runs/{self.id}/files"
        try:
            for one in self.client._pages(path, "files", {"prefix": prefix or None}, limit):
                yield files.of_run(self.id, one, self._fetch)
        except (KeyError, TypeError):
            raise self.client._stranger() from None

    def _fetch(self, path: str, take: Callable[[Any], Any]) -> Any:
        return self.client._ask(path, {}, take)

    def series(
        self, regex: str = "", *, include_inherited: bool = False, limit: int | None = None
    ) -> list[Series]:
        """The series whose metric matches (RE2, unanchored), by metric, scale and labels.

        With `include_inherited` those that a fork inherits are among them, and
        their points() and buckets() have the points of its ancestors.
        """
        path = f"/api/v1/runs/{self.id}/series"
        options = {"q": regex or None, "include_inherited": _flag(include_inherited)}
        pages = self.client._pages(path, "series", options, limit)
        try:
            return [_series(self, one) for one in pages]
        except (KeyError, TypeError):
            raise self.client._stranger() from None

    def points(
        self,
        metric: str,
        *,
        scale: str | None = None,
        labels: Mapping[str, str] | None = None,
        axis: str | None = None,
        first: int | None = None,
        last: int | None = None,
        attempt: int | str | None = None,
        include_inherited: bool = False,
        limit: int | None = None,
    ) -> Points:
        """The points of one series, in the order of its axis, then of time.

        The axis is step by default, time_ns for a series without steps. Steps of an RL
        environment go by episode, then by step; those without an episode come first.
        `first` and `last` bound the axis, both inclusive. Without `attempt`
        these are the points of the curve; a number is that attempt alone, "all"
        every stored point. `include_inherited` also gives what a fork inherits: the
        curves of the runs that it continues, up to the fork step. A column `run` then
        has the id of the run that logged each point. `limit` bounds the rows.
        """
        options = _options(metric, scale, labels, attempt, first, last) | {"axis": axis}
        options["include_inherited"] = _flag(include_inherited)
        parts = list(self._parts(options, _POINTS_PAGE, limit))
        return Points(parts[0].series, columns.join(parts))

    def chunks(
        self,
        metric: str,
        rows: int = 100_000,
        *,
        scale: str | None = None,
        labels: Mapping[str, str] | None = None,
        axis: str | None = None,
        first: int | None = None,
        last: int | None = None,
        attempt: int | str | None = None,
        include_inherited: bool = False,
    ) -> Iterator[Points]:
        """The points of one series as points() has them, in parts of at most `rows`.

        Only one part is in memory at a time. A series without points gives one empty part.
        """
        if not 1 <= rows <= _MOST_ROWS:
            raise QueryError(f"rows is 1 to {_MOST_ROWS:,}, got {rows!r}", "invalid_argument")
        options = _options(metric, scale, labels, attempt, first, last) | {"axis": axis}
        options["include_inherited"] = _flag(include_inherited)
        return self._parts(options, rows, None)

    def _parts(self, options: Mapping[str, Any], most: int, limit: int | None) -> Iterator[Points]:
        rows, cursor = 0, None
        while True:
            size = most if limit is None else min(most, limit - rows)
            asked = {**options, "limit": size, "cursor": cursor}
            part, cursor = self.client._points(f"/api/v1/runs/{self.id}/points", asked)
            yield part
            rows += part.rows
            if cursor is None or rows == limit:
                return

    def buckets(
        self,
        metric: str,
        n: int = 1000,
        *,
        scale: str | None = None,
        labels: Mapping[str, str] | None = None,
        x: str | None = None,
        first: int | None = None,
        last: int | None = None,
        attempt: int | str | None = None,
        include_inherited: bool = False,
    ) -> Bucketed:
        """At most n disjoint buckets of a numeric series; every point is in one.

        With `include_inherited` a column `inherited` counts the points of ancestors.
        """
        options = _options(metric, scale, labels, attempt, first, last) | {"x": x, "n": n}
        options["include_inherited"] = _flag(include_inherited)
        page = self.client._json(f"/api/v1/runs/{self.id}/buckets", options, "columns", "series")
        return self.client._columns(Bucketed, page)

    def to_pandas(
        self, regex: str = "", *, wide: str | None = None, include_inherited: bool = False
    ) -> Any:
        """A DataFrame of every matching series' points.

        They come below one another, with the columns metric, scale, labels, then those
        of Points.to_pandas(). `wide` names an axis (step, time_ns, window, …) and
        makes a wide frame: a column for that axis, then one for each series. A column is
        named `metric`, or `metric{label=value}` where several series have that metric.
        `@scale` is added where names are still equal, or the axis has that name. Of
        points with one x the last counts. Points and series that are not in a wide frame
        are counted in a warning.
        """
        return frames.pandas_frame(self._frame(regex, wide, include_inherited))

    def to_polars(
        self, regex: str = "", *, wide: str | None = None, include_inherited: bool = False
    ) -> Any:
        """A polars DataFrame, long or wide, as to_pandas(). Gaps are null."""
        return frames.polars_frame(self._frame(regex, wide, include_inherited))

    def _frame(self, regex: str, wide: str | None, include_inherited: bool) -> dict[str, Any]:
        every = self.series(regex, include_inherited=include_inherited)
        if wide is None:
            parts: list[dict[str, Any]] = [{"metric": [], "scale": [], "labels": []}]
            for one in every:
                points = one.points()
                words = {"metric": one.metric, "scale": one.scale, "labels": _text(one.labels)}
                parts.append({name: [word] * points.rows for name, word in words.items()})
                parts[-1].update(points)
            return columns.join(parts)
        named = dict(zip(_names(every, wide), every))
        read = {name: one.points(axis=wide) for name, one in named.items() if _has(one, wide)}
        made, hidden = columns.aligned(wide, read)
        without = {
            name: one.count - (read[name].rows if name in read else 0)
            for name, one in named.items()
        }
        for why, counts in (("share their {} with a later one", hidden), ("have no {}", without)):
            left = [f"{n:,} of {name}" for name, n in counts.items() if n > 0]
            if left:
                more = f" and of {len(left) - 5} more series" if len(left) > 5 else ""
                warnings.warn(
                    f"points that {why.format(wide)} are not in the frame: "
                    f"{', '.join(left[:5])}{more}. points() has them",
                    stacklevel=3,
                )
        return made


@dataclass(frozen=True)
class Series:
    """One series: what identifies it and how much there is."""

    run: Run = field(repr=False, compare=False)
    metric: str
    scale: str
    labels: dict[str, str]
    kind: str  # float64, int64, text, histogram or scatter
    axes: list[str]
    count: int  # points of the curve
    superseded: int  # points left out of it
    last: Any  # the last value, None when there is none
    inherited: int | None = None  # of count, those of ancestors; None when not asked for

    def points(self, **options: Any) -> Points:
        """Its points; options as for Run.points."""
        options.setdefault("include_inherited", self.inherited is not None)
        return self.run.points(self.metric, scale=self.scale, labels=self.labels, **options)

    def buckets(self, **options: Any) -> Bucketed:
        """Its buckets; options as for Run.buckets."""
        options.setdefault("include_inherited", self.inherited is not None)
        return self.run.buckets(self.metric, scale=self.scale, labels=self.labels, **options)


def _options(
    metric: str,
    scale: str | None,
    labels: Mapping[str, str] | None,
    attempt: int | str | None,
    first: int | None,
    last: int | None,
) -> dict[str, Any]:
    options: dict[str, Any] = {"metric": metric, "scale": scale, "from": first, "to": last}
    options["attempt"] = attempt
    for name, value in (labels or {}).items():
        options["label." + name] = value
    return options


def _series(run: Run, one: dict[str, Any]) -> Series:
    last = one["last"]["value"] if one["last"] else None
    if one["kind"] == "float64" and last is not None:
        last = _number(last)
    names = ("metric", "scale", "labels", "kind", "axes", "count", "superseded")
    found = {name: one[name] for name in names}
    return Series(run=run, last=last, inherited=one.get("inherited"), **found)


def _names(every: Sequence[Series], axis: str) -> list[str]:
    """A name for each series: as short as tells it from the others and from the axis."""
    metrics = Counter(one.metric for one in every)
    names = [
        f"{one.metric}{{{_text(one.labels)}}}"
        if one.labels and metrics[one.metric] > 1
        else one.metric
        for one in every
    ]
    taken = Counter([axis, *names])
    names = [f"{a}@{one.scale}" if taken[a] > 1 else a for a, one in zip(names, every)]
    taken = Counter(names)  # an imported metric may be called as another series is here
    return [
        f"{one.metric!r}{sorted(one.labels.items())}@{one.scale}" if taken[a] > 1 else a
        for a, one in zip(names, every)
    ]


def _text(labels: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items()))


def _has(series: Series, axis: str) -> bool:
    return axis == "time_ns" or axis in series.axes


def _typed(values: list[Any]) -> Any:
    """A column of what runs have: numbers where all are numbers, else as they are."""
    kinds = {type(one) for one in values if one is not None}
    if kinds == {int} and all(-(2**63) <= one < 2**63 for one in values if one is not None):
        return columns.column(values, "q")
    if kinds and kinds <= {int, float} and float in kinds:
        return columns.column([columns.WORDS["NaN"] if one is None else one for one in values], "d")
    return values


def _flag(value: bool) -> str | None:
    return "1" if value else None


def _summary(series: list[Series]) -> dict[str, float | int]:
    """As the server's: ML_STEP before other scales, evaluation apart from training."""
    plain = [one for one in series if one.labels in ({}, _EVALUATION, _DEFAULT_ENV)]
    trained = {one.metric for one in plain if one.labels != _EVALUATION}
    found: dict[str, float | int] = {}
    for one in plain:
        if one.last is None or one.kind not in ("float64", "int64"):
            continue
        again = one.labels == _EVALUATION and one.metric in trained
        name = f"{one.metric} (evaluation)" if again else one.metric
        if name not in found or one.scale == "ML_STEP":
            found[name] = _number(one.last)
    return found


def _below_config(attributes: list[dict[str, Any]]) -> dict[str, Any]:
    below = "config/"
    return {
        one["path"][len(below) :]: _shown(one)
        for one in attributes
        if one["path"].startswith(below)
    }


def _shown(one: dict[str, Any]) -> Any:
    """An attribute as the document of a run has it."""
    value = _value(one)
    if isinstance(value, int) and abs(value) > 2**53:
        return str(value)
    return value if one["type"] in ("int64", "time") else one["value"]


def _number(value: Any) -> Any:
    """A number that JSON had to write as text."""
    if not isinstance(value, str):
        return value
    if value in columns.WORDS:
        return columns.WORDS[value]
    return int(value) if value.lstrip("-").isdigit() else value


def _value(one: dict[str, Any]) -> Any:
    kind, value = one["type"], one["value"]
    if kind in ("int64", "time"):
        return int(value)
    if kind == "float64":
        return float(_number(value))
    return set(value) if kind == "string_set" else value
