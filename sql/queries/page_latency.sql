-- purpose: increases of cumulative latency buckets, summed per step: what quantiles are read from.
-- A row whose increase covers more than max_interval seconds is a gap and is left out.
-- parameters: targets (list), metrics (list of ttft, itl, …), from_ts, to_ts (UTC), step (seconds),
--   origin (UTC, where steps start), max_interval (seconds).
-- grain: target + replica + model + metric + edge set + step. increases[i] belongs to edges_seconds[i];
--   sum_seconds is what the requests of the step took together, of those scrapes that said so, and timed how many
--   requests these had: sum_seconds ÷ timed is the mean. +Inf as the only edge: a mean and no percentile.
WITH bucket AS (
  SELECT
    target, replica, model, metric, edge_set_id,
    time_bucket(to_seconds($step), ts, $origin::TIMESTAMP) AS ts,
    unnest(increases)               AS increase,
    generate_subscripts(increases, 1) AS place,
    sum_increase_seconds            AS seconds  -- of the whole row: the same beside each of its buckets
  FROM engine_histogram
  WHERE ts > $from_ts AND ts <= $to_ts
    AND metric IN (SELECT unnest($metrics::VARCHAR[]))
    AND target IN (SELECT unnest($targets::VARCHAR[]))
    AND increases IS NOT NULL AND interval_seconds <= $max_interval
), summed AS (
  SELECT
    target, replica, model, metric, edge_set_id, ts, place, sum(increase) AS increase,
    sum(seconds) AS seconds, sum(increase) FILTER (seconds IS NOT NULL) AS timed
  FROM bucket
  GROUP BY ALL
)
SELECT
  target, replica, model, metric, ts, any_value(e.edges_seconds) AS edges_seconds,
  list(increase ORDER BY place) AS increases, any_value(seconds) AS sum_seconds,
  arg_max(timed, place) AS timed
FROM summed JOIN edge_set AS e USING (edge_set_id)
GROUP BY target, replica, model, metric, edge_set_id, ts
ORDER BY target, replica, model, metric, ts
