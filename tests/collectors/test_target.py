import base64
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from collectors.target import Target, TargetSecretError, kind_names, read_secret_file

SECRET = "hunter2-S3cr3t"


def problem(**given_settings: Any) -> str:
    """The one thing that is wrong with these settings: `place: reason`."""
    with pytest.raises(ValidationError) as caught:
        Target.model_validate(given_settings)
    (error,) = caught.value.errors()
    reason = error.get("ctx", {}).get("error", error["msg"])
    return f"{'.'.join(map(str, error['loc']))}: {reason}"


def test_a_url_alone_is_a_target() -> None:
    target = Target(url="http://gpu-node-1:9400/metrics")
    assert target.name == "gpu-node-1:9400"
    assert (target.kind, target.interval_seconds, target.timeout_seconds) == ("auto", 10, 5)
    assert (target.authorization(), target.ssl_context()) == (None, None)


@pytest.mark.parametrize(
    ("written", "url"),
    [
        ("http://host:9400", "http://host:9400/metrics"),
        ("http://host:9400/", "http://host:9400/metrics"),
        (" https://host/v1/metrics ", "https://host/v1/metrics"),
        ("http://host/metrics/", "http://host/metrics/"),
        ("http://host/metrics?model=a&x[]=1#top", "http://host/metrics?model=a&x[]=1"),
        ("HTTP://[::1]:8000", "http://[::1]:8000/metrics"),
    ],
)
def test_a_url_without_a_path_means_metrics(written: str, url: str) -> None:
    assert Target(url=written).url == url


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("gpu-1:9400", "does not say http or https; write http://gpu-1:9400/metrics"),
        ("gpu-1:9400/m?a=b", "does not say http or https; write http://gpu-1:9400/m"),
        ("localhost", "does not say http or https; write http://localhost/metrics"),
        (f"me:{SECRET}@host", "does not say http or https; write http:// before the host"),
        ("", "is empty; write the URL of the metrics, like http://gpu-node-1:9400/metrics"),
        ("ftp://host/", "starts with ftp://; only http:// and https:// can be scraped"),
        ("http://ho st/", "holds a space or a control character; write it as %20 (or %0A …)"),
        ("http:///metrics", "cannot be read; write it like http://gpu-node-1:9400/metrics"),
        ("http://host:port/", "cannot be read; write it like http://gpu-node-1:9400/metrics"),
        ("http://host:99999/", "has a port over 65535; write the exporter's own port"),
        (f"http://me:{SECRET}#x@host", "cannot be read; write it like http://gpu-node-1:9400/metrics"),
    ],
)
def test_a_url_that_cannot_be_fetched_is_refused_with_the_cure(url: str, reason: str) -> None:
    assert problem(url=url) == f"url: {reason}"


def test_a_name_comes_from_host_port_and_an_unusual_path() -> None:
    assert Target(url="http://u:p@host:1/metrics").name == "host:1"
    assert Target(url="https://host/v1/metrics").name == "host/v1/metrics"
    assert Target(url="http://host:1", name="mine").name == "mine"


def test_a_timeout_left_out_is_cut_to_the_interval() -> None:
    assert Target(url="http://h", interval_seconds=2).timeout_seconds == 2
    assert Target(url="http://h", interval_seconds=60).timeout_seconds == 5


def test_a_timeout_longer_than_the_interval_is_refused() -> None:
    assert problem(url="http://h", interval="5s", timeout="1m30s") == (
        "timeout: 1m30s is longer than the interval of 5s; a scrape must end before the next begins"
    )


@pytest.mark.parametrize("setting", ["interval", "timeout"])
def test_no_time_at_all_is_refused(setting: str) -> None:
    assert problem(url="http://h", **{setting: "0s"}) == f"{setting}: must be more than 0s"


def test_a_kind_must_be_in_the_registry() -> None:
    assert Target(url="http://h", kind="vllm").kind == "vllm"
    assert problem(url="http://h", kind="vlm") == "kind: 'vlm' is not a known kind; did you mean vllm?"
    assert problem(url="http://h", kind="zzz") == (
        "kind: 'zzz' is not a known kind; the kinds are " + ", ".join(kind_names())
    )


