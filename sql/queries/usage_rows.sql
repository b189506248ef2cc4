-- purpose: what was used on one target, as it was written
-- parameters: target
-- grain: project + environment + model + key alias + source, per row
SELECT ts, interval_seconds, project, environment, model, key_alias, source, prompt_tokens, cached_tokens,
       generation_tokens, requests, gateway_spend_usd
FROM project_usage
WHERE target = $target
ORDER BY ts, project, model, key_alias
