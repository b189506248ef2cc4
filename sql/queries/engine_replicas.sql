-- purpose: which replicas and models each target had at its last good scrape, and what their counters said
-- grain: target + replica + model
WITH last_ok AS (SELECT target, max(ts) AS ts FROM engine_sample GROUP BY target)
SELECT e.target, e.replica, e.model, e.ts, e.prompt_tokens_total, e.generation_tokens_total, e.finished_stop_total,
       e.process_start_time_seconds
FROM engine_sample e JOIN last_ok USING (target, ts)