@pytest.mark.parametrize(
    "gpu",
    ["GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e52", "MIG-6e4275af-2db0-51f1-a601-7ad8a1002745", "node-1/0"],
)
def test_gpus_are_named_by_uuid_or_by_host_and_index(gpu: str) -> None:
    assert Target(url="http://h", gpus=[gpu]).gpus == [gpu]


@pytest.mark.parametrize("gpu", ["0", "GPU 0", "node-1", "node-1/a", ""])
def test_what_names_no_gpu_is_refused(gpu: str) -> None:
    assert problem(url="http://h", gpus=[gpu]) == (
        f"gpus: {gpu!r} names no GPU; write its UUID (GPU-…, from `nvidia-smi -L`) or host/index,"
        " for instance gpu-node-1/0"
    )


@pytest.mark.parametrize("ratio", [0, -0.1, 1.01, float("nan")])
def test_a_reservation_is_a_share(ratio: float) -> None:
    with pytest.raises(ValidationError):
        Target(url="http://h", memory_reservation_ratio=ratio)
    assert Target(url="http://h", memory_reservation_ratio=0.9).memory_reservation_ratio == 0.9


def test_a_name_is_one_line() -> None:
    assert problem(url="http://h", name="a\nb") == (
        "name: a name cannot hold line breaks or control characters"
    )


def test_unknown_settings_are_refused() -> None:
    assert problem(url="http://h", intervall="5s") == "intervall: Extra inputs are not permitted"


def test_basic_auth_is_sent_as_rfc_7617_says() -> None:
    # The example of RFC 7617, section 2: Aladdin / open sesame.
    target = Target.model_validate(
        {"url": "http://h", "basic_auth": {"username": "Aladdin", "password": "open sesame"}}
    )
    assert target.authorization() == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="


def test_credentials_in_the_url_are_taken_out_of_it() -> None:
    target = Target(url="http://me:p%40ss@host:9400/metrics")
    assert target.url == "http://host:9400/metrics"
    assert target.authorization() == "Basic " + base64.b64encode(b"me:p@ss").decode()


def test_credentials_in_the_url_and_beside_it_are_refused() -> None:
    reason = problem(url=f"http://me:{SECRET}@host", basic_auth={"username": "u", "password": "p"})
    assert reason == "url: holds a user name or a password; take them out (`basic_auth` is their place)"


