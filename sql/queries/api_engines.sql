-- purpose: the newest sample of every engine replica, with its target's project and environment
-- parameters: since (UTC; older samples are not looked at), project, environment, target (NULL: all)
-- grain: target + replica + model
SELECT s.*, t.project, t.environment
FROM engine_sample s JOIN target t USING (target)
WHERE s.ts >= $since AND t.gone_at IS NULL
  AND ($project::VARCHAR IS NULL OR t.project = $project)
  AND ($environment::VARCHAR IS NULL OR t.environment = $environment)
  AND ($target::VARCHAR IS NULL OR s.target = $target)
QUALIFY row_number() OVER (PARTITION BY s.target, s.replica, s.model ORDER BY s.ts DESC) = 1
ORDER BY s.target, s.replica, s.model
