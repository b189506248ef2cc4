"""A simulated fleet that serves real exporters' pages over HTTP, for the demo and for tests.

Model: `workload.py` (who asks what, when) → `engine.py` (continuous batching) → `gpu.py` (load, power,
memory), put together on one clock by `fleet.py` from the tables of `topology.py`; `faults.py` disturbs it by
name.
Pages: `vllm_page.py`, `llamacpp_page.py`, `dcgm_page.py` write what the real exporters write.
Edges: `server.py` (HTTP, the command line), `backfill.py` (a recording of the past), `settings.py` (the
configuration that watches it), `run.py` (`infermeter demo`).
"""
