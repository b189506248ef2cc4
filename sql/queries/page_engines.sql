-- purpose: the newest sample of every engine replica and model, its token rates over the look-back, and for how
-- long no token was counted although requests run (frozen_seconds; gauges can freeze, vllm#29928, #22545).
-- A rate is the sum of the counter's increases (from 0 after a restart) over the time they cover.
-- parameters: as_of (UTC), look_back (seconds), project and environment (NULL: all).
-- grain: target + replica + model.
WITH recent AS (
  SELECT s.*, t.project, t.environment, t.interval_seconds, t.gpus
  FROM engine_sample AS s JOIN target AS t USING (target)
  WHERE s.ts > $as_of - to_seconds($look_back) AND s.ts <= $as_of
    AND ($project IS NULL OR t.project = $project)
    AND ($environment IS NULL OR t.environment = $environment)
), steps AS (
  SELECT
    target, replica, model, ts, requests_running AS running,
    epoch(ts - lag(ts) OVER w) AS seconds,
    prompt_tokens_total     AS prompt,     lag(prompt_tokens_total) OVER w     AS prompt_before,
    generation_tokens_total AS generation, lag(generation_tokens_total) OVER w AS generation_before
  FROM recent
  WINDOW w AS (PARTITION BY target, replica, model ORDER BY ts)
), rates AS (
  SELECT
    target, replica, model,
    sum(CASE WHEN prompt >= prompt_before THEN prompt - prompt_before ELSE prompt END)
      FILTER (prompt IS NOT NULL AND prompt_before IS NOT NULL)
      / sum(seconds) FILTER (prompt IS NOT NULL AND prompt_before IS NOT NULL) AS prompt_tokens_per_second,
    sum(CASE WHEN generation >= generation_before THEN generation - generation_before ELSE generation END)
      FILTER (generation IS NOT NULL AND generation_before IS NOT NULL)
      / sum(seconds) FILTER (generation IS NOT NULL AND generation_before IS NOT NULL)
      AS generation_tokens_per_second,
    epoch(max(ts) - max(ts) FILTER (
      coalesce(running, 0) <= 0 OR generation_before IS NULL OR generation IS DISTINCT FROM generation_before
      OR prompt IS DISTINCT FROM prompt_before
    )) AS frozen_seconds
  FROM steps
  GROUP BY ALL
), newest AS (
  SELECT * FROM recent
  QUALIFY row_number() OVER (PARTITION BY target, replica, model ORDER BY ts DESC) = 1
)
SELECT newest.*, rates.prompt_tokens_per_second, rates.generation_tokens_per_second, rates.frozen_seconds
FROM newest
LEFT JOIN rates
  ON newest.target = rates.target AND newest.replica = rates.replica
  AND newest.model IS NOT DISTINCT FROM rates.model
ORDER BY newest.target, newest.replica, newest.model