def test_a_secret_file_is_read_at_each_scrape(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    target = Target(url="http://h", bearer_token_file=str(file))
    assert target.authorization() == "Bearer first"
    file.write_text("second\r\n")
    assert target.authorization() == "Bearer second"


def test_a_password_file_keeps_its_spaces(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(" two words \n")
    target = Target.model_validate(
        {"url": "http://h", "basic_auth": {"username": "u", "password_file": str(file)}}
    )
    assert target.authorization() == "Basic " + base64.b64encode(b"u: two words ").decode()


def test_a_secret_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    gone, empty, binary = tmp_path / "gone", tmp_path / "empty", tmp_path / "binary"
    empty.write_text("\n")
    binary.write_bytes(b"\xff\xfe")
    for path, reason in (
        (gone, "cannot be read: No such file or directory"),
        (tmp_path, "cannot be read: Is a directory"),
        (empty, "is empty"),
        (binary, "is not UTF-8 text"),
    ):
        with pytest.raises(TargetSecretError) as caught:
            read_secret_file(str(path))
        assert str(caught.value) == f"{path} {reason}"


def test_a_token_that_would_break_the_header_is_refused_without_showing_it(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{SECRET}\nEvil: 1")
    for target, where in (
        (Target(url="http://h", bearer_token_file=str(file)), str(file)),
        (Target.model_validate({"url": "http://h", "bearer_token": f"{SECRET} x"}), "`bearer_token` of h"),
    ):
        with pytest.raises(TargetSecretError) as caught:
            target.authorization()
        assert str(caught.value) == (f"{where} holds a space, a line break or another character no token has")


@pytest.mark.parametrize(
    ("given_settings", "reason"),
    [
        (
            {"basic_auth": {"username": "u"}},
            "basic_auth.password_file: `password` or `password_file` is needed",
        ),
        (
            {"basic_auth": {"username": "u", "password": SECRET, "password_file": "f"}},
            "basic_auth.password_file: `password` is set too; keep one of the two",
        ),
        (
            {"basic_auth": {"username": "u:v", "password": SECRET}},
            "basic_auth.username: a user name cannot hold a colon",
        ),
        (
            {"bearer_token": SECRET, "bearer_token_file": "f"},
            "bearer_token_file: `bearer_token` is set too; keep one of the two",
        ),
        (
            {"bearer_token": SECRET, "basic_auth": {"username": "u", "password": "p"}},
            "bearer_token: `basic_auth` is set too; keep one of the two",
        ),
        (
            {"bearer_token_file": "f", "basic_auth": {"username": "u", "password": "p"}},
            "bearer_token_file: `basic_auth` is set too; keep one of the two",
        ),
    ],
)
def test_one_way_to_authorize_and_one_place_for_the_secret(given_settings: Any, reason: str) -> None:
    assert problem(url="http://h", **given_settings) == reason


def test_the_shown_url_has_no_credentials_and_no_secret_parameters() -> None:
    target = Target(url=f"https://me:{SECRET}@host/m?model=a&api_key={SECRET}&Access_Token={SECRET}&empty=")
    assert target.shown_url == "https://host/m?model=a&api_key=hidden&Access_Token=hidden&empty="
    assert target.url == f"https://host/m?model=a&api_key={SECRET}&Access_Token={SECRET}&empty="


LETTERS = st.characters(codec="ascii", categories=["Lu", "Ll", "Nd"])
SECRETS = st.text(LETTERS, min_size=9, max_size=30).map("q9Z{}".format)  # no word of the code begins so


@given(SECRETS)
@settings(max_examples=50, deadline=None)
def test_no_secret_is_ever_shown(secret: str) -> None:
    for given_settings in (
        {"url": f"http://me:{secret}@host/"},
        {"url": f"http://host/?token={secret}"},
        {"url": "http://host/", "bearer_token": secret},
        {"url": "http://host/", "basic_auth": {"username": "u", "password": secret}},
    ):
        target = Target.model_validate(given_settings)
        dumped = (
            target.model_dump(),
            target.model_dump_json(),
            target.model_copy(),
            dict(target.model_dump()),
        )
        assert secret not in f"{target} {target!r} {dumped} {[target]!r}"
        with pytest.raises(ValidationError) as caught:
            Target.model_validate({**given_settings, "kind": "none", "unknown": secret, "interval": None})
        assert secret not in str(caught.value)
        assert secret not in repr(caught.value)


def certificate(folder: Path) -> Path:
    """A self-signed certificate, made by the openssl program."""
    file = folder / "ca.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=test", "-keyout", str(folder / "key.pem"), "-out", str(file)]
    subprocess.run(command, check=True, capture_output=True)
    return file


def test_tls_settings_make_a_context_and_are_kept(tmp_path: Path) -> None:
    try:
        ca_file = certificate(tmp_path)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    target = Target.model_validate({"url": "https://h", "tls": {"ca_file": str(ca_file)}})
    context = target.ssl_context()
    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert [entry["subject"] for entry in context.get_ca_certs()] == [((("commonName", "test"),),)]
    assert target.ssl_context() is context
    ca_file.write_text("no certificate any more")
    with pytest.raises(TargetSecretError) as caught:
        target.ssl_context()
    assert str(caught.value) == f"{ca_file} holds no certificate in PEM form"
    ca_file.unlink()
    with pytest.raises(TargetSecretError, match=r"ca\.pem cannot be read: No such file"):
        target.ssl_context()


def test_insecure_accepts_any_certificate_on_https_only() -> None:
    context = Target.model_validate({"url": "https://h", "tls": {"insecure": True}}).ssl_context()
    assert context is not None
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)
    assert Target.model_validate({"url": "http://h", "tls": {"insecure": True}}).ssl_context() is None


@given(st.text(), st.text())
@settings(max_examples=150, deadline=None)
def test_any_url_and_name_make_a_target_or_a_validation_error(url: str, name: str) -> None:
    try:
        target = Target(url=url, name=name)
    except ValidationError:
        return
    assert target.shown_url.startswith(("http://", "https://"))
