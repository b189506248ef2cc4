-- purpose: one host's newest facts, and how busy its CPUs were over the look-back (increase of busy ÷ of all seconds).
-- parameters: host (its short name in lower case; an address whole), as_of (UTC), look_back (seconds).
-- grain: one row or none.
WITH recent AS (
  SELECT *
  FROM host_sample
  WHERE $host IN (lower(host), CASE WHEN NOT regexp_full_match(host, '[0-9]+[.].*') THEN lower(split_part(host, '.', 1)) END)
    AND ts > $as_of - to_seconds($look_back) AND ts <= $as_of
), steps AS (
  SELECT
    target, ts,
    cpu_busy_seconds_total - lag(cpu_busy_seconds_total) OVER w AS busy,
    cpu_seconds_total - lag(cpu_seconds_total) OVER w           AS whole
  FROM recent
  WINDOW w AS (PARTITION BY target ORDER BY ts)
), busy AS (  -- a restart of the host counts from 0: its first step is left out
  SELECT sum(busy) / nullif(sum(whole), 0) AS cpu_busy_ratio FROM steps WHERE whole > 0 AND busy >= 0
)
SELECT recent.*, busy.cpu_busy_ratio
FROM recent, busy
QUALIFY row_number() OVER (ORDER BY recent.ts DESC) = 1
