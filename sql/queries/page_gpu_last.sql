-- purpose: one GPU's newest sample up to a moment, at most a week old: who it is, also when it is gone.
-- parameters: gpu, mig ('' for the whole GPU), as_of (UTC).
-- grain: one row or none.
SELECT s.*, t.interval_seconds, t.project, t.environment
FROM gpu_sample AS s
LEFT JOIN target AS t USING (target)
WHERE s.gpu_uuid = $gpu AND s.mig_instance = $mig
  AND s.ts <= $as_of AND s.ts > $as_of - INTERVAL 7 DAY
ORDER BY s.ts DESC
LIMIT 1
