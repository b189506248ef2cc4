-- purpose: what the probes of a target have cost since a time, and how many have a cost that nobody knows
-- parameters: target, since (UTC), currency
-- grain: one row
SELECT
  coalesce(sum(cost) FILTER (currency = $currency), 0) AS spent,
  count(*) FILTER (cost IS NULL)                       AS unknown
FROM probe
WHERE target = $target AND ts >= $since
