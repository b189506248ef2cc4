-- purpose: how far each target of a Prometheus-compatible source was read, to go on from there
-- parameters: source
-- grain: one target of the source
SELECT target, labels, last_ts FROM pull_progress WHERE source = $source ORDER BY target
