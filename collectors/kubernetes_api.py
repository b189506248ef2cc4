"""Lists pods with Kubernetes' own client, which is an extra: the one file that knows it.

The answers are read as plain JSON: the client takes milliseconds a pod to make objects of them.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from collectors.fetch import BODY_LIMIT
from collectors.target_groups import ListError
from collectors.target_source import LIST_TIMEOUT_SECONDS

PAGE = 250
"""Pods an answer: at 10 to 20 KB each well below the limit of an answer."""

STARTS = 3
"""A list that changes faster than it is read (410, the token of the next page has expired) is begun anew."""

_CONNECT_SECONDS = 4.0
_CHUNK = 256 * 1024


class _ExpiredError(Exception):
    """The token of the next page is no longer valid (HTTP 410)."""


def pods(
    namespace: str | None,
    *,
    label_selector: str | None = None,
    kubeconfig: str | None = None,
    context: str | None = None,
    timeout_seconds: float = LIST_TIMEOUT_SECONDS,
) -> list[dict[str, Any]]:
    """The running pods of a namespace (None: of all), as the API has them. Raises ListError.

    Inside a cluster the pod's service account is used, unless a kubeconfig or a context is named.
    """
    deadline = time.monotonic() + timeout_seconds
    with _client(kubeconfig, context) as api:
        for _ in range(STARTS):
            try:
                return list(_pages(api, namespace, label_selector, deadline))
            except _ExpiredError:
                continue
    raise ListError("the list of pods changes faster than it can be read (HTTP 410)")


@contextmanager
def _client(kubeconfig: str | None, context: str | None) -> Iterator[Any]:
    """The API of the cluster. Made anew each time, so that rotated credentials are taken up."""
    try:
        import kubernetes
        import urllib3
    except ImportError:
        raise ListError(
            "Kubernetes' client is not installed; run `pip install 'infermeter[kubernetes]'`"
        ) from None
    settings = kubernetes.client.Configuration()
    load: Any = kubernetes.config  # its functions have no types
    try:
        if kubeconfig is None and context is None and "KUBERNETES_SERVICE_HOST" in os.environ:
            load.load_incluster_config(client_configuration=settings)
        else:
            load.load_kube_config(
                config_file=kubeconfig, context=context, client_configuration=settings, persist_config=False
            )
    except Exception as error:  # noqa: BLE001 (shown; a malformed file makes the client raise all sorts)
        known = isinstance(error, (kubernetes.config.ConfigException, OSError))
        said = " ".join(str(error).split())[:200] if known else "it is malformed"
        raise ListError(f"the credentials of the cluster (`kubeconfig`) cannot be read: {said}") from None
    settings.retries = urllib3.Retry(0, redirect=False)
    with kubernetes.client.ApiClient(settings) as client:
        yield kubernetes.client.CoreV1Api(client)


def _pages(
    api: Any, namespace: str | None, label_selector: str | None, deadline: float
) -> Iterator[dict[str, Any]]:
    token: str | None = None
    while True:
        page = _page(api, namespace, label_selector, token, deadline)
        items = page.get("items")
        meta = page.get("metadata")
        # A list of none is `"items": null` to some servers; without the kind it is something else altogether.
        if page.get("kind") != "PodList" or not isinstance(items or [], list) or not isinstance(meta, dict):
            raise ListError("the answer is no list of pods; is this a Kubernetes API?")
        yield from (item for item in items or [] if isinstance(item, dict))
        before, token = token, meta.get("continue")
        if not token or not isinstance(token, str):
            return
        if token == before:
            raise ListError("the API server gives the same page of the list again and again")


def _page(
    api: Any, namespace: str | None, label_selector: str | None, token: str | None, deadline: float
) -> dict[str, Any]:
    import kubernetes
    import urllib3

    left = deadline - time.monotonic()
    if left <= 0:
        raise ListError(_TOO_SLOW)
    options = {"field_selector": "status.phase=Running", "limit": PAGE, "_preload_content": False}
    options |= {"label_selector": label_selector} if label_selector else {}
    options |= {"_continue": token} if token else {}
    options["_request_timeout"] = (min(_CONNECT_SECONDS, left), left)
    try:
        if namespace is None:
            response = api.list_pod_for_all_namespaces(**options)
        else:
            response = api.list_namespaced_pod(namespace, **options)
        with closing(response):
            if response.status != 200:
                raise _refused(response.status, namespace)
            body = _body(response, deadline)
    except kubernetes.client.ApiException as error:  # older clients raise it for a status, all for TLS errors
        if error.status:
            raise _refused(error.status, namespace) from None
        raise ListError(f"the API server cannot be asked: {_first_line(error.reason)}") from None
    except (urllib3.exceptions.ConnectTimeoutError, urllib3.exceptions.ReadTimeoutError):
        raise ListError(_TOO_SLOW) from None
    except urllib3.exceptions.MaxRetryError as error:
        raise ListError(_unreachable(error.reason)) from None
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise ListError(f"the answer broke off: {type(error).__name__}") from None
    try:
        page = json.loads(body)
    except (ValueError, RecursionError):
        page = None
    return page if isinstance(page, dict) else {}


_TOO_SLOW = "the API server has not answered in time"


def _body(response: Any, deadline: float) -> bytes:
    """The body, piece by piece: neither endless nor dripping for ever."""
    chunks = []
    size = 0
    while chunk := response.read1(_CHUNK):
        size += len(chunk)
        if size > BODY_LIMIT:
            raise ListError(f"the answer is larger than {BODY_LIMIT / 1024 / 1024:g} MiB")
        if time.monotonic() > deadline:
            raise ListError(_TOO_SLOW)
        chunks.append(chunk)
    return b"".join(chunks)


def _refused(status: int, namespace: str | None) -> Exception:
    if status == 410:
        return _ExpiredError()
    where = (
        f"in namespace {namespace}" if namespace is not None else "in all namespaces (or name `namespaces`)"
    )
    cures = {
        400: "; check `label_selector`",
        401: "; the API server does not accept these credentials",
        403: f"; allow this account to list pods {where}",
        429: "; the API server is busy",
    }
    redirected = "; the API server redirects, which is not followed" if 300 <= status < 400 else ""
    return ListError(f"HTTP {status}{cures.get(status, redirected)}")


def _unreachable(reason: object) -> str:
    import urllib3

    new = isinstance(reason, urllib3.exceptions.NewConnectionError)  # which counts as a timeout there
    if isinstance(reason, urllib3.exceptions.TimeoutError) and not new:
        return _TOO_SLOW
    return f"the API server cannot be reached: {_first_line(reason)}"


def _first_line(reason: object) -> str:
    """Of a message of urllib3's: what is wrong, without what it says of its objects."""
    text = str(reason)
    if system := re.search(r"\[Errno -?\d+\] ([^)\n]+)", text):
        return system[1]
    lines = text.strip().splitlines()
    return lines[-1][:200] if lines else "unknown"
