-- purpose: the newest sample of every GPU and MIG instance, with its target's project and environment
-- parameters: since (UTC; older samples are not looked at), project, environment, host (NULL: all)
-- grain: GPU or MIG instance
SELECT s.* EXCLUDE (target), s.target, t.project, t.environment
FROM gpu_sample s JOIN target t USING (target)
WHERE s.ts >= $since AND t.gone_at IS NULL
  AND ($project::VARCHAR IS NULL OR t.project = $project)
  AND ($environment::VARCHAR IS NULL OR t.environment = $environment)
  AND ($host::VARCHAR IS NULL OR s.host = $host)
QUALIFY row_number() OVER (PARTITION BY s.gpu_uuid, s.mig_instance ORDER BY s.ts DESC) = 1
ORDER BY s.host, s.gpu_index, s.mig_instance
