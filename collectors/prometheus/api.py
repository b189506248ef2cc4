"""A Prometheus-compatible HTTP API: Prometheus, Thanos, Mimir, VictoriaMetrics.

A thin edge around `prometheus-api-client`. It blocks: the caller runs it in a thread. Answers are limited in
size and time, read whole or not at all, and whatever is wrong with one is an `ApiError` in words.
"""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit, urlunsplit

import requests
import urllib3
from prometheus_api_client import PrometheusConnect
from requests.adapters import HTTPAdapter

from collectors.hiding import hide, secrets_of
from collectors.prometheus.refusals import ApiError, NoPostError, broken, not_200, not_json
from collectors.target import Target, TargetSecretError

BODY_LIMIT = 64 * 1024 * 1024
"""Bytes of one answer. What is asked for is sized to a tenth of this (`fetch.SAMPLES_PER_ANSWER`)."""

LAST_SECONDS = 253402300799
"""The end of the year 9999, Unix seconds: the last time that Python knows."""


class Raw(NamedTuple):
    """One series of an answer."""

    labels: dict[str, str]
    """`__name__` among them."""
    points: Sequence[Sequence[Any]]
    """[unix seconds, value as text], as answered."""


class Answer(NamedTuple):
    """What a query gave."""

    series: list[Raw]
    size: int
    """Bytes."""
    warnings: tuple[str, ...]
    """The answer is not all there is: Thanos without one of its stores, a failed remote read …"""


class Api:
    """One API. Not thread-safe: one request at a time."""

    def __init__(self, target: Target, body_limit: int = BODY_LIMIT) -> None:
        parts = urlsplit(target.url)
        path = parts.path.rstrip("/").removesuffix("/api/v1")
        base = urlunsplit((parts.scheme, parts.netloc, path, "", ""))
        self._more = dict(parse_qsl(parts.query))
        self._session = _Session(target, body_limit)
        self._timeout = target.timeout_seconds
        self._base = base
        self._client = self._connect("POST")
        self._posts = True

    def _connect(self, method: str) -> PrometheusConnect:
        no_retry = urllib3.Retry(total=0, read=False, redirect=False, status=False)
        client = PrometheusConnect(self._base, session=self._session, retry=no_retry, method=method)
        self._session.mount(self._base, _Adapter(self._session.server_name))
        return client

    def close(self) -> None:
        """End the connections."""
        self._session.close()

    def server_time(self) -> float:
        """The server's clock, Unix seconds. Raises ApiError."""
        found = self._query("time()", {"nocache": "1"})
        try:
            # Prometheus answers with a scalar, [time, value]; VictoriaMetrics with a series without labels.
            _, value = found[0]["value"] if isinstance(found[0], dict) else found
            seconds = float(value)
        except (TypeError, ValueError, LookupError):
            seconds = -1.0
        if not 0 <= seconds <= LAST_SECONDS:
            raise ApiError("the answer to time() holds no time")
        return seconds

    def names(self, start: float, end: float, matchers: str) -> list[str]:
        """Metric names with samples from `start` to `end` (Unix seconds). Raises ApiError."""
        parameters = {**self._more, "start": f"{start:.3f}", "end": f"{end:.3f}"}
        if matchers:
            parameters["match[]"] = f"{{{matchers}}}"
        try:
            found = self._client.get_label_values("__name__", params=parameters)
        except (LookupError, TypeError):
            raise ApiError("the answer to label/__name__/values is not what Prometheus' API sends") from None
        if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
            raise ApiError("the answer to label/__name__/values holds no list of names")
        return found

    def samples(self, selector: str, begin_ms: int, end_ms: int) -> Answer:
        """The raw samples of a selector after `begin_ms` up to `end_ms` (Unix). Raises ApiError.

        A range selector as an instant query gives samples as stored, with the times of their scrapes.
        """
        query = f"{selector}[{end_ms - begin_ms}ms]"
        # nocache: VictoriaMetrics would move a recent end 30 s back. partial_response: Thanos is to fail.
        more = {"nocache": "1", "partial_response": "false"}
        result = self._query(query, {"time": f"{end_ms / 1000:.3f}", **more})
        series = []
        for item in result:
            if not isinstance(item, dict) or not isinstance(item.get("metric"), dict):
                raise ApiError("the answer to a query is not what Prometheus' API sends: no series in it")
            series.append(Raw(item["metric"], item.get("values") or []))
        return Answer(series, self._session.size, self._session.warnings)

    def _query(self, query: str, parameters: Mapping[str, str]) -> list[Any]:
        parameters = {**self._more, "timeout": f"{self._timeout:g}s", **parameters}
        try:
            result = self._client.custom_query(query, params=parameters)
        except NoPostError:
            if not self._posts:
                raise
            self._posts = False
            self._client = self._connect("GET")
            return self._query(query, parameters)
        except (LookupError, TypeError):
            raise ApiError("the answer to a query is not what Prometheus' API sends") from None
        if not isinstance(result, list):
            raise ApiError("the answer to a query holds no list of results")
        return result


