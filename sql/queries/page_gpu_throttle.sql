-- purpose: which clock-event bits a GPU had set, and for what share of the samples of each step.
-- parameters: gpu, mig, from_ts, to_ts (UTC), step (seconds).
-- grain: step and bit number (0 = 0x1, 1 = 0x2, …); steps and bits that were never set have no row.
SELECT
  time_bucket(to_seconds($step), ts) AS ts,
  bits.bit                           AS bit,
  avg(((throttle_reasons >> bits.bit) & 1)::DOUBLE) AS share
FROM gpu_sample
CROSS JOIN (SELECT unnest(range(0, 62)) AS bit) AS bits
WHERE gpu_uuid = $gpu AND mig_instance = $mig AND ts >= $from_ts AND ts <= $to_ts
  AND throttle_reasons IS NOT NULL
GROUP BY ALL
HAVING share > 0
ORDER BY ts, bit
