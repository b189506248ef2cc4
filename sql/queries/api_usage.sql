-- purpose: what each project used, as the gateways and engines count it. Of an engine behind a gateway both count the
-- same requests: choose one source (litellm, otel, target), do not add them.
-- parameters: from_ts, to_ts (UTC), project, environment, target (NULL: all)
-- grain: source + target + project + environment + model + key alias
SELECT
  source, target, project, environment, model, key_alias,
  sum(prompt_tokens)     AS prompt_tokens,
  sum(cached_tokens)     AS cached_tokens,
  sum(generation_tokens) AS generation_tokens,
  sum(requests)          AS requests,
  sum(gateway_spend_usd) AS gateway_spend_usd
FROM project_usage
WHERE ts > $from_ts AND ts <= $to_ts
  AND ($project::VARCHAR IS NULL OR project = $project)
  AND ($environment::VARCHAR IS NULL OR environment = $environment)
  AND ($target::VARCHAR IS NULL OR target = $target)
GROUP BY ALL
ORDER BY source, target, project, environment, model, key_alias
