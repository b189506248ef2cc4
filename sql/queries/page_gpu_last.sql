-- purpose: one GPU's newest sample up to a moment: who it is, also when it is gone.
-- parameters: gpu, mig ('' for the whole GPU), as_of (UTC), look_back (seconds).
-- grain: one row or none.
SELECT s.*, t.interval_seconds, t.project, t.environment
FROM gpu_sample AS s
LEFT JOIN target AS t USING (target)
WHERE s.gpu_uuid = $gpu AND s.mig_instance = $mig
  AND s.ts <= $as_of AND s.ts > $as_of - to_seconds($look_back)
ORDER BY s.ts DESC
LIMIT 1
