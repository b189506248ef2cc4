-- purpose: what the probes of a target have cost since midnight, how many have a cost that nobody knows, and what is
--          booked for the day (with those whose result was never stored)
-- parameters: target, since (00:00 UTC of the day), currency
-- grain: one row
SELECT
  coalesce(sum(cost) FILTER (currency = $currency), 0) AS spent,
  count(*) FILTER (cost IS NULL)                       AS unknown,
  coalesce((
    SELECT b.spent FROM probe_spending b
    WHERE b.target = $target AND b.currency = $currency AND b.day = CAST($since AS DATE)
  ), 0)                                                AS booked
FROM probe
WHERE target = $target AND ts >= $since
