"""What went wrong with a probe, in words, with the cure where one is known. Pure."""

from __future__ import annotations

import re
from datetime import datetime

from collectors.probe.answer import Answer
from collectors.probe.request import CHAT, MODELS, Refusal

_CURES = {
    401: "the endpoint does not take the key; give `bearer_token` or `bearer_token_file`",
    402: "the account has no credit left",
    403: "the key is not allowed to use this",
    404: "there is no such model or no such path; check `model` and `url`",
    405: "this path takes no completions; check `url`",
    408: "the endpoint gave up waiting",
    413: "the prompt is too long for the endpoint",
    429: "the endpoint's limit of requests or tokens is reached",
    500: "the endpoint failed",
    502: "the gateway got no answer from the engine",
    503: "the endpoint is overloaded or not ready",
    504: "the gateway waited too long for the engine",
}

_CONTENT_TYPE = re.compile(r"[\w.+/-]{1,80}")


def status_words(status: int, refused: Refusal, place: str | None = None) -> str:
    """An answer that is no 200: `HTTP 401: the endpoint does not take the key; … (invalid_api_key)`.

    `place`: where a redirect leads.
    """
    if 300 <= status < 400:
        base = (place or "").removesuffix(CHAT).removesuffix(MODELS)
        return f"HTTP {status}: redirects " + (
            f"to {base}; put that into `url`" if base else "and does not say where to"
        )
    cure = _CURES.get(status)
    says = [code for code in refused.codes if code != str(status)]
    says += [f"it speaks of `{name}`" for name in refused.names]
    return f"HTTP {status}" + (f": {cure}" if cure else "") + (f" ({', '.join(says)})" if says else "")


def timeout_words(connected: bool, status: int | None, answer: Answer, seconds: float) -> str:
    """How far it had come."""
    if not connected:
        return f"no connection within {seconds:g} s"
    if status is None:
        return f"no answer within {seconds:g} s"
    if answer.first_token_at is None:
        return f"no token within {seconds:g} s"
    return f"no whole answer within {seconds:g} s"


def waiting_words(status: int | None, until: datetime) -> str:
    """Why no request is sent though one is due. `until`: UTC without a zone."""
    return (
        f"not asked: after HTTP {status} the endpoint wants no request before {until:%Y-%m-%d %H:%M:%S} UTC"
        " (Retry-After)"
    )


def unbooked_words(why: str) -> str:
    """Why no request is sent under a cap: what it may cost could not be stored."""
    return f"not asked: what it may cost cannot be booked ({why.splitlines()[0][:200] if why else 'unknown'})"


def _shown_type(content_type: str | None) -> str:
    """A content type as it may be shown."""
    kind = (content_type or "").partition(";")[0].strip()
    return kind if _CONTENT_TYPE.fullmatch(kind) else "an answer of no known type"


def stream_trouble(answer: Answer, content_type: str | None, whole_answer: bool) -> str | None:
    """What is wrong with a stream that has ended; None when nothing is.

    `whole_answer`: it held a completion in one piece instead of events.
    """
    if answer.error is not None:
        return answer.error
    if whole_answer:
        return "the endpoint answers in one piece and not as a stream; time to first token cannot be measured"
    if answer.events == 0 and not answer.whole:
        return f"the answer is no stream of events but {_shown_type(content_type)}; check `url`"
    if answer.first_token_at is None:
        because = f" (finish_reason {answer.finish_reason})" if answer.finish_reason else ""
        return f"the stream held no token{because}"
    if not answer.whole and answer.finish_reason is None:
        return "the stream broke off before the answer's end"
    return None
