"""Series of a Prometheus → what its targets said: labels, names, times."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.exposition import parse
from collectors.prometheus.api import Raw
from collectors.prometheus.derived import NAME_CAP, Names, derived
from collectors.prometheus.names import selector, wanted
from collectors.prometheus.settings import PrometheusSettings
from collectors.prometheus.upstream import Identity, Upstreams, line_start, own_labels, without_replica
from collectors.reading import Reading
from collectors.registry import KINDS, UnknownKindError, detect
from collectors.source import ExpositionKind, TargetReader
from tests.collectors.fake_prometheus import FakePrometheus
from tests.collectors.pulling import source
from tests.shared import SHARED, needs_shared

TARGET = {"job": "dcgm", "instance": "10.0.0.1:9400", "pod": "dcgm-exporter-x7", "namespace": "gpu-operator"}


class TestOwnLabels:
    def test_the_targets_labels_are_taken_off_and_exported_ones_are_what_the_exporter_said(self) -> None:
        # As in gpu.md: Prometheus keeps the workload in exported_*, its own labels are the exporter's pod.
        stored = TARGET | {"exported_pod": "llama-0", "exported_namespace": "serving", "UUID": "GPU-1"}
        assert own_labels(stored, TARGET) == {"pod": "llama-0", "namespace": "serving", "UUID": "GPU-1"}

    def test_a_gpu_without_a_workload_has_no_pod(self) -> None:
        assert own_labels(TARGET | {"UUID": "GPU-1"}, TARGET) == {"UUID": "GPU-1"}

    def test_with_honor_labels_the_exporters_word_stands_under_its_own_name(self) -> None:
        stored = TARGET | {"pod": "llama-0", "UUID": "GPU-1"}
        assert own_labels(stored, TARGET) == {"pod": "llama-0", "UUID": "GPU-1"}

    def test_an_exported_label_of_the_exporter_itself_stays(self) -> None:
        assert own_labels(TARGET | {"exported_node": "n1"}, TARGET) == {"exported_node": "n1"}

    def test_both_spellings_by_the_exporter_make_a_longer_one(self) -> None:
        # The exporter shows pod and exported_pod; Prometheus moves the first past the second.
        stored = TARGET | {"exported_pod": "older", "exported_exported_pod": "llama-0"}
        assert own_labels(stored, TARGET) == {"exported_pod": "older", "pod": "llama-0"}

    def test_without_an_up_what_stands_beside_its_exported_one_is_the_targets(self) -> None:
        stored = TARGET | {"exported_pod": "llama-0", "UUID": "GPU-1"}
        found = own_labels(stored, {"job": "dcgm", "instance": "10.0.0.1:9400"})
        assert found == {"pod": "llama-0", "namespace": "gpu-operator", "UUID": "GPU-1"}


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("up", {}),
        ("a:b", {"x": 'quote " backslash \\ and\nline', "y": "日本"}),
        ("gen_ai.server.time_to_first_token", {"gen_ai.request.model": "m"}),
    ],
)
def test_a_line_is_read_as_what_it_was_made_of(name: str, labels: dict[str, str]) -> None:
    (sample,) = parse((line_start(name, labels) + "1.5\n").encode()).samples
    assert (sample.name, sample.labels, sample.value) == (name, labels, 1.5)


class TestScrapes:
    def found(
        self, fake: FakePrometheus, known: frozenset[Identity] = frozenset()
    ) -> list[tuple[int, bool, bytes]]:
        raws = [Raw(dict(labels), points) for labels, points in fake.samples.items()]
        telling = [raw.labels["__name__"] for raw in raws if raw.labels["__name__"].startswith("vllm")]
        scrapes = Upstreams().scrapes(raws, telling, known).scrapes
        return [(scrape.ts_ms, scrape.up, scrape.body) for scrape in scrapes]

    def test_one_body_for_each_time(self) -> None:
        fake = FakePrometheus()
        fake.scrape("v", "a:1", b'vllm:x{m="1"} 1\nvllm:y 2\n', 10.25)
        fake.scrape("v", "a:1", b'vllm:x{m="1"} 3\n', 20.25)
        fake.scrape("v", "a:1", None, 30.25)
        bodies = [(10250, True, b'vllm:x{m="1"} 1.0\nvllm:y 2.0\n'), (20250, True, b'vllm:x{m="1"} 3.0\n')]
        assert self.found(fake) == [*bodies, (30250, False, b"")]

    def test_a_sample_with_a_time_of_its_own_belongs_to_the_scrape_that_brought_it(self) -> None:
        fake = FakePrometheus()
        fake.scrape("v", "a:1", b"vllm:x 1\n", 10)
        fake._add("vllm:late", {"job": "v", "instance": "a:1"}, 7, "5")
        fake.scrape("v", "a:1", b"vllm:x 2\n", 20)
        fake._add("vllm:late", {"job": "v", "instance": "a:1"}, 17, "6")
        assert [body for _, _, body in self.found(fake)] == [
            b"vllm:late 5\nvllm:x 1.0\n",
            b"vllm:late 6\nvllm:x 2.0\n",
        ]

    def test_without_up_the_job_and_instance_make_the_target(self) -> None:
        fake = FakePrometheus()
        fake._add("vllm:x", {"job": "v", "instance": "a:1", "pod": "p", "exported_pod": "mine"}, 10, "1")
        fake._add("vllm:x", {"job": "v", "instance": "b:1"}, 11, "2")
        assert self.found(fake) == [(10000, True, b'vllm:x{pod="mine"} 1\n'), (11000, True, b"vllm:x 2\n")]

    def test_two_targets_of_one_job_and_instance_are_told_apart_by_the_rest(self) -> None:
        fake = FakePrometheus()
        for cluster in ("a", "b"):
            fake.scrape("v", "x:1", f'vllm:x{{c="{cluster}"}} 1\n'.encode(), 10, {"cluster": cluster})
        assert sorted(body for _, _, body in self.found(fake)) == [
            b'vllm:x{c="a"} 1.0\n',
            b'vllm:x{c="b"} 1.0\n',
        ]


def test_an_identity_does_not_hold_the_replica_of_a_pair() -> None:
    target = (
        ("__replica__", "x"),
        ("instance", "a"),
        ("job", "v"),
        ("prometheus_replica", "y"),
        ("replica", "z"),
    )
    assert without_replica(target) == (("instance", "a"), ("job", "v"))


class TestDerived:
    IDENTITY = (("cluster", "c"), ("instance", "a:1"), ("job", "v"), ("project", "search"))

    def test_a_name_is_job_and_instance_and_stays(self) -> None:
        names = Names()
        assert names.of("prom", self.IDENTITY) == "v/a:1"
        assert names.of("prom", self.IDENTITY) == "v/a:1"

    def test_a_name_that_is_taken_gets_what_tells_it_apart(self) -> None:
        names = Names(is_taken=lambda name: name == "v/a:1")
        assert names.of("prom", self.IDENTITY) == "v/a:1 (cluster=c,project=search)"
        assert names.of("other", self.IDENTITY) == "other/v/a:1"
        assert names.of("third", (("instance", "a:1"), ("job", "v"))) == "third/v/a:1"

    def test_a_name_of_an_earlier_process_is_given_again_unless_a_target_took_it(self) -> None:
        names = Names(is_taken=lambda name: name == "v/a:1")
        assert not names.restore("prom", self.IDENTITY, "v/a:1")
        assert names.restore("prom", self.IDENTITY, "v/a:1 (cluster=c)")
        assert names.of("prom", self.IDENTITY) == "v/a:1 (cluster=c)"

    def test_a_source_that_is_read_anew_keeps_the_names_that_it_gave_and_no_other_gets_them(self) -> None:
        names = Names()
        assert names.of("prom", self.IDENTITY) == "v/a:1"
        assert not names.restore("other", self.IDENTITY, "v/a:1")
        assert names.restore("prom", self.IDENTITY, "v/a:1")

    def test_a_long_name_is_cut_and_still_its_own(self) -> None:
        names = Names()
        long = [names.of("prom", (("instance", "x" * 500 + end), ("job", "v"))) for end in "ab"]
        assert len(set(long)) == 2
        assert all(len(name) <= NAME_CAP for name in long)

    def test_labels_project_and_pace(self) -> None:
        prom = source("http://prom:9090", lag="5s", interval="10s").model_copy(update={"environment": "prod"})
        target = derived(prom, self.IDENTITY, "v/a:1", 30.0)
        assert (target.project, target.environment, target.kind) == ("search", "prod", "auto")
        assert target.labels == {"cluster": "c", "instance": "a:1", "job": "v"}
        assert target.interval_seconds == 35.0
        # Not known yet: Prometheus' default, a minute.
        assert derived(prom, self.IDENTITY, "v/a:1", None).interval_seconds == 65.0
        assert target.url == "http://prom:9090"


class TestNames:
    def test_names_are_found_in_the_tables_whatever_their_spelling(self) -> None:
        found = wanted(
            ["vllm:num_requests_running", "vllm_num_requests_waiting", "dcgm_fi_dev_gpu_util", "up", "go_x",
             "vllm:time_to_first_token_seconds_bucket", "vllm:iteration_tokens_total_bucket",
             "process_start_time_seconds", "DCGM_FI_DEV_XID_ERRORS"]
        )  # fmt: skip
        assert set(found.telling) == {
            "vllm:num_requests_running", "vllm_num_requests_waiting", "dcgm_fi_dev_gpu_util",
            "vllm:time_to_first_token_seconds_bucket", "DCGM_FI_DEV_XID_ERRORS",
        }  # fmt: skip
        assert found.shared == ("process_start_time_seconds",)

    def test_a_selector_names_all_and_escapes_what_is_no_plain_text(self) -> None:
        assert selector(["b:c", "a"], 'x="y"') == '{__name__=~"a|b:c",x="y"}'
        assert selector(["a"], "", ["k8s/pods", 'q"']) == '{__name__=~"a",job=~"k8s/pods|q\\""}'
        assert selector(["a.b"], "") == '{__name__=~"a\\\\.b"}'


class TestSettings:
    @pytest.mark.parametrize(
        ("match", "matchers"),
        [
            ('{cluster="prod"}', 'cluster="prod"'),
            (' { a=~"x|y" , b!="z", } ', 'a=~"x|y" , b!="z"'),
            (r'{a="quote \" and } brace"}', r'a="quote \" and } brace"'),
        ],
    )
    def test_selectors(self, match: str, matchers: str) -> None:
        assert PrometheusSettings(match=match).matchers == matchers

    @pytest.mark.parametrize(
        "match", ["", "{}", "up", "up{a='b'}", '{a="b"', '{a="b"} or up', '{__name__="up"}']
    )
    def test_no_selectors(self, match: str) -> None:
        with pytest.raises(ValueError, match="match"):
            PrometheusSettings(match=match)


def fixtures() -> list[Path]:
    return sorted(path for path in (SHARED / "fixtures").glob("[eg]*/*.txt") if SHARED.is_dir())


@needs_shared
@pytest.mark.parametrize("path", fixtures(), ids=lambda path: path.name)
def test_the_names_that_are_asked_for_say_all_that_the_whole_answer_says(path: Path) -> None:
    body = path.read_bytes()
    try:
        kind = detect(body)
    except UnknownKindError:
        return
    if not isinstance(kind, ExpositionKind):
        return  # Prometheus cannot hold it
    samples = parse(body).samples
    found = wanted(sample.name for sample in samples)
    asked = {*found.telling, *found.shared}
    kept = [sample for sample in samples if sample.name in asked]
    text = "".join(f"{line_start(sample.name, sample.labels)}{sample.value!r}\n" for sample in kept).encode()
    assert found.telling or not kept
    assert not kept or detect(text).name == kind.name
    assert rows(TargetReader(KINDS[kind.name]).read(text)) == rows(TargetReader(kind).read(body))


def rows(reading: Reading) -> tuple[object, ...]:
    return reading[2:5], reading.missing, reading.found_names, reading.hosts, reading.usage
