-- purpose: the memory of each GPU now: its newest sample, the newest with memory where one is in the window
-- parameters: since, now
-- grain: GPU or MIG instance; several targets and pod copies of one GPU are one row
WITH newest AS (
  SELECT ts, target, gpu_uuid, mig_instance, gpu_index, host, gpu_model, namespace, pod, memory_used_bytes,
         memory_free_bytes, memory_reserved_bytes, memory_total_bytes, memory_used_ratio
  FROM gpu_sample
  WHERE ts > $since AND ts <= $now
  QUALIFY row_number() OVER (
    PARTITION BY gpu_uuid, mig_instance ORDER BY memory_used_ratio IS NULL, ts DESC, target
  ) = 1
)
SELECT newest.*, coalesce(t.interval_seconds, 15) AS interval_seconds, t.project, t.environment
FROM newest LEFT JOIN target t USING (target)
ORDER BY gpu_uuid, mig_instance
