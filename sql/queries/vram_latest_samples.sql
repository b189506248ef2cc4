-- purpose: the memory of each GPU now: its newest sample, the newest with memory where one is in the window
-- parameters: since, now
-- grain: GPU or MIG instance; several targets and pod copies of one GPU are one row
-- Only row ids go through the grouping: half the work of a window function over all columns.
WITH newest AS (
  SELECT arg_min(rowid, (memory_used_ratio IS NULL, -epoch_us(ts), target)) AS newest_row
  FROM gpu_sample
  WHERE ts > $since AND ts <= $now
  GROUP BY gpu_uuid, mig_instance
)
SELECT s.ts, s.target, s.gpu_uuid, s.mig_instance, s.gpu_index, s.host, s.gpu_model, s.namespace, s.pod,
       s.memory_used_bytes, s.memory_free_bytes, s.memory_reserved_bytes, s.memory_total_bytes,
       s.memory_used_ratio, coalesce(t.interval_seconds, 15) AS interval_seconds, t.project, t.environment
FROM gpu_sample s JOIN newest ON s.rowid = newest.newest_row LEFT JOIN target t ON t.target = s.target
ORDER BY s.gpu_uuid, s.mig_instance
