-- purpose: every target and its newest scrape: what Sources lists and what the freshness of a page is judged by.
-- parameters: as_of (UTC), look_back (seconds), project and environment (NULL: all).
-- grain: one row per target; the scrape columns are NULL where the look-back holds no scrape of it.
WITH newest AS (
  SELECT
    target,
    arg_max(scrape, ts) AS last,
    max(ts) FILTER (ok) AS last_ok_at,
    count(*)            AS scrapes,
    count(*) FILTER (NOT ok) AS failures
  FROM scrape
  WHERE ts > $as_of - to_seconds($look_back) AND ts <= $as_of
  GROUP BY target
)
SELECT
  t.target, t.kind, t.found_kind, t.role, t.url, t.project, t.environment, t.interval_seconds, t.gpus,
  t.memory_reservation_ratio, t.missing, t.notes, t.found_names, t.origin,
  t.first_seen, t.last_seen, t.gone_at,
  n.last.ts               AS last_at,
  n.last.ok               AS last_ok,
  n.last.http_status      AS http_status,
  n.last.duration_seconds AS duration_seconds,
  n.last.bytes            AS bytes,
  n.last.lines            AS lines,
  n.last.rejected_lines   AS rejected_lines,
  n.last.unowned_lines    AS unowned_lines,
  n.last.error            AS error,
  n.last_ok_at,
  n.scrapes,
  n.failures
FROM target AS t
LEFT JOIN newest AS n USING (target)
WHERE ($project IS NULL OR t.project = $project)
  AND ($environment IS NULL OR t.environment = $environment)
ORDER BY t.target
