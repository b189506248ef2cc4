-- purpose: the longest scrape interval of all targets, to bound how far back a newest sample is looked for; and
--          whether any target may be an engine on a known GPU, or has a configured reservation
-- grain: one row; NULLs without targets
SELECT max(interval_seconds) AS longest_seconds,
       bool_or(coalesce(len(gpus), 0) > 0 OR memory_reservation_ratio IS NOT NULL OR contains(labels, '"pod"'))
         OR EXISTS (SELECT 1 FROM engine_gpu WHERE source = 'process') AS may_reserve
FROM target WHERE gone_at IS NULL
