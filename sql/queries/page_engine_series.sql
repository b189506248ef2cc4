-- purpose: one engine over time, reduced to steps: queue, KV cache, token and preemption rates.
-- A rate is the sum of the counter's increases (from 0 after a restart) over the time they cover; the
-- sample before the first is read too, so that the first step has its rate. Over more than $lead seconds
-- without a sample nothing is said: what an engine did while no one looked is not known.
-- parameters: target, replica, model (may be NULL), from_ts, to_ts (UTC), step (seconds), lead
-- (seconds; three intervals).
-- grain: step; a step without a sample has no row.
WITH samples AS (
  SELECT
    ts, requests_running, requests_waiting, requests_swapped, kv_cache_used_ratio, process_start_time_seconds,
    epoch(ts - lag(ts) OVER w) AS seconds,
    prompt_tokens_total     AS prompt,     lag(prompt_tokens_total) OVER w     AS prompt_before,
    generation_tokens_total AS generation, lag(generation_tokens_total) OVER w AS generation_before,
    preemptions_total       AS preempted,  lag(preemptions_total) OVER w       AS preempted_before
  FROM engine_sample
  WHERE target = $target AND replica = $replica AND model IS NOT DISTINCT FROM $model
    AND ts >= $from_ts - to_seconds($lead) AND ts <= $to_ts
  WINDOW w AS (ORDER BY ts)
)
SELECT
  time_bucket(to_seconds($step), ts) AS ts,
  avg(requests_waiting)    AS waiting,
  max(requests_waiting)    AS waiting_max,
  avg(requests_running)    AS running,
  max(requests_running)    AS running_max,
  max(requests_swapped)    AS swapped_max,
  avg(kv_cache_used_ratio) AS kv,
  min(kv_cache_used_ratio) AS kv_min,
  max(kv_cache_used_ratio) AS kv_max,
  sum(CASE WHEN prompt >= prompt_before THEN prompt - prompt_before ELSE prompt END)
    FILTER (prompt IS NOT NULL AND prompt_before IS NOT NULL AND seconds <= $lead)
    / sum(seconds) FILTER (prompt IS NOT NULL AND prompt_before IS NOT NULL AND seconds <= $lead)
    AS prompt_tokens_per_second,
  sum(CASE WHEN generation >= generation_before THEN generation - generation_before ELSE generation END)
    FILTER (generation IS NOT NULL AND generation_before IS NOT NULL AND seconds <= $lead)
    / sum(seconds) FILTER (generation IS NOT NULL AND generation_before IS NOT NULL AND seconds <= $lead)
    AS generation_tokens_per_second,
  sum(CASE WHEN preempted >= preempted_before THEN preempted - preempted_before ELSE preempted END)
    FILTER (preempted IS NOT NULL AND preempted_before IS NOT NULL AND seconds <= $lead) AS preemptions
FROM samples
WHERE ts >= $from_ts
GROUP BY ALL
ORDER BY ts
