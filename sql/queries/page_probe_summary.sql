-- purpose: how the probes of each target went over the look-back: exact percentiles, as each request is stored.
-- parameters: targets (list), as_of (UTC), look_back (seconds).
-- grain: target. Percentiles are of the probes that succeeded. cost: of those in the newest currency whose cost is
--        known, NULL where there are none; unpriced: requests with prices whose cost is not known (no token counts).
WITH shown AS (
  SELECT *, arg_max(currency, ts) OVER (PARTITION BY target) AS newest
  FROM probe
  WHERE target IN (SELECT unnest($targets::VARCHAR[])) AND ts > $as_of - to_seconds($look_back) AND ts <= $as_of
)
SELECT
  target,
  count(*)                         AS probes,
  count(*) FILTER (NOT ok)         AS failures,
  count(ttft_seconds) FILTER (ok)  AS timed,
  quantile_cont(ttft_seconds, 0.5) FILTER (ok)  AS ttft_p50,
  quantile_cont(ttft_seconds, 0.95) FILTER (ok) AS ttft_p95,
  quantile_cont(e2e_seconds, 0.5) FILTER (ok)   AS e2e_p50,
  quantile_cont(tpot_seconds, 0.5) FILTER (ok)  AS tpot_p50,
  sum(cost) FILTER (currency = newest)                     AS cost,
  any_value(newest)                                        AS currency,
  count(*) FILTER (cost IS NULL AND currency IS NOT NULL)  AS unpriced,
  arg_max(error, ts)               AS last_error  -- of those that have one
FROM shown
GROUP BY target
ORDER BY target
