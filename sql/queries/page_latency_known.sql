-- purpose: whether an engine has latency histograms at all: one row if any was stored in the hour before a moment.
-- parameters: target, replica, as_of (UTC).
-- grain: one row or none.
SELECT 1 AS known
FROM engine_histogram
WHERE target = $target AND replica = $replica AND ts <= $as_of AND ts > $as_of - INTERVAL 1 HOUR
LIMIT 1
