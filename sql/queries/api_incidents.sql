-- purpose: incidents that were open at any time in a span, newest first
-- parameters: from_ts, to_ts (UTC), state (NULL: all), project, environment (NULL: all)
-- grain: incident
SELECT * FROM incident
WHERE started_at < $to_ts AND coalesce(resolved_at, 'infinity'::TIMESTAMP) >= $from_ts
  AND ($state::VARCHAR IS NULL OR state = $state)
  AND ($project::VARCHAR IS NULL OR labels::JSON ->> 'project' = $project)
  AND ($environment::VARCHAR IS NULL OR labels::JSON ->> 'environment' = $environment)
ORDER BY started_at DESC, incident_id
LIMIT 10000
