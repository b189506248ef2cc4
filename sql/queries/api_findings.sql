-- purpose: changes of findings in a span, newest first
-- parameters: from_ts, to_ts (UTC), project, environment (NULL: all)
-- grain: change of a finding
SELECT * FROM finding
WHERE ts >= $from_ts AND ts < $to_ts
  AND ($project::VARCHAR IS NULL OR labels::JSON ->> 'project' = $project)
  AND ($environment::VARCHAR IS NULL OR labels::JSON ->> 'environment' = $environment)
ORDER BY ts DESC, name, subject
LIMIT 10000
