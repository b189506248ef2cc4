-- purpose: since when targets fail: the first failed scrape after the last good one.
-- parameters: targets (list of names), as_of (UTC), look_back (seconds).
-- grain: one row per target; last_ok_at is NULL where no scrape of the look-back was good.
WITH tries AS (
  SELECT target, ts, ok
  FROM scrape
  WHERE ts > $as_of - to_seconds($look_back) AND ts <= $as_of
    AND target IN (SELECT unnest($targets::VARCHAR[]))
), good AS (
  SELECT target, max(ts) FILTER (ok) AS last_ok_at FROM tries GROUP BY target
)
SELECT tries.target, any_value(good.last_ok_at) AS last_ok_at, min(tries.ts) AS failing_since
FROM tries JOIN good USING (target)
WHERE NOT tries.ok AND (good.last_ok_at IS NULL OR tries.ts > good.last_ok_at)
GROUP BY tries.target
