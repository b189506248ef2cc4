-- purpose: which replicas and models each target had at its last good scrape
-- grain: target + replica + model
WITH last_ok AS (SELECT target, max(ts) AS ts FROM engine_sample GROUP BY target)
SELECT e.target, e.replica, e.model, e.ts
FROM engine_sample e JOIN last_ok USING (target, ts)
