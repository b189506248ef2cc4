-- purpose: a target's probes per step: medians with their lowest and highest, and how many failed.
-- parameters: target, from_ts, to_ts (UTC), step (seconds).
-- grain: step. Times are of the probes that succeeded.
SELECT
  time_bucket(to_seconds($step), ts) AS ts,
  count(*)                           AS probes,
  count(*) FILTER (NOT ok)           AS failures,
  median(ttft_seconds) FILTER (ok)   AS ttft,
  min(ttft_seconds) FILTER (ok)      AS ttft_min,
  max(ttft_seconds) FILTER (ok)      AS ttft_max,
  median(tpot_seconds) FILTER (ok)   AS tpot,
  min(tpot_seconds) FILTER (ok)      AS tpot_min,
  max(tpot_seconds) FILTER (ok)      AS tpot_max,
  median(e2e_seconds) FILTER (ok)    AS e2e,
  min(e2e_seconds) FILTER (ok)       AS e2e_min,
  max(e2e_seconds) FILTER (ok)       AS e2e_max
FROM probe
WHERE target = $target AND ts > $from_ts AND ts <= $to_ts
GROUP BY ALL
ORDER BY ts
