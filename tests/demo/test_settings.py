from __future__ import annotations

from pathlib import Path

from app.config import Config, load_text
from app.demo.fleet import Fleet
from app.demo.settings import demo_config, demo_config_yaml


def config() -> Config:
    return load_text(demo_config_yaml("http://127.0.0.1:18400/", "demo.duckdb", 18501), "demo", folder=Path())


def test_the_configuration_is_accepted_and_says_that_it_is_simulated() -> None:
    loaded = config()
    assert loaded.simulated
    assert (loaded.store, loaded.listen.host, loaded.listen.port) == ("demo.duckdb", "127.0.0.1", 18501)
    assert loaded.scrape.interval_seconds == 5


def test_every_endpoint_of_the_fleet_is_a_target() -> None:
    targets = {target.name: target for target in config().targets}
    fleet = {target.name: target for target in Fleet(1, 0.0).targets()}
    assert targets.keys() == fleet.keys()
    for name, target in targets.items():
        assert target.url == f"http://127.0.0.1:18400{fleet[name].path}"
        assert target.kind == fleet[name].kind
        assert target.environment in ("production", "staging")
        assert tuple(target.gpus) == fleet[name].gpus


def test_engines_name_their_gpus_project_and_the_model_that_they_do_not_say() -> None:
    targets = {target.name: target for target in config().targets}
    assert targets["llama-70b"].gpus == [f"node-1/{index}" for index in range(8)]
    assert targets["llama-70b"].project == "chat"
    assert targets["llama-70b"].model is None
    assert targets["gemma-9b"].model == "gemma-2-9b-it-Q8_0.gguf"
    gpu = Fleet(1, 0.0).nodes["node-4"][0]
    assert targets["qwen-1.5b"].gpus == [f"{gpu.uuid}/1"]


def test_the_dictionary_and_the_text_say_the_same() -> None:
    values = demo_config("http://127.0.0.1:1", "x.duckdb", 8501)
    assert len(values["targets"]) == len(config().targets)
    assert "project" not in values["targets"][0]
