-- purpose: the requests that infermeter itself sent, and how each went
-- parameters: from_ts, to_ts (UTC), project, environment, target (NULL: all)
-- grain: request
SELECT p.*, t.project, t.environment
FROM probe p JOIN target t USING (target)
WHERE p.ts > $from_ts AND p.ts <= $to_ts
  AND ($project::VARCHAR IS NULL OR t.project = $project)
  AND ($environment::VARCHAR IS NULL OR t.environment = $environment)
  AND ($target::VARCHAR IS NULL OR p.target = $target)
ORDER BY p.ts, p.target
