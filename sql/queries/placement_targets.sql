-- purpose: the targets that stand in the list, and what may tell which GPUs they are on
-- grain: target
SELECT target, role, url, labels, gpus, interval_seconds FROM target WHERE gone_at IS NULL ORDER BY target
