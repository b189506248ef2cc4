-- purpose: how many requests each latency histogram of one engine counted, and their mean.
-- parameters: target, replica, model (may be NULL), from_ts, to_ts (UTC), max_interval (seconds).
-- grain: metric.
SELECT
  metric,
  sum(increases[len(increases)])                                                     AS requests,
  sum(sum_increase_seconds) / nullif(sum(increases[len(increases)]), 0)              AS mean_seconds
FROM engine_histogram
WHERE target = $target AND replica = $replica AND model IS NOT DISTINCT FROM $model
  AND ts > $from_ts AND ts <= $to_ts
  AND increases IS NOT NULL AND sum_increase_seconds IS NOT NULL AND interval_seconds <= $max_interval
GROUP BY metric
ORDER BY metric
