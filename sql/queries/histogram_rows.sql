-- purpose: every histogram row of one target, oldest first (for checking by hand and in tests)
-- parameters: target
-- grain: replica + model + metric, per scrape
SELECT ts, increases, interval_seconds, sum_increase_seconds, sum_seconds, count, replica, model, metric
FROM engine_histogram WHERE target = $target ORDER BY ts, replica, model, metric