class _Adapter(HTTPAdapter):
    """The usual one; a certificate may be for another name than the URL's."""

    def __init__(self, server_name: str | None) -> None:
        self._server_name = server_name
        super().__init__(max_retries=0)

    def init_poolmanager(self, *arguments: Any, **named: Any) -> None:
        if self._server_name is not None:
            named |= {"server_hostname": self._server_name, "assert_hostname": self._server_name}
        super().init_poolmanager(*arguments, **named)


class _Whole(requests.Response):
    """An answer that was read and understood."""

    def __init__(self, payload: Any) -> None:
        super().__init__()
        self.status_code = 200
        self._payload = payload

    def json(self, **_: Any) -> Any:
        return self._payload


class _Session(requests.Session):
    """Sends one request and reads its answer within time and size. Nothing is taken from the environment: a
    netrc file would replace the target's own credentials."""

    def __init__(self, target: Target, body_limit: int) -> None:
        super().__init__()
        self._target = target
        self._body_limit = body_limit
        self.trust_env = False
        self.server_name = target.tls.server_name
        self.verify = target.tls.ca_file or ssl.get_default_verify_paths().cafile or True
        if target.tls.insecure:
            self.verify = False
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        self.size = 0
        self.warnings: tuple[str, ...] = ()

    def request(self, method: str, url: str | bytes, *_: Any, **named: Any) -> requests.Response:
        """One request; its answer is whole and says "success". Raises ApiError."""
        target = self._target
        deadline = time.monotonic() + target.timeout_seconds
        parameters = named.pop("params", None)
        where = {"data": parameters} if method == "POST" else {"params": parameters}
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "infermeter"}
        if target.prometheus is not None and target.prometheus.tenant is not None:
            headers["X-Scope-OrgID"] = target.prometheus.tenant
        authorization = None
        try:
            if authorization := target.authorization():
                headers["Authorization"] = authorization
            with super().request(
                method, url, headers=headers, stream=True, allow_redirects=False, verify=self.verify,
                timeout=target.timeout_seconds, **where,
            ) as response:  # fmt: skip
                body = self._read(response, deadline)
        except TargetSecretError as error:
            raise ApiError(str(error)) from None
        except (requests.exceptions.Timeout, urllib3.exceptions.TimeoutError):
            raise self._too_late() from None
        except (requests.exceptions.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            raise broken(error, target.timeout_seconds) from None
        secrets = secrets_of(authorization)
        if response.status_code != 200:
            raise not_200(response, body, secrets, posted=method == "POST")
        return _Whole(self._understood(body, secrets))

    def _read(self, response: requests.Response, deadline: float) -> bytes:
        chunks = []
        self.size = 0
        # One read of the socket at a time, so that an answer that drips does not outlive its time.
        while chunk := response.raw.read1(1 << 20, decode_content=True):
            self.size += len(chunk)
            if self.size > self._body_limit:
                limit = self._body_limit / 1024 / 1024
                raise ApiError(f"the answer is larger than {limit:g} MiB", too_much=True)
            if time.monotonic() > deadline:
                raise self._too_late()
            chunks.append(chunk)
        return b"".join(chunks)

    def _too_late(self) -> ApiError:
        return ApiError(f"no whole answer within {self._target.timeout_seconds:g} s", too_much=True)

    def _understood(self, body: bytes, secrets: Sequence[str]) -> Any:
        try:
            payload = json.loads(body)
        except (ValueError, RecursionError):
            raise not_json(body, secrets) from None
        if not isinstance(payload, dict) or payload.get("status") != "success" or "data" not in payload:
            raise ApiError("the answer is JSON, but not what Prometheus' API sends")
        warnings = payload.get("warnings") or []
        if payload.get("isPartial") is True:
            warnings = [*warnings, "the server says that its answer is partial"]
        self.warnings = tuple(hide(str(warning)[:1000], secrets)[:200] for warning in warnings)
        return payload
