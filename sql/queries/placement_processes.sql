-- purpose: the processes on GPUs as each target showed them last
-- parameters: since, now
-- grain: target + GPU or MIG instance + process
WITH newest AS (SELECT target, max(ts) AS ts FROM gpu_process WHERE ts > $since AND ts <= $now GROUP BY target)
SELECT DISTINCT p.target, p.gpu_uuid, p.mig_instance, p.pid
FROM gpu_process p JOIN newest USING (target, ts)
