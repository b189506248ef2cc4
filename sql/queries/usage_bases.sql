-- purpose: the raw values that each usage counter is counted up to: its newest base
-- parameters: since, until (UTC): the newest of this stretch; NULL: of all
-- grain: target + replica + usage key
SELECT target, replica, project, environment, model, key_alias, source, ts,
       prompt_tokens_total, cached_tokens_total, generation_tokens_total, requests_total, spend_usd_total
FROM usage_base
WHERE ($since IS NULL OR ts >= $since) AND ($until IS NULL OR ts <= $until)
QUALIFY row_number() OVER (
  PARTITION BY target, replica, project, environment, model, key_alias, source ORDER BY ts DESC
) = 1
